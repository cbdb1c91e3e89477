"""Share groups with a stock client: confluent-kafka's share consumer."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tests.conformance.broker.clients import QUIET
from tests.conformance.broker.conftest import TIMEOUT_S, MakeTopic

RELEASE, REJECT = 2, 3


@contextmanager
def consuming(bootstrap: str, group: str, topic: str) -> Iterator[Any]:
    consumer = ShareConsumer(
        {
            **QUIET,
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
        }
    )
    consumer.subscribe([topic])
    yield consumer
    consumer.close()


def begin_at_start(admin: AdminClient, group: str) -> None:
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(TIMEOUT_S)


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({**QUIET, "bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number).encode())
    assert producer.flush(TIMEOUT_S) == 0


def poll(consumer: Any, count: int) -> list[Any]:
    """So many messages, however many polls they take."""
    found: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} messages came"
        found += [each for each in consumer.poll(0.5) or () if each.error() is None]
    return found


def accept(consumer: Any, messages: list[Any]) -> None:
    for message in messages:
        consumer.acknowledge(message)
    assert set(consumer.commit_sync(TIMEOUT_S).values()) == {None}


def test_members_share_one_partition_and_get_each_record_once(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    begin_at_start(admin, topic)
    produce(bootstrap, topic, 100)
    with consuming(bootstrap, topic, topic) as one, consuming(bootstrap, topic, topic) as other:
        found = poll(one, 100)
        accept(one, found)
        produce(bootstrap, topic, 1)
        more: list[Any] = []
        deadline = time.monotonic() + TIMEOUT_S
        while not more and time.monotonic() < deadline:
            for consumer in (other, one):
                got = [each for each in consumer.poll(0.2) or () if each.error() is None]
                if got:
                    accept(consumer, got)
                    more += got
        assert sorted(int(each.value()) for each in found) == list(range(100))
        assert [(each.offset(), each.value()) for each in more] == [(100, b"0")]


def test_a_released_record_comes_again_and_a_rejected_one_does_not(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    begin_at_start(admin, topic)
    produce(bootstrap, topic, 3)
    with consuming(bootstrap, topic, topic) as consumer:
        first, second, third = poll(consumer, 3)
        consumer.acknowledge(first, RELEASE)
        consumer.acknowledge(second, REJECT)
        consumer.acknowledge(third)
        assert set(consumer.commit_sync(TIMEOUT_S).values()) == {None}
        (again,) = poll(consumer, 1)
        assert again.offset() == first.offset()
        accept(consumer, [again])


def test_what_a_member_leaves_behind_goes_to_the_next(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    begin_at_start(admin, topic)
    produce(bootstrap, topic, 10)
    with consuming(bootstrap, topic, topic) as consumer:
        found = poll(consumer, 10)
        accept(consumer, found[:4])
    with consuming(bootstrap, topic, topic) as consumer:
        left = poll(consumer, 6)
        assert [each.offset() for each in left] == list(range(4, 10))
        accept(consumer, left)
