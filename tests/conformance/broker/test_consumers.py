"""Consumers of given partitions: from where they start, to where they seek, what they are told of offsets and times."""

from collections.abc import Callable
from typing import Any, Final

import confluent_kafka
import pytest

from tests.conformance.broker.clients import CLIENTS, TIMEOUT_S, Message

START_MS = 1_700_000_000_000
# librdkafka wants a group's name even of a consumer that joins none.
BY_ASSIGNMENT: Final[dict[str, Any]] = {"group.id": "not used", "enable.auto.commit": False}
MakeTopic = Callable[..., str]

every_client = pytest.mark.parametrize("name", CLIENTS)


@pytest.fixture
def filled(bootstrap: str, make_topic: MakeTopic) -> str:
    """A topic of two partitions with 100 records each, a second apart, in several batches."""
    topic = make_topic(2)
    for start in range(0, 100, 25):
        messages = [
            Message(b"%d" % n, timestamp_ms=START_MS + 1000 * n, partition=partition)
            for n in range(start, start + 25)
            for partition in (0, 1)
        ]
        CLIENTS["librdkafka"].produce(bootstrap, topic, messages)
    return topic


@every_client
def test_reading_from_the_beginning_gives_everything_in_order(bootstrap: str, filled: str, name: str) -> None:
    with CLIENTS[name].consume(bootstrap, filled, [0, 1]) as consumer:
        reads = consumer.read(200)
    for partition in (0, 1):
        found = [(read.offset, read.value) for read in reads if read.partition == partition]
        assert found == [(n, b"%d" % n) for n in range(100)]


@every_client
def test_a_consumer_seeks_into_the_middle_of_a_batch_and_back(bootstrap: str, filled: str, name: str) -> None:
    with CLIENTS[name].consume(bootstrap, filled) as consumer:
        assert [read.offset for read in consumer.read(3)] == [0, 1, 2]
        for offset in (60, 10, 99):
            consumer.seek(0, offset)
            assert [read.offset for read in consumer.read(1)] == [offset]


@every_client
def test_a_consumer_learns_where_a_partition_begins_and_ends(bootstrap: str, filled: str, name: str) -> None:
    with CLIENTS[name].consume(bootstrap, filled, [0, 1]) as consumer:
        assert consumer.beginning_offsets([0, 1]) == {0: 0, 1: 0}
        assert consumer.end_offsets([0, 1]) == {0: 100, 1: 100}


@every_client
def test_a_time_is_found_as_the_first_record_not_before_it(bootstrap: str, filled: str, name: str) -> None:
    with CLIENTS[name].consume(bootstrap, filled, [0, 1]) as consumer:
        assert consumer.offsets_for_times({0: START_MS, 1: START_MS + 41_500}) == {0: 0, 1: 42}
        assert consumer.offsets_for_times({0: START_MS + 42_000, 1: 0}) == {0: 42, 1: 0}
        assert consumer.offsets_for_times({0: START_MS + 99_001, 1: START_MS + 99_000}) == {0: None, 1: 99}


@every_client
def test_a_read_committed_consumer_reads_what_is_in_no_transaction(bootstrap: str, filled: str, name: str) -> None:
    with CLIENTS[name].consume(bootstrap, filled, [0, 1], is_committed=True) as consumer:
        assert len(consumer.read(200)) == 200
        assert consumer.end_offsets([0]) == {0: 100}


@every_client
def test_a_paused_partition_is_silent_until_it_is_resumed(bootstrap: str, filled: str, name: str) -> None:
    with CLIENTS[name].consume(bootstrap, filled, [0, 1]) as consumer:
        consumer.pause(1)
        assert {read.partition for read in consumer.read(100)} == {0}
        assert consumer.read(1, timeout_s=0.3) == []
        consumer.resume(1)
        assert [read.offset for read in consumer.read(100)] == list(range(100))


@every_client
def test_a_waiting_consumer_hears_of_a_new_record_at_once(bootstrap: str, topic: str, name: str) -> None:
    client = CLIENTS[name]
    with client.consume(bootstrap, topic) as consumer:
        assert consumer.read(1, timeout_s=0.2) == []
        for n in range(3):
            client.produce(bootstrap, topic, [Message(b"%d" % n)])
            assert [read.value for read in consumer.read(1)] == [b"%d" % n]


def test_a_consumer_that_asks_for_an_offset_outside_of_the_log_is_told_so(bootstrap: str, filled: str) -> None:
    consumer = confluent_kafka.Consumer({**BY_ASSIGNMENT, "bootstrap.servers": bootstrap, "auto.offset.reset": "error"})
    try:
        consumer.assign([confluent_kafka.TopicPartition(filled, 0, 1000)])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET
        assert "out of range" in error.str().lower()
    finally:
        consumer.close()


def test_a_consumer_that_may_reset_goes_to_the_end_instead(bootstrap: str, filled: str) -> None:
    consumer = confluent_kafka.Consumer(
        {**BY_ASSIGNMENT, "bootstrap.servers": bootstrap, "auto.offset.reset": "latest"}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(filled, 0, 1000)])
        assert consumer.poll(1) is None
        CLIENTS["librdkafka"].produce(bootstrap, filled, [Message(b"after", partition=0)])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert (message.error(), message.offset(), message.value()) == (None, 100, b"after")
    finally:
        consumer.close()


@pytest.mark.parametrize("fetch_bytes", [1, 1000, 100_000])
def test_however_little_a_consumer_fetches_it_comes_through(bootstrap: str, topic: str, fetch_bytes: int) -> None:
    """One whole batch comes even where it is over the limit, or such a reader would never get on."""
    for n in range(5):
        messages = [Message(bytes([n]) * 10_000, partition=0) for _ in range(4)]
        CLIENTS["librdkafka"].produce(bootstrap, topic, messages)
    consumer = confluent_kafka.Consumer(
        {
            **BY_ASSIGNMENT,
            "bootstrap.servers": bootstrap,
            "message.max.bytes": 1_000_000,
            "max.partition.fetch.bytes": fetch_bytes,
            "fetch.max.bytes": 1_000_000,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        messages_read = consumer.consume(20, TIMEOUT_S)
        assert [message.offset() for message in messages_read] == list(range(20))
    finally:
        consumer.close()
