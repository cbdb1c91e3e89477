"""Dead letters of jobs that stock clients and `Bus.queue` reject, and their redrive."""

import time
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from barnabas.client import Bus, Message
from barnabas.core.errors import InvalidConfig, InvalidRequest
from tests.conformance.broker.clients import QUIET
from tests.conformance.broker.conftest import TIMEOUT_S, MakeTopic
from tests.conformance.broker.test_shares import REJECT, consuming, poll

ALLOWED = {"errors.deadletterqueue.group.enable": "true"}


def set_group(admin: AdminClient, group: str, **settings: str) -> None:
    """Alter settings of a group; two underscores stand for a dot."""
    entries = [
        ConfigEntry(name.replace("__", "."), text, incremental_operation=AlterConfigOpType.SET)
        for name, text in {"share__auto__offset__reset": "earliest", **settings}.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(TIMEOUT_S)


def with_letters(admin: AdminClient, bus: Bus, group: str, *, copies: bool = True, **settings: str) -> str:
    """A group with dead letters, in a topic that it returns."""
    letters = f"dlq.{group}"
    bus.create_topic(letters, partitions=1, config=ALLOWED)
    copied = str(copies).lower()
    set_group(
        admin,
        group,
        errors__deadletterqueue__topic__name=letters,
        errors__deadletterqueue__copy__record__enable=copied,
        **settings,
    )
    return letters


def read(bus: Bus, topic: str) -> list[Message]:
    return list(bus.consume(topic, until_end=True))


def wait_for(bus: Bus, topic: str, count: int) -> list[Message]:
    deadline = time.monotonic() + TIMEOUT_S
    while len(found := read(bus, topic)) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
    return found


def reject_all(bus: Bus, topic: str, group: str, count: int) -> None:
    queue = bus.queue(topic, group=group, timeout=TIMEOUT_S)
    with queue:
        for number, job in enumerate(queue, 1):
            job.reject()
            if number == count:
                break


def test_a_record_that_a_share_consumer_rejects_gets_a_letter(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    producer = Producer({**QUIET, "bootstrap.servers": bootstrap})
    producer.produce(topic, b"good")
    producer.produce(topic, b"bad", key=b"k", headers=[("trace", b"7")])
    assert producer.flush(TIMEOUT_S) == 0
    with Bus(bootstrap) as bus:
        letters = with_letters(admin, bus, topic)
        with consuming(bootstrap, topic, topic) as consumer:
            good, bad = poll(consumer, 2)
            consumer.acknowledge(good)
            consumer.acknowledge(bad, REJECT)
            assert set(consumer.commit_sync(TIMEOUT_S).values()) == {None}
        (letter,) = wait_for(bus, letters, 1)
    assert (letter.key, letter.value) == (b"k", b"bad")
    assert dict(letter.headers) == {
        "trace": b"7",
        "__dlq.errors.topic": topic.encode(),
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"1",
        "__dlq.errors.group": topic.encode(),
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": b"Offset rejected by client.",
        "barnabas-dlq-copied": b"true",
    }


@pytest.mark.parametrize("copies", [True, False], ids=["copies", "headers alone"])
def test_letters_are_redriven_once_to_where_they_came_from(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic, copies: bool
) -> None:
    topic = make_topic(partitions=3)
    with Bus(bootstrap) as bus:
        letters = with_letters(admin, bus, topic, copies=copies)
        for number in range(9):
            bus.send(topic, str(number), key=f"k{number}", headers={"n": str(number)}, partition=number % 3)
        bus.flush()
        reject_all(bus, topic, topic, 9)
        wait_for(bus, letters, 9)
        assert sum(each.depth or 0 for each in bus.queues.stats(topic) if each.is_letters) == 9
        assert bus.queues.redrive(topic, dry_run=True).sent == {topic: 9}
        assert bus.queues.redrive(topic, limit=4).sent == {topic: 4}
        assert bus.queues.redrive(topic).sent == {topic: 5}
        assert bus.queues.redrive(topic).sent == {}
        assert sum(each.depth or 0 for each in bus.queues.stats(topic) if each.is_letters) == 0
        found = read(bus, topic)
        place: Callable[[Message], tuple[object, ...]] = lambda each: (  # noqa: E731 - short, and used twice
            each.partition,
            each.key,
            each.value,
            each.headers,
        )
        assert set(Counter(place(each) for each in found).values()) == {2}


def test_a_letter_that_is_there_twice_is_redriven_once_and_those_of_others_are_left_alone(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    with Bus(bootstrap) as bus:
        letters = with_letters(admin, bus, topic)
        bus.send(topic, "job")
        bus.flush()
        reject_all(bus, topic, topic, 1)
        (letter,) = wait_for(bus, letters, 1)
        bus.send(letters, letter.value, headers=letter.headers)
        other = [(name, b"other" if name == "__dlq.errors.group" else value) for name, value in letter.headers]
        bus.send(letters, letter.value, headers=other)
        bus.send(letters, "not a letter")
        gone = [(name, b"99" if name == "__dlq.errors.offset" else value) for name, value in letter.headers]
        bus.send(letters, None, headers=[each for each in gone if each[0] != "barnabas-dlq-copied"])
        bus.flush()
        done = bus.queues.redrive(topic)
        assert (done.sent, done.duplicates, done.others, done.gone) == ({topic: 1}, 1, 2, 1)
        assert [each.value for each in read(bus, topic)] == [b"job", b"job"]


def test_a_job_that_keeps_failing_is_dead_lettered_after_its_last_delivery(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    with Bus(bootstrap) as bus:
        letters = with_letters(admin, bus, topic, share__delivery__count__limit="2", share__retry__backoff__ms="100")
        bus.send(topic, "job")
        bus.flush()
        counts = []
        with bus.queue(topic, group=topic, timeout=TIMEOUT_S) as queue:
            for job in queue:
                counts.append(job.delivery_count)
                job.release()
                if len(counts) == 2:
                    break
        (letter,) = wait_for(bus, letters, 1)
        assert counts == [1, 2]
        assert dict(letter.headers)["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."
        (stats,) = [each for each in bus.queues.stats(topic) if not each.is_letters]
        assert (stats.retrying, stats.archiving) == (0, 0)


def test_what_cannot_be_is_refused(bootstrap: str, admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1)
    with Bus(bootstrap) as bus:
        set_group(admin, topic)
        with pytest.raises(InvalidRequest, match="has no dead letters"):
            bus.queues.redrive(topic)
        with pytest.raises(InvalidConfig, match="allowed: true or false"):
            bus.alter_topic(topic, set_={"errors.deadletterqueue.group.enable": "perhaps"})
