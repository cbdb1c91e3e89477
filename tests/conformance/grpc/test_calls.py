"""Each call, over a real node: what it does, and what the Kafka port sees of it."""

from contextlib import suppress

import grpc
import pytest

from barnabas.testing.embedded import EmbeddedBroker
from barnabas.v1 import bus_pb2
from tests.conformance.grpc.clients import TIMEOUT_S, Client, produce_stream, refusal

S = grpc.StatusCode


def test_a_record_written_over_grpc_is_read_by_kafkas_clients(broker: EmbeddedBroker, client: Client) -> None:
    topic = client.new_topic()
    record = bus_pb2.NewRecord(
        key=b"k", value=b"v", timestamp_ms=1_700_000_000_123, headers=[bus_pb2.Header(key="h", value=b"1")]
    )
    response = client.stub.Produce(bus_pb2.ProduceRequest(topic=topic, records=[record]), timeout=TIMEOUT_S)
    assert [(each.partition, each.offset) for each in response.outcomes] == [(0, 0)]
    (message,) = broker.bus.consume(topic, until_end=True)
    assert (message.key, message.value) == (b"k", b"v")
    assert message.timestamp_ms == 1_700_000_000_123
    assert list(message.headers) == [("h", b"1")]


def test_a_record_written_by_kafkas_clients_is_read_over_grpc(broker: EmbeddedBroker, client: Client) -> None:
    topic = client.new_topic()
    broker.bus.send(topic, b"v", key=b"k", headers=[("h", b"1")]).result(10)
    (record,) = client.read_all(topic)
    assert (record.key, record.value) == (b"k", b"v")
    assert [(each.key, each.value) for each in record.headers] == [("h", b"1")]


def test_keys_go_to_the_partitions_that_kafkas_clients_choose(broker: EmbeddedBroker, client: Client) -> None:
    topic = client.new_topic(partitions=7)
    keys = [f"key-{number}".encode() for number in range(40)]
    records = [bus_pb2.NewRecord(key=key) for key in keys]
    response = client.stub.Produce(bus_pb2.ProduceRequest(topic=topic, records=records), timeout=TIMEOUT_S)
    kafkas = [broker.bus.send(topic, b"", key=key) for key in keys]
    assert [each.partition for each in response.outcomes] == [each.result(10).partition for each in kafkas]


def test_records_without_a_key_go_round_or_stick(client: Client) -> None:
    topic = client.new_topic(partitions=3)
    round_robin = client.produce(topic, [b"x"] * 6, partitioner=bus_pb2.PARTITIONER_ROUND_ROBIN)
    assert sorted(each.partition for each in round_robin.outcomes) == [0, 0, 1, 1, 2, 2]
    sticky = client.produce(topic, [b"x"] * 6)
    assert len({each.partition for each in sticky.outcomes}) == 1


@pytest.mark.parametrize("compression", bus_pb2.Compression.values())
def test_records_are_compressed_as_asked(broker: EmbeddedBroker, client: Client, compression: int) -> None:
    topic = client.new_topic()
    client.produce(topic, [b"x" * 1000] * 10, compression=compression)
    assert [each.value for each in client.read_all(topic)] == [b"x" * 1000] * 10
    assert len(list(broker.bus.consume(topic, until_end=True))) == 10


def test_a_large_request_is_several_batches(client: Client) -> None:
    topic = client.new_topic()
    response = client.produce(topic, [bytes([number]) * 300_000 for number in range(10)])
    assert [each.offset for each in response.outcomes] == list(range(10))
    assert [each.value[:1] for each in client.read_all(topic)] == [bytes([number]) for number in range(10)]


def test_null_keys_and_values_stay_null(client: Client) -> None:
    topic = client.new_topic()
    records = [bus_pb2.NewRecord(), bus_pb2.NewRecord(key=b"", value=b"")]
    client.stub.Produce(bus_pb2.ProduceRequest(topic=topic, records=records), timeout=TIMEOUT_S)
    null, empty = client.read_all(topic)
    assert (null.HasField("key"), null.HasField("value")) == (False, False)
    assert (empty.HasField("key"), empty.HasField("value")) == (True, True)


def test_a_record_that_is_refused_does_not_take_others_with_it(client: Client) -> None:
    topic = client.new_topic(partitions=2, configs={"max.message.bytes": "10000"})
    records = [bus_pb2.NewRecord(value=b"x" * 20_000, partition=0), bus_pb2.NewRecord(value=b"y", partition=1)]
    response = client.stub.Produce(bus_pb2.ProduceRequest(topic=topic, records=records), timeout=TIMEOUT_S)
    large, small = response.outcomes
    assert (large.error.kafka_code, large.error.name, large.offset) == (10, "RecordTooLarge", -1)
    assert (small.offset, small.HasField("error")) == (0, False)


def test_records_that_are_refused_do_not_take_those_of_the_same_request_with_them(client: Client) -> None:
    topic = client.new_topic(partitions=2, configs={"max.message.bytes": "10000"})
    records = [
        bus_pb2.NewRecord(value=b"first", partition=0),
        bus_pb2.NewRecord(value=b"nowhere", partition=7),
        bus_pb2.NewRecord(value=b"x" * 20_000, partition=0),
        bus_pb2.NewRecord(value=b"too old", partition=1, timestamp_ms=-5),
        bus_pb2.NewRecord(value=b"second", partition=0),
    ]
    request = bus_pb2.ProduceRequest(topic=topic, records=records)

    outcomes = client.stub.Produce(request, timeout=TIMEOUT_S).outcomes

    assert [each.error.name for each in outcomes] == [
        "",
        "UnknownTopicOrPartition",
        "RecordTooLarge",
        "InvalidRecord",
        "",
    ]
    assert [each.partition for each in outcomes] == [0, -1, 0, -1, 0]
    assert [each.offset for each in outcomes] == [0, -1, -1, -1, 1]
    assert [each.value for each in client.read_all(topic)] == [b"first", b"second"]
    options = bus_pb2.ProduceStreamOptions(topic=topic)
    stream = client.stub.ProduceStream(
        iter([bus_pb2.ProduceStreamRequest(options=options, records=records)]), timeout=TIMEOUT_S
    )
    (streamed,) = stream
    assert [each.offset for each in streamed.outcomes] == [2, -1, -1, -1, 3]


def test_one_record_is_read_by_its_id(client: Client) -> None:
    topic = client.new_topic()
    client.produce(topic, [b"a", b"b", b"c"])
    for consistency in bus_pb2.Consistency.values():
        request = bus_pb2.GetRequest(topic=topic, offset=1, consistency=consistency)
        assert client.stub.Get(request, timeout=TIMEOUT_S).record.value == b"b"


def test_a_record_that_is_not_there_is_out_of_range_or_not_found(broker: EmbeddedBroker, client: Client) -> None:
    topic = client.new_topic()

    def get(offset: int, **more: int) -> tuple[object, int]:
        request = bus_pb2.GetRequest(topic=topic, offset=offset, **more)  # type: ignore[arg-type]
        return refusal(lambda: client.stub.Get(request, timeout=TIMEOUT_S))[:2]

    with broker.bus.transaction(f"tx-{topic}") as transaction:
        transaction.send(topic, b"seen")
    with suppress(ZeroDivisionError), broker.bus.transaction(f"tx-{topic}") as transaction:
        transaction.send(topic, b"aborted").result(10)
        raise ZeroDivisionError
    assert get(1) == (S.NOT_FOUND, 3)  # the marker
    assert get(2) == (S.NOT_FOUND, 3)  # aborted
    uncommitted = bus_pb2.GetRequest(topic=topic, offset=2, isolation=bus_pb2.ISOLATION_READ_UNCOMMITTED)
    assert client.stub.Get(uncommitted, timeout=TIMEOUT_S).record.value == b"aborted"
    assert get(9) == (S.OUT_OF_RANGE, 1)
    assert [each.value for each in client.read_all(topic)] == [b"seen"]
    everything = client.read_all(topic, isolation=bus_pb2.ISOLATION_READ_UNCOMMITTED)
    assert [each.value for each in everything] == [b"seen", b"aborted"]


def test_offsets_are_committed_from_outside_a_group(broker: EmbeddedBroker, client: Client) -> None:
    topic = client.new_topic()
    client.produce(topic, [b"a", b"b", b"c"])
    positions = [
        bus_pb2.Position(topic=topic, partition=0, offset=2),
        bus_pb2.Position(topic=topic, partition=5, offset=2),
    ]
    response = client.stub.Commit(bus_pb2.CommitRequest(group="outside", positions=positions), timeout=TIMEOUT_S)
    assert [each.error.kafka_code for each in response.outcomes] == [0, 3]
    (lag,) = broker.bus.describe_group("outside").partitions
    assert (lag.offset, lag.lag) == (2, 1)


def test_topics_are_created_listed_described_and_deleted(broker: EmbeddedBroker, client: Client) -> None:
    topic = client.new_topic(partitions=2, configs={"retention.ms": "60000"})
    client.produce(topic, [b"x"] * 3)
    listed = [each.name for each in client.stub.ListTopics(bus_pb2.ListTopicsRequest(), timeout=TIMEOUT_S).topics]
    assert topic in listed
    assert not any(name.startswith("__") for name in listed)
    described = client.stub.DescribeTopic(bus_pb2.DescribeTopicRequest(name=topic), timeout=TIMEOUT_S)
    assert dict(described.configs) == {"retention.ms": "60000"}
    assert sum(each.end_offset - each.start_offset for each in described.partitions) == 3
    assert {each.leader for each in described.partitions} == {1}
    client.stub.DeleteTopic(bus_pb2.DeleteTopicRequest(name=topic), timeout=TIMEOUT_S)
    assert topic not in [each.name for each in broker.bus.list_topics()]


def test_topics_are_listed_by_pages(client: Client) -> None:
    names = sorted(client.new_topic() for _ in range(3))
    found, token = [], ""
    while True:
        request = bus_pb2.ListTopicsRequest(page_size=2, page_token=token)
        page = client.stub.ListTopics(request, timeout=TIMEOUT_S)
        found += [each.name for each in page.topics]
        token = page.next_page_token
        if not token:
            break
    assert set(names) <= set(found)
    assert found == sorted(found)


def test_validating_creates_nothing(client: Client) -> None:
    request = bus_pb2.CreateTopicRequest(name="only-validated", partitions=4, validate_only=True)
    assert client.stub.CreateTopic(request, timeout=TIMEOUT_S).partitions == 4
    code, kafka, _ = refusal(
        lambda: client.stub.DescribeTopic(bus_pb2.DescribeTopicRequest(name="only-validated"), timeout=TIMEOUT_S)
    )
    assert (code, kafka) == (S.NOT_FOUND, 3)


def test_a_watcher_is_told_the_topics_and_every_change(client: Client) -> None:
    topic = client.new_topic()
    stream = client.stub.Watch(bus_pb2.WatchRequest(), timeout=TIMEOUT_S)
    known = []
    for response in stream:
        known += [each.name for each in response.changed]
        if response.is_complete:
            break
    assert topic in known
    new = client.new_topic(partitions=3)
    told = next(stream)
    assert [(each.name, len(each.partitions)) for each in told.changed] == [(new, 3)]
    client.stub.DeleteTopic(bus_pb2.DeleteTopicRequest(name=new), timeout=TIMEOUT_S)
    assert list(next(stream).deleted) == [new]
    stream.cancel()


def test_a_stream_acknowledges_in_order(client: Client) -> None:
    topic = client.new_topic(partitions=3)
    options = bus_pb2.ProduceStreamOptions(topic=topic)
    batches = [[bus_pb2.NewRecord(value=b"%d" % number)] * 10 for number in range(200)]
    responses = list(produce_stream(client, options, batches))
    assert [each.sequence for each in responses] == list(range(200))
    assert not any(outcome.HasField("error") for each in responses for outcome in each.outcomes)
    assert len(client.read_all(topic)) == 2000


def test_a_stream_that_is_resumed_writes_nothing_twice(client: Client) -> None:
    topic = client.new_topic(partitions=3)
    batches = [[bus_pb2.NewRecord(value=b"%d-%d" % (number, at)) for at in range(3)] for number in range(10)]
    options = bus_pb2.ProduceStreamOptions(topic=topic)
    responses = list(produce_stream(client, options, batches))
    # The client has heard of the first four only, and sends the rest again.
    options.resume_token = responses[3].resume_token
    again = list(produce_stream(client, options, batches[4:]))
    assert [list(each.outcomes) for each in again] == [list(each.outcomes) for each in responses[4:]]
    written = sorted(each.value for each in client.read_all(topic))
    assert written == sorted(record.value for records in batches for record in records)


def test_a_topic_that_wants_exactly_once_takes_streams_and_calls(client: Client) -> None:
    topic = client.new_topic(configs={"delivery.semantics": "exactly-once"})
    client.produce(topic, [b"x"])
    options = bus_pb2.ProduceStreamOptions(topic=topic, is_not_idempotent=True)
    (response,) = produce_stream(client, options, [[bus_pb2.NewRecord(value=b"y")]])
    assert response.outcomes[0].error.kafka_code == 44
    assert not response.outcomes[0].error.is_retriable


def test_only_the_leader_acknowledges_if_that_is_asked_for(client: Client) -> None:
    topic = client.new_topic()
    assert client.produce(topic, [b"x"], acks=bus_pb2.ACKS_LEADER).outcomes[0].offset == 0
