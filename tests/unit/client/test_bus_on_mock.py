"""The bus against librdkafka's mock cluster: what is sent is read, in every way of reading."""

import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.client.bus import Bus
from barnabas.client.errors import DeliveryFailed, RecordNotFound, Unreachable
from barnabas.client.merging import Merge, merge_records
from barnabas.client.message import Message
from barnabas.client.partitioning import partition_for_key
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError, InvalidConfig, InvalidRequest, OffsetOutOfRange, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition

PARTITIONS = 4  # what the mock gives a topic


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid.uuid4().hex[:8]}"


def values(messages: list[Message]) -> list[bytes | None]:
    return [message.value for message in messages]


def test_a_record_is_read_as_it_was_sent(bus: Bus, topic: str) -> None:
    place = bus.send(topic, b"v", key=b"k", partition=2, headers={"a": b"1", "b": None}, timestamp_ms=1234).result(60)

    (message,) = bus.consume(topic, until_end=True)

    assert (place.topic, place.partition, place.offset) == (topic, 2, 0)
    assert (message.topic, message.partition, message.offset) == (topic, 2, 0)
    assert (message.key, message.value) == (b"k", b"v")
    assert message.headers == (("a", b"1"), ("b", None))


def test_text_is_sent_as_utf8_and_none_is_a_tombstone(bus: Bus, topic: str) -> None:
    bus.send(topic, "grüße", key="ä", partition=0)
    bus.send(topic, None, key=b"gone", partition=0)
    bus.flush(60)

    first, second = bus.consume(topic, until_end=True)

    assert (first.key, first.value) == ("ä".encode(), "grüße".encode())
    assert (second.key, second.value) == (b"gone", None)


def test_keys_go_where_our_own_hash_says(bus: Bus, topic: str) -> None:
    bus.send(topic, b"first", partition=0).result(60)
    keys = [f"key-{number}".encode() * (number % 5 + 1) for number in range(200)]
    sent = [bus.send(topic, b"", key=key) for key in keys]

    assert [one.result(60).partition for one in sent] == [partition_for_key(key, PARTITIONS) for key in keys]


def test_round_robin_takes_each_partition_in_its_turn(bus: Bus, topic: str) -> None:
    bus.send(topic, b"first", partition=0).result(60)

    sent = [bus.send(topic, b"x", key=b"same", partitioner="round-robin") for _ in range(8)]

    assert [one.result(60).partition for one in sent] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_a_full_queue_holds_the_sender_back_and_drops_nothing(mock_bootstrap: str, topic: str) -> None:
    config = {"queue.buffering.max.messages": "10", "linger.ms": "1"}
    with Bus(mock_bootstrap, delivery="at-least-once", config=config) as bus:
        sent = [bus.send(topic, b"%d" % number, partition=1) for number in range(500)]
        assert [one.result(60).offset for one in sent] == list(range(500))


def test_at_most_once_gives_no_offset(mock_bootstrap: str, topic: str) -> None:
    with Bus(mock_bootstrap, delivery="at-most-once") as bus:
        assert bus.send(topic, b"x", partition=0).result(60).offset == -1


def test_threads_may_send_together(bus: Bus, topic: str) -> None:
    def send_some() -> None:
        for _ in range(100):
            bus.send(topic, b"x")

    threads = [threading.Thread(target=send_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bus.flush(60)

    assert len(list(bus.consume(topic, until_end=True))) == 400


def test_reading_can_begin_at_an_offset_and_stop_after_some(bus: Bus, topic: str) -> None:
    for number in range(10):
        bus.send(topic, b"%d" % number, partition=0)
    bus.flush(60)

    assert values(list(bus.consume(topic, partitions=[0], offset=7, until_end=True))) == [b"7", b"8", b"9"]
    assert values(list(bus.consume(topic, partitions=[0], offset={0: 2}, max_records=2))) == [b"2", b"3"]
    assert values(list(bus.consume(topic, offset="latest", timeout=0.3))) == []
    assert values(list(bus.consume(topic, max_records=0))) == []


def test_following_sees_what_is_sent_later(bus: Bus, topic: str) -> None:
    bus.send(topic, b"old", partition=0).result(60)
    following = bus.consume(topic, offset="latest", max_records=1, timeout=10)
    bus.send(topic, b"new", partition=0).result(60)

    assert values(list(following)) == [b"new"]


@pytest.mark.parametrize("read", [Bus.consume, Bus.merge, Bus.read_arrow])
def test_a_topic_that_does_not_exist_is_refused_at_once(bus: Bus, read: Callable[..., object]) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="no-such-topic"):
        read(bus, "no-such-topic")


@pytest.mark.parametrize("read", [Bus.consume, Bus.merge, Bus.read_arrow])
def test_a_partition_that_does_not_exist_is_refused_at_once(bus: Bus, topic: str, read: Callable[..., object]) -> None:
    bus.send(topic, b"x").result(60)

    with pytest.raises(UnknownTopicOrPartition, match=r"partitions 0\.\.3, not 9"):
        read(bus, topic, partitions=[9])


def test_an_offset_out_of_range_is_refused(bus: Bus, topic: str) -> None:
    bus.send(topic, b"x", partition=0).result(60)

    with pytest.raises(OffsetOutOfRange):
        next(bus.consume(topic, partitions=[0], offset=99, timeout=10))
    with pytest.raises(OffsetOutOfRange, match="below 0"):
        bus.consume(topic, offset=-5)


def test_what_a_group_decides_cannot_be_asked_for_beside_it(bus: Bus, topic: str) -> None:
    bus.send(topic, b"x").result(60)

    asked: list[dict[str, Any]] = [{"partitions": [0]}, {"timestamp_ms": 5}, {"offset": 5}, {"offset": {0: 5}}]
    for fields in [*asked, {"mode": "exactly-once"}, {"max_poll_records": 0}]:
        with pytest.raises(InvalidRequest):
            bus.consume(topic, group="g", **fields)
    with pytest.raises(UnknownTopicOrPartition):
        bus.consume("not-there", group="g")


def test_one_record_is_got_by_its_id(bus: Bus, topic: str) -> None:
    for number in range(5):
        bus.send(topic, b"%d" % number, partition=1)
    bus.flush(60)

    assert [bus.get(topic, 1, offset).value for offset in (3, 0, 4)] == [b"3", b"0", b"4"]
    for offset in (-1, 5, 99):
        with pytest.raises(RecordNotFound, match=str(offset)):
            bus.get(topic, 1, offset)


def test_merging_gives_all_partitions_by_time(bus: Bus, topic: str) -> None:
    for number in range(40):
        bus.send(topic, b"%d" % number, partition=number * 7 % PARTITIONS, timestamp_ms=1000 + number // 2)
    bus.flush(60)

    merged = list(bus.merge(topic))

    order = [(one.timestamp_ms, one.partition, one.offset) for one in merged]
    assert order == sorted(order)
    assert len(order) == 40


def test_merging_reads_no_partition_far_ahead_and_loses_nothing(bus: Bus, topic: str) -> None:
    largest = 0

    class WatchedMerge(Merge):
        def take(self, may_be_empty: set[TopicPartition]) -> Iterator[Message]:
            nonlocal largest
            largest = max(largest, *(len(buffer) for buffer in self._buffers.values()))
            return super().take(may_be_empty)

    # Partition 1 is newer than all of partition 0: its buffer fills and must wait.
    for number in range(10_000):
        bus.send(topic, b"", partition=number % 2, timestamp_ms=1000 + number + number % 2 * 100_000)
    bus.flush(60)
    starts = {TopicPartition(topic, id_): 0 for id_ in range(2)}
    ends = dict.fromkeys(starts, 5000)

    merged = list(
        merge_records(
            Settings(bus.bootstrap), starts, ends, timeout_s=10, make_merge=partial(WatchedMerge, max_records=100)
        )
    )

    assert [(one.partition, one.offset) for one in merged] == [(id_, at) for id_ in range(2) for at in range(5000)]
    assert largest < 100 + 2 * 500  # a chunk may come on top


def test_a_merge_that_follows_goes_on_past_the_end(bus: Bus, topic: str) -> None:
    bus.send(topic, b"old", partition=0).result(60)
    following = bus.merge(topic, until_end=False, timeout=10)

    assert next(following).value == b"old"
    bus.send(topic, b"new", partition=3).result(60)
    assert next(following).value == b"new"


def test_columns_have_what_was_sent(bus: Bus, topic: str) -> None:
    for number in range(1000):
        bus.send(topic, b"v%d" % number, key=b"k%d" % number, partition=number % 2, headers={"h": b"1"})
    bus.flush(60)

    table = bus.read_arrow(topic).read_all()

    rows = {(row["partition"], row["offset"]): row for row in table.to_pylist()}
    assert len(rows) == 1000
    assert rows[1, 10]["value"] == b"v21"
    assert rows[1, 10]["key"] == b"k21"
    assert rows[1, 10]["headers"] == [{"key": "h", "value": b"1"}]


def test_columns_can_be_picked_and_bounded(bus: Bus, topic: str) -> None:
    for number in range(100):
        bus.send(topic, b"%d" % number, partition=0)
    bus.flush(60)

    table = bus.read_arrow(topic, partitions=[0], start=10, end=20, columns=["value", "partition"]).read_all()

    assert table.column_names == ["value", "partition"]
    assert table["value"].to_pylist() == [b"%d" % number for number in range(10, 20)]
    assert bus.read_arrow(topic, start="latest").read_all().num_rows == 0
    assert bus.read_arrow(topic, columns=["partition"]).read_all().num_rows == 100
    with pytest.raises(ValueError, match="pick each"):
        bus.read_arrow(topic, columns=["no"])


def test_an_offset_out_of_range_is_refused_in_columns_too(bus: Bus, topic: str) -> None:
    bus.send(topic, b"x", partition=0).result(60)

    with pytest.raises(OffsetOutOfRange, match="begins at offset 0"):
        bus.read_arrow(topic, partitions=[0], start=-7).read_all()


def test_a_record_that_cannot_be_delivered_fails_its_result_and_the_flush() -> None:
    with left_alone(delivery="at-least-once", config={"message.timeout.ms": "200"}) as bus:
        sent = bus.send("orders", b"x")

        with pytest.raises(DeliveryFailed, match="orders"):
            sent.result(60)
        with pytest.raises(DeliveryFailed, match="1 record was not delivered") as refusal:
            bus.flush(60)
        assert refusal.value.count == 1
    with pytest.raises(BarnabasError, match="closed"):
        bus.send("orders", b"y")


def test_waiting_for_a_result_has_a_limit() -> None:
    bus = left_alone(delivery="at-least-once")

    with pytest.raises(Unreachable, match="not acknowledged"):
        bus.send("orders", b"x").result(0.1)
    with pytest.raises(DeliveryFailed, match="not acknowledged in time") as refusal:
        bus.close(0.1)
    assert (refusal.value.count, bus.acknowledged_count) == (1, 0)


def left_alone(**settings: Any) -> Bus:
    """A bus whose brokers are gone, after it had contact with them."""
    cluster = AdminClient({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = cluster.list_topics(timeout=60).brokers.values()
    bus = Bus(f"{broker.host}:{broker.port}", **settings)
    bus.list_topics()
    del cluster
    return bus


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="no-such"):
        Bus("127.0.0.1:1", config={"no-such": "1"})
    with pytest.raises(InvalidConfig, match="delivery"):
        Bus("127.0.0.1:1", delivery="twice")
