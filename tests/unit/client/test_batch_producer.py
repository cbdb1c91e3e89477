"""The producer of batches against brokers that hang up, move leaders and refuse: each record once, in order."""

import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.produce.v8.request import ProduceRequest
from kio.serial import entity_reader

from barnabas.client import batch_producer
from barnabas.client.batch_producer import BatchProducer, Producer
from barnabas.client.brokers import Address, ClusterBroker, ClusterView, TopicMetadata
from barnabas.client.errors import DeliveryFailed, ProducerBroken, TransactionFenced, Unreachable
from barnabas.core.errors import InvalidRecord, RecordTooLarge, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records import record
from barnabas.core.records.batch import MAX_SEQUENCE, Codec, add_sequence, read_header
from barnabas.core.records.compression import compress
from barnabas.core.records.record import Record, decode_batch, encode_batch

PRODUCER = Producer(7, 2)
NODES = {n: ClusterBroker(n, "node", n) for n in range(3)}


@dataclass
class Cluster:
    """Three brokers, the leaders of the partitions, and what each partition has taken."""

    partition_count: int = 4
    leaders: dict[int, int] = field(default_factory=dict)
    logs: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    next_sequence: dict[int, int] = field(default_factory=dict)
    max_batch_bytes: int = 1 << 30
    refusals: list[int] = field(default_factory=list)  # codes for the next batches
    faults: Iterator[str] = field(default_factory=lambda: iter(()))
    is_down: bool = False
    missing_for: int = 0  # answers that know no topic
    requests: int = 0

    def leader(self, partition: int) -> int:
        return self.leaders.get(partition, partition % 3)

    def take(self, node: int, key: TopicPartition, data: bytes) -> int:
        """Append a batch as a broker would; the error code."""
        if self.leader(key.partition) != node:
            return 6
        if self.refusals:
            return self.refusals.pop(0)
        if len(data) > self.max_batch_bytes:
            return 10
        header = read_header(data)
        assert (header.producer_id, header.producer_epoch, header.base_offset) == (7, 2, 0)
        records = decode_batch(data)  # checks it all
        expected = self.next_sequence.get(key.partition, header.base_sequence)
        if header.base_sequence != expected:
            is_old = add_sequence(header.base_sequence, header.record_count) == expected
            return 46 if is_old else 45
        self.next_sequence[key.partition] = add_sequence(header.base_sequence, header.record_count)
        self.logs[key.partition] += [record.value or b"" for record in records]
        return 0


class FakeConnection:
    """Answers produce requests, at once; always readable."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self._cluster = cluster
        self._node = node
        self._read, self._write = os.pipe()
        os.write(self._write, b"x")
        self._answer: Any = None

    def fileno(self) -> int:
        return self._read

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)

    def send_written(self, api_key: int, body: list[Any]) -> None:
        assert api_key == 0
        self._cluster.requests += 1
        fault = next(self._cluster.faults, "")
        if fault == "before":
            raise Unreachable("lost before the request")
        request, _ = entity_reader(ProduceRequest)(memoryview(b"".join(body)), 0)
        topics = []
        for topic in request.topic_data:
            answers = []
            for each in topic.partition_data:
                place = TopicPartition(str(topic.name), int(each.index))
                code = self._cluster.take(self._node, place, bytes(each.records or b""))
                answers.append(SimpleNamespace(index=each.index, error_code=ErrorCode(code), error_message=None))
            topics.append(SimpleNamespace(name=topic.name, partition_responses=answers))
        if fault == "move":
            self._cluster.leaders = {n: random.randrange(3) for n in range(self._cluster.partition_count)}
        self._answer = None if fault == "after" else SimpleNamespace(responses=topics)

    def receive(self) -> Any:
        if self._answer is None:
            raise Unreachable("lost before the answer")
        return self._answer


class FakeBrokers:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._open: dict[Address, FakeConnection] = {}

    def another(self) -> "FakeBrokers":
        return FakeBrokers(self._cluster)

    def at(self, address: Address) -> FakeConnection:
        if self._cluster.is_down:
            raise Unreachable("nobody is there")
        if address not in self._open:
            self._open[address] = FakeConnection(self._cluster, address[1])
        return self._open[address]

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def metadata(self, topics: list[str], *, create: bool) -> ClusterView:
        if self._cluster.is_down:
            raise Unreachable("nobody is there")
        found = {}
        for topic in topics:
            leaders = {n: NODES[self._cluster.leader(n)] for n in range(self._cluster.partition_count)}
            is_missing = topic == "missing" or self._cluster.missing_for > 0
            found[topic] = TopicMetadata(3 if is_missing else 0, leaders)
        self._cluster.missing_for -= 1
        return ClusterView(list(NODES.values()), found)


@dataclass
class PlainBatch:
    """Records that are encoded when they are stamped."""

    values: list[bytes]
    buffer: memoryview = field(default_factory=lambda: memoryview(b""))
    codec: Codec = Codec.NONE
    level: int | None = None

    @property
    def record_count(self) -> int:
        return len(self.values)

    @record_count.setter
    def record_count(self, value: int) -> None:
        raise AssertionError

    def stamp(self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_transactional: bool) -> None:
        records = [Record(n, 5, None, value) for n, value in enumerate(self.values)]
        data = encode_batch(
            records,
            codec=self.codec,
            level=self.level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
        self.buffer = memoryview(data)


MakeProducer = Callable[..., BatchProducer]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_producer, "_RETRY_S", 0)


def make(cluster: Cluster, delivery_s: float = 30.0, contact_s: float = 0.0) -> BatchProducer:
    brokers: Any = FakeBrokers(cluster)
    return BatchProducer(brokers, PRODUCER, transactional_id="t", delivery_s=delivery_s, contact_s=contact_s)


def deliver(producer: BatchProducer, to: TopicPartition, values: list[bytes]) -> None:
    producer.send(to, PlainBatch(values))
    producer.flush()


def key(partition: int) -> TopicPartition:
    return TopicPartition("topic", partition)


faults = st.lists(st.sampled_from(["", "", "before", "after", "move"]), max_size=40)
sends = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=40)
limits = st.sampled_from([1 << 30, 90, 150])


@given(sends, faults, limits)
def test_each_record_is_taken_once_and_in_order(sent: list[tuple[int, int]], faults: list[str], limit: int) -> None:
    cluster = Cluster(faults=iter(faults), max_batch_bytes=limit)
    producer = make(cluster)
    expected: dict[int, list[bytes]] = defaultdict(list)

    for number, (partition, count) in enumerate(sent):
        values = [b"%d-%d" % (number, n) for n in range(count)]
        expected[partition] += values
        producer.send(key(partition), PlainBatch(values))
    producer.flush()
    producer.close()

    assert cluster.logs == expected


def test_a_request_has_a_batch_of_each_partition_of_its_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(partition_count=9, leaders=dict.fromkeys(range(9), 0))
    producer = make(cluster)
    monkeypatch.setattr(producer, "_advance", lambda _: None)
    for partition in range(9):
        producer.send(key(partition), PlainBatch([b"v"]))
    monkeypatch.undo()

    producer.flush()
    producer.close()

    assert cluster.requests == 1
    assert len(cluster.logs) == 9


def test_sequences_wrap() -> None:
    cluster = Cluster()
    producer = make(cluster)
    producer._sequences[key(0)] = MAX_SEQUENCE - 1

    for n in range(3):
        producer.send(key(0), PlainBatch([b"%d" % n] * 2))
    producer.flush()
    producer.close()

    assert len(cluster.logs[0]) == 6


def test_halves_are_compressed_as_the_whole_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def compress_noting(codec: Codec, data: bytes, level: int | None) -> bytes:
        levels.append(level)
        return compress(codec, data, level)

    levels: list[int | None] = []
    monkeypatch.setattr(record, "compress", compress_noting)
    cluster = Cluster(refusals=[10])
    producer = make(cluster)

    producer.send(key(0), PlainBatch([b"a", b"b"], codec=Codec.ZSTD, level=7))
    producer.flush()
    producer.close()

    assert cluster.logs == {0: [b"a", b"b"]}
    assert levels == [7, 7, 7]


def test_a_record_that_is_too_large_by_itself_is_refused() -> None:
    producer = make(Cluster(max_batch_bytes=100))

    with pytest.raises(RecordTooLarge, match=r"cannot send 1 record\(s\) to topic-0"):
        deliver(producer, key(0), [b"v", b"v" * 200])
    producer.close()


@pytest.mark.parametrize(
    ("code", "refusal"),
    [(45, ProducerBroken), (59, ProducerBroken), (47, TransactionFenced), (90, TransactionFenced), (87, InvalidRecord)],
)
def test_what_will_not_pass_is_raised(code: int, refusal: type[Exception]) -> None:
    producer = make(Cluster(refusals=[code]))

    with pytest.raises(refusal, match="topic-1"):
        deliver(producer, key(1), [b"v"])
    producer.close()


def test_what_may_pass_is_tried_again() -> None:
    cluster = Cluster(refusals=[3, 5, 6, 7, 19, 20, 51, 56])
    producer = make(cluster)

    producer.send(key(0), PlainBatch([b"v"]))
    producer.flush()
    producer.close()

    assert cluster.logs == {0: [b"v"]}


def test_it_is_not_tried_for_ever() -> None:
    producer = make(Cluster(refusals=[19] * 10_000), delivery_s=0.01)

    with pytest.raises(DeliveryFailed, match="topic-0"):
        deliver(producer, key(0), [b"v"])
    producer.close()


def test_a_cluster_that_is_gone_is_given_up() -> None:
    cluster = Cluster()
    producer = make(cluster, delivery_s=0.01)
    assert producer.partition_count("topic") == 4
    cluster.is_down = True

    with pytest.raises(DeliveryFailed, match=r"topic-0: not acknowledged within 0 s: nobody is there"):
        deliver(producer, key(0), [b"v"])
    producer.close()


def test_a_cluster_that_was_never_there() -> None:
    producer = make(Cluster(is_down=True))

    with pytest.raises(Unreachable, match="is a broker running there"):
        producer.partition_count("topic")


def test_a_topic_that_does_not_exist() -> None:
    with pytest.raises(UnknownTopicOrPartition, match="'missing' does not exist"):
        make(Cluster()).partition_count("missing")


def test_a_topic_that_is_only_about_to_exist_is_waited_for() -> None:
    assert make(Cluster(missing_for=3), contact_s=30).partition_count("topic") == 4


def test_a_topic_that_stays_missing_is_believed_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_producer, "_DISBELIEF_S", 0.05)

    with pytest.raises(UnknownTopicOrPartition, match="'missing' does not exist"):
        make(Cluster(), contact_s=30).partition_count("missing")


def test_a_topic_that_a_broker_forgets_for_a_moment_is_written_to() -> None:
    cluster = Cluster()
    producer = make(cluster)
    assert producer.partition_count("topic") == 4
    cluster.refusals, cluster.missing_for = [3], 3

    deliver(producer, key(0), [b"v"])
    producer.close()

    assert cluster.logs == {0: [b"v"]}


def test_a_topic_that_is_deleted_meanwhile_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_producer, "_DISBELIEF_S", 0.05)
    cluster = Cluster()
    producer = make(cluster)
    assert producer.partition_count("topic") == 4
    cluster.refusals, cluster.missing_for = [3], 1 << 60

    with pytest.raises(UnknownTopicOrPartition, match="'topic' does not exist"):
        deliver(producer, key(0), [b"v"])
    producer.close()


def test_partitions_that_a_topic_got_since_are_seen_when_they_are_asked_for_anew() -> None:
    cluster = Cluster()
    producer = make(cluster)
    assert producer.partition_count("topic") == 4
    cluster.partition_count = 7
    assert producer.partition_count("topic") == 4

    producer.forget_counts()

    assert producer.partition_count("topic") == 7


def test_send_waits_when_too_much_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_producer, "_ROOM_BYTES", 1000)
    cluster = Cluster()
    producer = make(cluster)

    for _ in range(50):
        producer.send(key(0), PlainBatch([b"v" * 400]))
        assert producer._queued_bytes <= 1000
    producer.flush()
    producer.close()

    assert len(cluster.logs[0]) == 50
