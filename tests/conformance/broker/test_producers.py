"""What each client produces, each client reads: every codec, acks, header, timestamp, and nothing where nothing was."""

import time
from collections.abc import Callable

import confluent_kafka
import pytest

from tests.conformance.broker.clients import CLIENTS, QUIET, TIMEOUT_S, Message, Place, Read

START_MS = 1_700_000_000_000
MakeTopic = Callable[..., str]

every_producer = pytest.mark.parametrize("producer", CLIENTS)


def sample_messages() -> list[Message]:
    """Each field absent, empty and present, and enough of it for a codec to be worth its while."""
    shapes: list[tuple[bytes | None, bytes | None]] = [
        (b"value", b"key"),
        (b"no key", None),
        (None, b"no value"),
        (b"empty key", b""),
        (b"", b"empty value"),
        (bytes(range(256)) * 40, b"large"),
    ]
    headers = (("trace", b"0123456789"), ("empty", b""), ("naïve ✓", b"\x00\xff"), ("trace", b"again"))
    return [
        Message(*shapes[n % len(shapes)], headers[: n % 5], timestamp_ms=START_MS + 10 * n, partition=0)
        for n in range(120)
    ]


def as_read(messages: list[Message], places: list[Place]) -> list[Read]:
    return [
        Read(place.partition, place.offset, each.timestamp_ms or -1, each.key, each.value, each.headers)
        for each, place in zip(messages, places, strict=True)
    ]


@every_producer
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_client_reads_what_another_wrote(bootstrap: str, topic: str, producer: str, codec: str) -> None:
    messages = sample_messages()
    places = CLIENTS[producer].produce(bootstrap, topic, messages, codec=codec)
    assert places == [Place(0, offset) for offset in range(len(messages))]
    for client in CLIENTS.values():
        with client.consume(bootstrap, topic) as consumer:
            assert consumer.read(len(messages)) == as_read(messages, places)


@every_producer
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_whatever_it_waits_for_a_producer_gets_its_records_in(
    bootstrap: str, topic: str, producer: str, acks: int | str
) -> None:
    client = CLIENTS[producer]
    client.produce(bootstrap, topic, [Message(b"%d" % n, partition=0) for n in range(20)], acks=acks)
    with client.consume(bootstrap, topic) as consumer:
        assert [read.value for read in consumer.read(20)] == [b"%d" % n for n in range(20)]


@every_producer
def test_an_idempotent_producer_writes_each_record_once_and_in_order(
    bootstrap: str, make_topic: MakeTopic, producer: str
) -> None:
    topic = make_topic(3)
    messages = [Message(b"%d" % n, partition=n % 3) for n in range(300)]
    places = CLIENTS[producer].produce(bootstrap, topic, messages, is_idempotent=True)
    assert places == [Place(n % 3, n // 3) for n in range(300)]
    with CLIENTS[producer].consume(bootstrap, topic, [0, 1, 2]) as consumer:
        reads = consumer.read(300)
        assert consumer.end_offsets([0, 1, 2]) == {0: 100, 1: 100, 2: 100}
    assert sorted((read.partition, read.offset, read.value) for read in reads) == sorted(
        (n % 3, n // 3, b"%d" % n) for n in range(300)
    )


def test_all_clients_send_a_key_to_the_same_partition(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(7)
    messages = [Message(b"", b"key-%d" % n) for n in range(200)]
    chosen = {
        name: [place.partition for place in client.produce(bootstrap, topic, messages)]
        for name, client in CLIENTS.items()
    }
    assert chosen["librdkafka"] == chosen["aiokafka"] == chosen["kafka-python"]
    assert set(chosen["librdkafka"]) == set(range(7))


@every_producer
def test_a_record_without_a_time_gets_the_producers(bootstrap: str, topic: str, producer: str) -> None:
    before_ms = int(time.time() * 1000)
    CLIENTS[producer].produce(bootstrap, topic, [Message(b"now")])
    after_ms = int(time.time() * 1000)
    with CLIENTS[producer].consume(bootstrap, topic) as consumer:
        (read,) = consumer.read(1)
    assert before_ms <= read.timestamp_ms <= after_ms


@every_producer
def test_a_topic_that_goes_by_the_logs_time_gives_that_to_its_records(
    bootstrap: str, make_topic: MakeTopic, producer: str
) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    CLIENTS[producer].produce(bootstrap, topic, [Message(b"old", timestamp_ms=START_MS)])
    with CLIENTS[producer].consume(bootstrap, topic) as consumer:
        (read,) = consumer.read(1)
    assert before_ms <= read.timestamp_ms <= int(time.time() * 1000)


def test_a_record_may_be_nothing_at_all_and_a_header_too(bootstrap: str, topic: str) -> None:
    messages = [Message(None), Message(b"", headers=(("none", None), ("empty", b"")))]
    CLIENTS["librdkafka"].produce(bootstrap, topic, messages)
    for client in CLIENTS.values():
        with client.consume(bootstrap, topic) as consumer:
            nothing, header = consumer.read(2)
        assert (nothing.key, nothing.value, nothing.headers) == (None, None, ())
        assert header.headers == (("none", None), ("empty", b""))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_stores_in_its_own_codec_whatever_comes(bootstrap: str, make_topic: MakeTopic, codec: str) -> None:
    """`compression.type` of the topic: the broker recompresses, and readers see the same."""
    topic = make_topic(compression_type="uncompressed" if codec == "none" else codec)
    messages = sample_messages()
    places = CLIENTS["librdkafka"].produce(bootstrap, topic, messages, codec="gzip")
    with CLIENTS["aiokafka"].consume(bootstrap, topic) as consumer:
        assert consumer.read(len(messages)) == as_read(messages, places)


@every_producer
def test_records_go_to_many_topics_and_partitions_at_once(bootstrap: str, make_topic: MakeTopic, producer: str) -> None:
    topics = [make_topic(4) for _ in range(3)]
    for topic in topics:
        messages = [Message(topic.encode(), partition=n % 4) for n in range(40)]
        assert CLIENTS[producer].produce(bootstrap, topic, messages) == [Place(n % 4, n // 4) for n in range(40)]
    for topic in topics:
        with CLIENTS[producer].consume(bootstrap, topic, range(4)) as consumer:
            assert [read.value for read in consumer.read(40)] == [topic.encode()] * 40


def test_a_large_load_arrives_whole(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    producer = confluent_kafka.Producer(
        {**QUIET, "bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4"}
    )
    count = 50_000
    for n in range(count):
        producer.produce(topic, b"%d" % n, partition=n % 2)
    assert producer.flush(TIMEOUT_S) == 0
    with CLIENTS["librdkafka"].consume(bootstrap, topic, [0, 1]) as consumer:
        reads = consumer.read(count)
    for partition in (0, 1):
        values = [read.value for read in reads if read.partition == partition]
        assert values == [b"%d" % n for n in range(partition, count, 2)]
