"""The producer of batches and its transactions against a real broker; read back by another client."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from barnabas.client import Bus
from barnabas.client.batch_producer import BatchProducer, Producer
from barnabas.client.batch_transactions import BatchTransaction, new_producer
from barnabas.client.brokers import Brokers
from barnabas.client.coordinators import Coordinators, commit_offsets, read_committed_offset
from barnabas.client.errors import ProducerBroken, TransactionFenced, Unreachable
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.records.arrow_encoding import BatchBuilder, EncodedBatch, RowColumns, bytes_column, null_column
from barnabas.core.records.batch import Codec

KEY = TopicPartition("t", 0)
GROUP = "progress"


class Client:
    """A producer with transactions of one id."""

    def __init__(self, bootstrap: str, transactional_id: str = "id") -> None:
        self.brokers = Brokers(Settings(bootstrap))
        self.coordinators = Coordinators(self.brokers)
        self.transaction = BatchTransaction(self.coordinators, transactional_id, timeout_ms=60_000, patience_s=10)
        self.transaction.initialise(10)
        self.producer = sender(self.brokers, self.transaction.producer, transactional_id)

    def send(self, *values: str, codec: Codec = Codec.NONE) -> None:
        self.transaction.add([KEY])
        self.producer.send(KEY, batch_of(*values, codec=codec))
        self.producer.flush()

    def progress(self) -> tuple[int, str] | None:
        return read_committed_offset(self.coordinators, GROUP, TopicPartition("p", 0), 5)

    def close(self) -> None:
        self.producer.close()
        self.brokers.close()


def sender(brokers: Brokers, producer: Producer, transactional_id: str | None) -> BatchProducer:
    return BatchProducer(brokers, producer, transactional_id=transactional_id, delivery_s=10, contact_s=5)


def batch_of(*values: str, codec: Codec = Codec.NONE) -> EncodedBatch:
    rows = RowColumns(null_column(len(values)), bytes_column(pa.array(values)), np.full(len(values), 5, np.int64))
    builder = BatchBuilder(1 << 20)
    builder.add(rows, np.arange(len(values)), 0)
    return builder.take(codec)


@pytest.fixture
def client(bus: Bus, barnabas_broker: Any) -> Iterator[Client]:
    bus.create_topic("t", partitions=1)
    bus.create_topic("p", partitions=1)
    made = Client(barnabas_broker.bootstrap)
    yield made
    made.close()


def values(bus: Bus) -> list[str]:
    return [(message.value or b"").decode() for message in bus.consume("t", until_end=True)]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_of_every_codec_is_read_by_another_client(bus: Bus, client: Client, codec: Codec) -> None:
    client.send("a", "ü" * 500, "", codec=codec)
    client.transaction.end(commit=True)

    assert values(bus) == ["a", "ü" * 500, ""]


def test_what_is_aborted_is_never_seen_and_transactions_go_on(bus: Bus, client: Client) -> None:
    for number, commit in enumerate([True, False, True]):
        client.send(f"{number}")
        client.transaction.end(commit=commit)

    assert values(bus) == ["0", "2"]


def test_an_end_that_is_asked_for_twice_is_made_once(bus: Bus, client: Client) -> None:
    client.send("a")
    client.transaction.end(commit=True)
    client.transaction.end(commit=True)

    assert values(bus) == ["a"]
    with pytest.raises(ProducerBroken, match="invalid txn state"):
        client.transaction.end(commit=False)


def test_offsets_are_committed_with_the_transaction(client: Client) -> None:
    assert client.progress() is None

    client.send("a")
    client.transaction.commit_offset(GROUP, TopicPartition("p", 0), 5, "rows=1")
    client.transaction.end(commit=False)
    assert client.progress() is None

    client.send("a")
    client.transaction.commit_offset(GROUP, TopicPartition("p", 0), 6, "rows=1")
    client.transaction.end(commit=True)
    assert client.progress() == (6, "rows=1")


def test_offsets_are_committed_from_outside_of_a_group(bus: Bus, client: Client) -> None:
    commit_offsets(client.coordinators, "outside", {KEY: 7, TopicPartition("p", 0): 8}, 5, doing="commit")

    found = {(each.topic, each.partition): each.offset for each in bus.describe_group("outside").partitions}
    assert found == {("t", 0): 7, ("p", 0): 8}


def test_a_group_with_members_is_not_moved_from_outside(bus: Bus, client: Client) -> None:
    bus.send("t", "v").result(60)
    with closing(bus.consume("t", group="members", offset="earliest")) as reading:
        next(reading)
        with pytest.raises(BarnabasError, match="cannot commit"):
            commit_offsets(client.coordinators, "members", {KEY: 0}, 5, doing="commit")


def test_an_open_transaction_holds_the_reading_of_its_offsets_back(bus: Bus, client: Client) -> None:
    client.send("a")
    client.transaction.commit_offset(GROUP, TopicPartition("p", 0), 5, "")

    with pytest.raises(Unreachable, match="unstable offset commit"):
        read_committed_offset(client.coordinators, GROUP, TopicPartition("p", 0), 0.1)


def test_the_next_of_an_id_aborts_what_was_open_and_fences_the_one_before(
    bus: Bus, client: Client, barnabas_broker: Any
) -> None:
    client.send("of the first")

    second = Client(barnabas_broker.bootstrap)
    second.send("of the second")
    second.transaction.end(commit=True)
    second.close()

    assert values(bus) == ["of the second"]
    with pytest.raises(TransactionFenced):
        client.send("too late")
    with pytest.raises(TransactionFenced):
        client.transaction.end(commit=True)
    assert values(bus) == ["of the second"]


def test_without_transactions(bus: Bus, client: Client) -> None:
    producer = sender(client.brokers, new_producer(client.brokers, 5), None)
    for number in range(10):
        producer.send(KEY, batch_of(f"{number}"))
    producer.flush()
    producer.close()

    assert values(bus) == [str(number) for number in range(10)]


def test_a_batch_larger_than_the_topic_takes_is_sent_in_parts(bus: Bus, client: Client) -> None:
    bus.alter_topic("t", set_={"max.message.bytes": "2000"})
    sent = [f"{number:03}" * 100 for number in range(40)]

    client.send(*sent)
    client.transaction.end(commit=True)

    assert values(bus) == sent


def test_a_timeout_that_the_cluster_does_not_allow_is_refused(client: Client) -> None:
    other = BatchTransaction(client.coordinators, "other", timeout_ms=10**9, patience_s=5)

    with pytest.raises(BarnabasError, match="invalid transaction timeout"):
        other.initialise(5)


def test_a_cluster_that_is_not_there() -> None:
    brokers = Brokers(Settings("127.0.0.1:1"))

    with pytest.raises(Unreachable, match="is a broker running there"):
        new_producer(brokers, 0.1)
    with pytest.raises(Unreachable, match="begin transactions of 'id' within 0 s"):
        BatchTransaction(Coordinators(brokers), "id", timeout_ms=1000, patience_s=0.1).initialise(0.1)
