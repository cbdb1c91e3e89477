"""Consume: where it starts, groups, flow control, cancellation. Over a real node."""

import gc
from typing import Any

import grpc
import pytest

from barnabas.edge.grpc.consuming import _Stream
from barnabas.edge.grpc.watching import _Watcher
from barnabas.testing.embedded import EmbeddedBroker
from barnabas.v1 import bus_pb2
from tests.conformance.grpc.clients import TIMEOUT_S, Client, Consumer, refusal, wait_until

S = grpc.StatusCode


def options(topic: str, **more: Any) -> Any:
    return bus_pb2.ConsumeOptions(topics=[bus_pb2.TopicSelection(topic=topic)], **more)


def values(records: Any) -> list[bytes]:
    return [each.value for each in records.records]


def test_records_come_as_they_are_written(client: Client) -> None:
    topic = client.new_topic()
    consumer = Consumer(client, options(topic))
    assert [each.offset for each in consumer.next("assigned").positions] == [0]
    for number in range(3):
        client.produce(topic, [b"%d" % number])
        records = consumer.next("records")
        assert values(records) == [b"%d" % number]
        assert (records.next_offset, records.high_watermark) == (number + 1, number + 1)
    consumer.finish()


def test_reading_starts_where_it_is_asked_to(client: Client) -> None:
    topic = client.new_topic()
    for time_ms in (1_000, 2_000, 3_000):
        record = bus_pb2.NewRecord(value=b"%d" % time_ms, timestamp_ms=time_ms)
        client.stub.Produce(bus_pb2.ProduceRequest(topic=topic, records=[record]), timeout=TIMEOUT_S)

    def first(start: Any) -> list[bytes]:
        return [each.value for each in client.read_all(topic, start=start)]

    assert first(bus_pb2.Start(earliest=bus_pb2.Earliest())) == [b"1000", b"2000", b"3000"]
    assert first(bus_pb2.Start(offset=1)) == [b"2000", b"3000"]
    assert first(bus_pb2.Start(timestamp_ms=2_500)) == [b"3000"]
    assert first(bus_pb2.Start(timestamp_ms=9_000)) == []
    assert first(bus_pb2.Start(latest=bus_pb2.Latest())) == []


def test_single_partitions_are_read_from_starts_of_their_own(client: Client) -> None:
    topic = client.new_topic(partitions=3)
    records = [bus_pb2.NewRecord(value=b"%d" % at, partition=at % 3) for at in range(9)]
    client.stub.Produce(bus_pb2.ProduceRequest(topic=topic, records=records), timeout=TIMEOUT_S)
    asked = bus_pb2.ConsumeOptions(
        topics=[
            bus_pb2.TopicSelection(
                topic=topic,
                partitions=[
                    bus_pb2.PartitionSelection(partition=0),
                    bus_pb2.PartitionSelection(partition=2, start=bus_pb2.Start(offset=2)),
                ],
            )
        ],
        until_end=True,
        consistency=bus_pb2.CONSISTENCY_LEADER,
    )
    consumer = Consumer(client, asked)
    found = {each.records.partition: values(each.records) for each in consumer.stream if each.HasField("records")}
    assert found == {0: [b"0", b"3", b"6"], 2: [b"8"]}
    consumer.cancel()


def test_no_more_is_sent_than_may_be_outstanding(client: Client) -> None:
    topic = client.new_topic()
    client.produce(topic, [b"%d" % at for at in range(100)])
    consumer = Consumer(client, options(topic, max_outstanding_records=10, max_batch_records=4))
    seen = [consumer.next("records") for _ in range(3)]
    assert [len(each.records) for each in seen] == [4, 4, 2]
    consumer.acknowledge(seen[0])  # four more fit, and no fifth
    assert len(consumer.next("records").records) == 4
    consumer.acknowledge(seen[2])
    assert [len(consumer.next("records").records) for _ in range(2)] == [4, 2]
    consumer.finish()


def test_bytes_are_limited_as_well_but_one_record_always_comes(client: Client) -> None:
    topic = client.new_topic()
    client.produce(topic, [b"x" * 5_000] * 4)
    consumer = Consumer(client, options(topic, max_outstanding_bytes=6_000))
    for _ in range(4):
        records = consumer.next("records")
        assert 1 <= len(records.records) <= 2
        consumer.acknowledge(records)
        if records.next_offset == 4:
            break
    consumer.finish()


def test_a_reader_that_does_not_read_holds_nobody_up(broker: EmbeddedBroker, client: Client) -> None:
    topic = client.new_topic()
    for _ in range(8):
        client.produce(topic, [b"x" * 400_000] * 5)
    with grpc.insecure_channel(broker.grpc) as channel:
        slow = Consumer(Client(channel), options(topic, ack_mode=bus_pb2.ACK_MODE_AUTOMATIC))
        slow.next("records")  # and nothing more
        assert len(client.read_all(topic)) == 40
        slow.cancel()


def test_a_group_shares_out_partitions_and_goes_on_where_it_was(broker: EmbeddedBroker, client: Client) -> None:
    topic, group = client.new_topic(partitions=2), "shared"
    records = [bus_pb2.NewRecord(value=b"%d" % at, partition=at % 2) for at in range(4)]
    client.stub.Produce(bus_pb2.ProduceRequest(topic=topic, records=records), timeout=TIMEOUT_S)
    consumer = Consumer(client, options(topic, group=group, commit_interval_ms=10))
    member_id = consumer.next("assigned").member_id
    for _ in range(2):
        consumer.acknowledge(consumer.next("records"))
    committed: dict[int, int] = {}
    while len(committed) < 2:
        told = consumer.next("committed")
        assert not told.HasField("error")
        committed.update((each.partition, each.offset) for each in told.positions)
    assert committed == {0: 2, 1: 2}
    described = broker.bus.describe_group(group)
    assert [each.member_id for each in described.members] == [member_id]
    assert [each.lag for each in described.partitions] == [0, 0]
    consumer.finish()
    wait_until(lambda: not broker.bus.describe_group(group).members)
    client.stub.Produce(bus_pb2.ProduceRequest(topic=topic, records=records[:1]), timeout=TIMEOUT_S)
    again = Consumer(client, options(topic, group=group))
    assert {each.partition: each.offset for each in again.next("assigned").positions} == {0: 2, 1: 2}
    assert values(again.next("records")) == [b"0"]
    again.finish()


def test_a_second_member_takes_over_some_partitions(client: Client) -> None:
    topic, group = client.new_topic(partitions=2), "two-members"
    first = Consumer(client, options(topic, group=group))
    assert len(first.next("assigned").positions) == 2
    second = Consumer(client, options(topic, group=group))
    assert len(first.next("revoked").partitions) == 1
    taken = second.next("assigned")
    while not taken.positions:
        taken = second.next("assigned")
    assert len(taken.positions) == 1
    first.cancel()
    second.cancel()


def test_what_was_acknowledged_is_committed_when_a_client_goes_away(broker: EmbeddedBroker, client: Client) -> None:
    topic, group = client.new_topic(), "gone"
    client.produce(topic, [b"a", b"b", b"c"])
    with grpc.insecure_channel(broker.grpc) as channel:
        consumer = Consumer(
            Client(channel), options(topic, group=group, max_outstanding_records=1, commit_interval_ms=600_000)
        )
        consumer.acknowledge(consumer.next("records"))
        consumer.next("records")  # which comes after the first was acknowledged
        consumer.cancel()
    wait_until(lambda: not broker.bus.describe_group(group).members)
    (lag,) = broker.bus.describe_group(group).partitions
    assert (lag.offset, lag.lag) == (1, 2)


def test_automatic_acknowledgements_are_committed(broker: EmbeddedBroker, client: Client) -> None:
    topic, group = client.new_topic(), "automatic"
    client.produce(topic, [b"a", b"b"])
    asked = options(topic, group=group, ack_mode=bus_pb2.ACK_MODE_AUTOMATIC, commit_interval_ms=10)
    consumer = Consumer(client, asked)
    assert [each.offset for each in consumer.next("committed").positions] == [2]
    consumer.cancel()


def test_streams_that_end_leave_nothing_behind(broker: EmbeddedBroker, client: Client) -> None:
    topic = client.new_topic()
    client.produce(topic, [b"a"])
    for _ in range(10):
        consumer = Consumer(client, options(topic))
        consumer.next("records")
        consumer.cancel()
    stream = client.stub.Watch(bus_pb2.WatchRequest(), timeout=TIMEOUT_S)
    next(stream)
    stream.cancel()
    wait_until(lambda: _open_streams() == 0)
    assert len(client.read_all(topic)) == 1


def _open_streams() -> int:
    """How many streams servers in this process have open, with their partitions and watchers."""
    gc.collect()
    return sum(isinstance(each, (_Stream, _Watcher)) for each in gc.get_objects())


def test_more_streams_than_allowed_are_refused(client: Client) -> None:
    topic = client.new_topic()
    wait_until(lambda: _open_streams() == 0)
    consumers = [Consumer(client, options(topic)) for _ in range(12)]
    for each in consumers:
        each.next("assigned")
    code, kafka, message = refusal(lambda: Consumer(client, options(topic)).next("assigned"))
    assert (code, kafka) == (S.RESOURCE_EXHAUSTED, 89)
    assert "grpc.max.streams" in message
    for each in consumers:
        each.cancel()
    wait_until(lambda: _open_streams() == 0)


@pytest.mark.parametrize(
    ("bad", "code", "says"),
    [
        (bus_pb2.ConsumeOptions(), S.INVALID_ARGUMENT, "at least one topic"),
        (options("missing"), S.NOT_FOUND, "does not exist"),
        (options(""), S.INVALID_ARGUMENT, "needs a name"),
        (options("t", group="g", until_end=True), S.INVALID_ARGUMENT, "without a group"),
        (options("t", group="g", start=bus_pb2.Start(offset=3)), S.INVALID_ARGUMENT, "committed"),
        (options("t", instance_id="i"), S.INVALID_ARGUMENT, "members of a group"),
        (options("t", start=bus_pb2.Start(offset=-3)), S.INVALID_ARGUMENT, "first offset is 0"),
        (options("t", max_batch_records=-1), S.INVALID_ARGUMENT, "max_batch_records"),
        (options("t", max_outstanding_bytes=2**40), S.INVALID_ARGUMENT, "max_outstanding_bytes"),
        (options("t", consistency=77), S.INVALID_ARGUMENT, "consistency"),
        (options("t", isolation=77), S.INVALID_ARGUMENT, "isolation"),
        (options("t", ack_mode=77), S.INVALID_ARGUMENT, "ack_mode"),
    ],
)
def test_options_that_cannot_be_are_refused(client: Client, bad: Any, code: Any, says: str) -> None:
    status, _, message = refusal(lambda: Consumer(client, bad).next("assigned"))
    assert status == code
    assert says in message


def test_what_was_not_sent_cannot_be_acknowledged(client: Client) -> None:
    topic = client.new_topic()
    client.produce(topic, [b"a"])
    consumer = Consumer(client, options(topic))
    consumer.acknowledge(consumer.next("records"), offset=99)
    status, _, message = refusal(lambda: consumer.next("records"))
    assert status == S.INVALID_ARGUMENT
    assert "sent up to 1 only" in message


def test_options_come_once_and_first(client: Client) -> None:
    topic = client.new_topic()
    consumer = Consumer(client, options(topic))
    consumer.next("assigned")
    consumer.send(bus_pb2.ConsumeRequest(options=options(topic)))
    assert refusal(lambda: consumer.next("records"))[0] == S.INVALID_ARGUMENT
    acknowledge = bus_pb2.ConsumeRequest(acknowledge=bus_pb2.Acknowledge())
    stream = client.stub.Consume(iter([acknowledge]), timeout=TIMEOUT_S)
    assert refusal(lambda: next(stream))[0] == S.INVALID_ARGUMENT


def test_an_offset_that_is_not_there_is_out_of_range(client: Client) -> None:
    topic = client.new_topic()
    consumer = Consumer(client, options(topic, start=bus_pb2.Start(offset=7)))
    assert refusal(lambda: consumer.next("records"))[:2] == (S.OUT_OF_RANGE, 1)


def test_a_deleted_topic_ends_its_readers(client: Client) -> None:
    topic = client.new_topic()
    consumer = Consumer(client, options(topic))
    consumer.next("assigned")
    client.stub.DeleteTopic(bus_pb2.DeleteTopicRequest(name=topic), timeout=TIMEOUT_S)
    assert refusal(lambda: consumer.next("records"))[0] == S.NOT_FOUND


def test_a_deadline_ends_a_stream(client: Client) -> None:
    topic = client.new_topic()
    request = bus_pb2.ConsumeRequest(options=options(topic, ack_mode=bus_pb2.ACK_MODE_AUTOMATIC))
    stream = client.stub.Consume(iter([request]), timeout=0.3)
    assert refusal(lambda: list(stream))[0] == S.DEADLINE_EXCEEDED
    wait_until(lambda: _open_streams() == 0)
