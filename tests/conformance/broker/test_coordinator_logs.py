"""The logs of the coordinators as others read them: with a stock client, and by Kafka's description of their records.

What is decoded here is decoded the way a lag monitor does it, with nothing of the broker's own code.
"""

import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.conformance.broker.clients import QUIET
from tests.conformance.broker.conftest import MakeTopic

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
WAIT_S = 60
OFFSET_COMMIT, GROUP_METADATA, CONSUMER_MEMBER = 1, 2, 5
COMPLETE_COMMIT = 4

Pair = tuple[bytes, bytes | None]


class Fields:
    """Fields of a record, one after another."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, code: str) -> int:
        kind = struct.Struct(">" + code)
        (value,) = kind.unpack_from(self._data, self._at)
        self._at += kind.size
        return int(value)

    def take(self, size: int) -> bytes:
        data = self._data[self._at : self._at + size]
        assert len(data) == size
        self._at += size
        return data

    def string(self) -> str:
        return self.take(self.number("h")).decode()

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def compact_string(self) -> str:
        return self.take(self.uvarint() - 1).decode()

    @property
    def rest(self) -> bytes:
        return self._data[self._at :]


def read_to_end(bootstrap: str, topic: str) -> Iterator[Pair]:
    """Keys and values of all partitions of a topic, up to where they end now."""
    reader = Consumer(
        {**QUIET, "bootstrap.servers": bootstrap, "group.id": "monitor", "enable.partition.eof": False}
        | {"enable.auto.commit": False, "isolation.level": "read_committed"}
    )
    try:
        names = [TopicPartition(topic, n) for n in reader.list_topics(topic, WAIT_S).topics[topic].partitions]
        ends = {name.partition: reader.get_watermark_offsets(name, WAIT_S)[1] for name in names}
        left = {partition: end for partition, end in ends.items() if end}
        reader.assign([TopicPartition(topic, partition, 0) for partition in left])
        deadline = time.monotonic() + WAIT_S
        while left:
            assert time.monotonic() < deadline, f"{left} are left"
            message = reader.poll(0.2)
            if message is not None and not message.error():
                key = message.key()
                assert key is not None
                yield key, message.value()
            for place in reader.position([TopicPartition(topic, partition) for partition in left]):
                if place.offset >= left[place.partition]:
                    del left[place.partition]
    finally:
        reader.close()


def wait_for(look: Callable[[], Any]) -> Any:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + WAIT_S
    while not (found := look()):
        assert time.monotonic() < deadline, "not found"
    return found


def committed_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    """What a lag monitor finds: the last offset and its metadata, by topic and partition."""
    found: dict[tuple[str, int], tuple[int, str]] = {}
    for raw_key, raw_value in read_to_end(bootstrap, OFFSETS):
        key = Fields(raw_key)
        if key.number("h") != OFFSET_COMMIT or key.string() != group:
            continue
        place = (key.string(), key.number("i"))
        if raw_value is None:
            found.pop(place, None)
            continue
        value = Fields(raw_value)
        assert value.number("h") == 4
        offset, _leader_epoch, metadata = value.number("q"), value.number("i"), value.compact_string()
        assert abs(time.time() * 1000 - value.number("q")) < 600_000
        found[place] = (offset, metadata)
    return found


def types_of(bootstrap: str, group: str) -> set[int]:
    """The types of records that there are of a group."""
    keys = [Fields(key) for key, _ in read_to_end(bootstrap, OFFSETS)]
    return {number for number, name in ((key.number("h"), key.string()) for key in keys) if name == group}


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({**QUIET, "bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(WAIT_S) == 0


@pytest.mark.parametrize(("protocol", "expected"), [("classic", GROUP_METADATA), ("consumer", CONSUMER_MEMBER)])
def test_a_lag_monitor_finds_what_a_group_has_committed(
    bootstrap: str, make_topic: MakeTopic, protocol: str, expected: int
) -> None:
    topic = make_topic()
    group = f"lagging-{topic}"
    produce(bootstrap, topic, 10)
    options = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    member = Consumer({**QUIET, "bootstrap.servers": bootstrap, "enable.auto.commit": False, **options})
    try:
        member.subscribe([topic])
        for _ in range(6):
            message = wait_for(lambda: member.poll(1))
            assert message.error() is None
        member.commit(message=message, asynchronous=False)
        assert committed_offsets(bootstrap, group) == {(topic, 0): (6, "")}
        (place,) = member.committed([TopicPartition(topic, 0)], WAIT_S)
        assert place.offset == 6
        assert expected in types_of(bootstrap, group)
    finally:
        member.close()


def test_offsets_of_transactions_are_read_once_they_are_committed(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    group = f"processing-{topic}"
    produce(bootstrap, topic, 3)
    member = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": group})
    producer = Producer({**QUIET, "bootstrap.servers": bootstrap, "transactional.id": f"id-{topic}"})
    producer.init_transactions(WAIT_S)
    for offset, is_commit in ((1, True), (2, False)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], member.consumer_group_metadata(), WAIT_S
        )
        if is_commit:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
    member.close()
    assert committed_offsets(bootstrap, group) == {(topic, 0): (1, "")}


def test_the_state_of_a_transactional_id_is_read(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    producer = Producer({**QUIET, "bootstrap.servers": bootstrap, "transactional.id": f"id-{topic}"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0)
    producer.commit_transaction(WAIT_S)
    states: list[int] = []
    for raw_key, raw_value in read_to_end(bootstrap, TRANSACTIONS):
        key = Fields(raw_key)
        if (key.number("h"), key.string()) != (0, f"id-{topic}") or raw_value is None:
            continue
        value = Fields(raw_value)
        assert value.number("h") == 1
        _producer_id, _epoch, timeout_ms = value.number("q"), value.number("h"), value.number("i")
        assert timeout_ms == 60_000
        states.append(value.number("b"))
        if states[-1] == 1:  # ongoing, with one topic and one partition
            assert (value.uvarint(), value.compact_string(), value.uvarint()) == (2, topic, 2)
            assert value.number("i") == 0
    assert states[:2] == [0, 1]
    assert states[-1] == COMPLETE_COMMIT


@pytest.mark.parametrize("topic", [OFFSETS, TRANSACTIONS])
def test_clients_may_read_these_topics_and_not_write_them(bootstrap: str, topic: str) -> None:
    errors: list[Any] = []
    producer = Producer({**QUIET, "bootstrap.servers": bootstrap})
    producer.produce(topic, b"v", key=b"k", partition=0, on_delivery=lambda error, _message: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    (error,) = errors
    assert error.name() == "TOPIC_EXCEPTION"
