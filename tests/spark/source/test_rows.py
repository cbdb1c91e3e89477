"""What a row is: columns, types, nulls, headers, and every way a batch can be stored."""

import datetime
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.client import Bus
from tests.spark.conftest import MakeTopic
from tests.spark.source.streams import WAIT_S, batch, numbered, produce, wait_until

STAMP_MS = 1_700_000_000_123


def test_rows_have_the_columns_of_sparks_kafka_source(spark: Any, bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [(b"k", b"v", None, STAMP_MS)])

    frame = batch(spark, bootstrap, topic)

    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    (row,) = frame.selectExpr("*", "unix_millis(timestamp) as ms").collect()
    assert (bytes(row.key), bytes(row.value), row.topic, row.partition, row.offset) == (b"k", b"v", topic, 0, 0)
    assert (row.ms, row.timestampType) == (STAMP_MS, 0)
    assert row.timestamp.astimezone(datetime.UTC).isoformat() == "2023-11-14T22:13:20.123000+00:00"


def test_keys_and_values_may_be_null_or_empty_and_headers_are_null_without_any(
    spark: Any, bootstrap: str, topic: str
) -> None:
    headers = [("a", b"1"), ("a", None), ("ü", b"")]
    produce(bootstrap, topic, [(None, b"v"), (b"k", None, headers), (b"", b""), (None, None, [("x", b"\xff")])])

    rows = batch(spark, bootstrap, topic, includeHeaders=True).orderBy("offset").collect()

    assert [(row.key, row.value) for row in rows] == [(None, b"v"), (b"k", None), (b"", b""), (None, None)]
    found = [row.headers and [(each.key, each.value) for each in row.headers] for row in rows]
    assert found == [None, headers, None, [("x", b"\xff")]]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(spark: Any, bootstrap: str, topic: str, codec: str) -> None:
    records = [(key, value * 50) for key, value in numbered(500)]
    produce(bootstrap, topic, records, config={"compression.type": codec})

    rows = batch(spark, bootstrap, topic).orderBy("offset").collect()

    assert [(bytes(row.key), bytes(row.value)) for row in rows] == records


def test_values_of_10_mb_are_read(spark: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes="12000000")
    produce(
        bootstrap,
        topic,
        [(b"a", b"x" * 10_000_000), (b"b", b"y" * 10_000_000)],
        config={"message.max.bytes": 12_000_000},
    )

    rows = batch(spark, bootstrap, topic).selectExpr("length(value) as n", "right(value, 1) as last").collect()

    assert sorted((row.n, row.last) for row in rows) == [(10_000_000, "x"), (10_000_000, "y")]


def test_records_that_unpack_to_far_more_than_was_fetched_are_read(spark: Any, bootstrap: str, topic: str) -> None:
    value = b"z" * 700_000
    produce(bootstrap, topic, [(None, value)] * 300, config={"compression.type": "zstd", "batch.num.messages": 10})

    found = batch(spark, bootstrap, topic).selectExpr("sum(length(value)) as n", "count(*) as rows").first()

    assert (found.n, found.rows) == (300 * len(value), 300)


def test_the_time_of_the_log_is_type_1(spark: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    produce(bootstrap, topic, [(None, b"v", None, STAMP_MS)])

    (row,) = batch(spark, bootstrap, topic).selectExpr("timestampType", "unix_millis(timestamp) as ms").collect()

    assert row.timestampType == 1
    assert row.ms > STAMP_MS


def test_an_empty_topic_has_no_rows(spark: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    assert batch(spark, bootstrap, make_topic(partitions=3)).collect() == []


def test_offsets_that_compaction_removed_are_passed_over(
    spark: Any, bootstrap: str, client: Bus, make_topic: MakeTopic
) -> None:
    topic = make_topic(
        cleanup_policy="compact", segment_ms="50", min_cleanable_dirty_ratio="0.0", min_compaction_lag_ms="0"
    )
    for turn in range(3):
        produce(bootstrap, topic, [(f"k{at % 10}".encode(), f"{turn}:{at}".encode()) for at in range(100)])
    frame = batch(spark, bootstrap, topic)

    def is_compacted() -> bool:
        produce(bootstrap, topic, [(b"roll", b"the segment")])
        return int(client.read_arrow(topic, columns=["offset"]).read_all().num_rows) < 100

    wait_until(is_compacted)
    rows = frame.collect()

    assert len(rows) < 200
    newest = {bytes(row.key): bytes(row.value) for row in sorted(rows, key=lambda row: row.offset)}
    assert {newest[f"k{at % 10}".encode()] for at in range(90, 100)} == {f"2:{at}".encode() for at in range(90, 100)}


def test_aborted_and_open_transactions_are_not_read_unless_asked_for(spark: Any, bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"tx-{topic}", "linger.ms": 0})
    producer.init_transactions(WAIT_S)
    for name, ends_well in (("first", True), ("second", False), ("third", True)):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, f"{name} {number}".encode())
        producer.flush(WAIT_S)
        producer.commit_transaction(WAIT_S) if ends_well else producer.abort_transaction(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(WAIT_S)

    def values(**options: Any) -> list[str]:
        rows = batch(spark, bootstrap, topic, minPartitions=4, **options).orderBy("offset").collect()
        return [bytes(row.value).decode() for row in rows]

    committed = [f"{name} {number}" for name in ("first", "third") for number in range(3)]
    everything = [f"{name} {number}" for name in ("first", "second", "third") for number in range(3)]
    assert values() == committed
    assert values(isolation__level="read_uncommitted") == [*everything, "open"]
    assert values(kafka__isolation__level="read_uncommitted") == [*everything, "open"]
    producer.abort_transaction(WAIT_S)
    assert values() == committed


def test_a_schema_picks_and_orders_columns(spark: Any, bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [(b"k", b"v", [("h", b"1")])])

    def read(schema: str) -> Any:
        reader = spark.read.format("barnabas").schema(schema)
        return reader.option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()

    assert [tuple(row) for row in read("offset long, key binary").collect()] == [(0, b"k")]
    assert [tuple(row) for row in read("topic string, partition int").collect()] == [(topic, 0)]
    (row,) = read("timestampType int, headers array<struct<key: string, value: binary>>").collect()
    assert (row.timestampType, [tuple(each) for each in row.headers]) == (0, [("h", b"1")])


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("offset long, colour string", "the schema has a column 'colour'; there are key, value, topic"),
        ("offset int", "column 'offset' is bigint, not int: read it as it is and cast it"),
        ("value string", "column 'value' is binary, not string: read it as it is and cast it"),
    ],
)
def test_a_schema_with_another_column_is_refused(
    spark: Any, bootstrap: str, topic: str, schema: str, said: str
) -> None:
    reader = spark.read.format("barnabas").schema(schema).option("kafka.bootstrap.servers", bootstrap)

    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as refusal:
        reader.option("subscribe", topic).load().collect()

    assert said in str(refusal.value).splitlines()[0]
