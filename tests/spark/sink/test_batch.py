"""Data frames into topics: what of a row arrives, where, and what is refused."""

import datetime
import re
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import Bus
from barnabas.client.partitioning import partition_for_key
from tests.conformance.broker.clients import kafka
from tests.spark.conftest import MakeTopic

Write = Callable[..., None]


@pytest.fixture
def write(bootstrap: str) -> Write:
    def write_rows(rows: Any, mode: str = "append", **options: str) -> None:
        given = {"kafka.bootstrap.servers": bootstrap, **options}
        rows.write.format("barnabas").mode(mode).options(**given).save()

    return write_rows


def read(client: Bus, topic: str) -> list[Any]:
    return list(client.consume(topic, until_end=True))


HEADERS = "array<struct<key:string,value:binary>>"


def test_every_column_arrives(spark: Any, client: Bus, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic(partitions=3)
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=datetime.UTC)
    rows = [
        (b"k1", b"v1", topic, 2, at, [("a", b"1"), ("b", None), ("a", b"")], 1.5),
        (None, None, topic, 0, None, None, 2.5),
        (b"", b"", topic, 0, at, [], 3.5),
    ]
    schema = (
        f"key binary, value binary, topic string, partition int, timestamp timestamp, headers {HEADERS}, other double"
    )

    write(spark.createDataFrame(rows, schema).coalesce(1))

    first, nothing, empty = sorted(read(client, topic), key=lambda message: (-message.partition, message.offset))
    assert (first.key, first.value, first.partition, first.timestamp_ms) == (b"k1", b"v1", 2, 1714979289123)
    assert list(first.headers) == [("a", b"1"), ("b", None), ("a", b"")]
    assert (nothing.key, nothing.value, list(nothing.headers)) == (None, None, [])
    assert nothing.timestamp_ms > 1714979289123
    assert (empty.key, empty.value, list(empty.headers), empty.timestamp_ms) == (b"", b"", [], 1714979289123)


def test_a_key_goes_where_other_clients_put_it(spark: Any, client: Bus, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic(partitions=7)
    keys = [f"key {number} ü" for number in range(200)]

    write(spark.createDataFrame([(key, key) for key in keys], "key string, value string"), topic=topic)

    placed = {message.key: message.partition for message in read(client, topic)}
    assert len(placed) == len(keys)
    for key in (text.encode() for text in keys):
        theirs = (kafka.partitioner.default.murmur2(key) & 0x7FFFFFFF) % 7
        assert placed[key] == partition_for_key(key, 7) == theirs
    sent = client.send(topic, b"again", key=keys[0]).result(60)
    assert placed[keys[0].encode()] == sent.partition


def test_a_column_names_the_topic_of_each_row_and_the_option_wins(
    spark: Any, client: Bus, make_topic: MakeTopic, write: Write
) -> None:
    one, two, three = make_topic(), make_topic(partitions=2), make_topic()
    rows = spark.createDataFrame([(one, "1"), (two, "2"), (one, "3")], "topic string, value string")

    write(rows)
    write(rows, topic=three)

    assert sorted(message.value for message in read(client, one)) == [b"1", b"3"]
    assert [message.value for message in read(client, two)] == [b"2"]
    assert sorted(message.value for message in read(client, three)) == [b"1", b"2", b"3"]


def test_a_job_leaves_nothing_but_its_records(spark: Any, client: Bus, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic(partitions=2)
    before = {group.name for group in client.groups()}

    write(spark.range(60_000, numPartitions=4).selectExpr("cast(id as string) value"), topic=topic)

    assert sorted(int(message.value) for message in read(client, topic)) == list(range(60_000))
    assert {group.name for group in client.groups()} == before
    assert client.transactions(states=["Ongoing"]) == []


def test_a_job_that_fails_shows_nothing_of_the_task_that_failed(
    spark: Any, client: Bus, make_topic: MakeTopic, write: Write
) -> None:
    """A row of the only task cannot be sent, after others were."""
    topic = make_topic(partitions=2)
    rows = spark.range(30_000, numPartitions=1).selectExpr(
        "cast(id as string) value", "if(id = 29000, 5, null) partition"
    )

    with pytest.raises(Exception, match=r"partition 5: .*Unknown partition"):
        write(rows, topic=topic)

    assert read(client, topic) == []
    assert client.transactions(states=["Ongoing"]) == []


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_job_that_fails_before_the_sink_publishes_nothing(
    spark: Any, client: Bus, make_topic: MakeTopic, write: Write, partitions: int
) -> None:
    """Spark ends the input of the sink as if it were complete."""
    topic = make_topic(partitions=2)
    rows = spark.range(0, 40_000, 1, partitions).selectExpr(
        "cast(if(id = 35000, raise_error('no good'), id) as string) value"
    )

    with pytest.raises(Exception, match="no good"):
        write(rows, topic=topic)

    assert read(client, topic) == []
    assert client.transactions(states=["Ongoing"]) == []


def test_a_write_with_a_name_and_a_number_is_published_once(
    spark: Any, client: Bus, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic()
    rows = spark.range(10, numPartitions=2).selectExpr("cast(id as string) value")
    named = {"topic": topic, "txnAppId": f"app of {topic}"}

    for version in ("3", "3", "4", "4"):
        write(rows, **named, txnVersion=version)

    assert sorted(message.value for message in read(client, topic)) == sorted(
        b"%d" % n for n in (*range(10), *range(10))
    )
    with pytest.raises(Exception, match=r"txnVersion 4 was published already, and this one has 3: versions only grow"):
        write(rows, **named, txnVersion="3")
    with pytest.raises(Exception, match=r"task \d has other rows now than then"):
        write(rows.limit(4).repartition(2), **named, txnVersion="4")


def test_a_write_of_the_same_name_to_another_topic_is_another_write(
    spark: Any, client: Bus, make_topic: MakeTopic, write: Write
) -> None:
    one, two = make_topic(), make_topic()
    rows = spark.range(10, numPartitions=2).selectExpr("cast(id as string) value")

    for topic in (one, two, one, two):
        write(rows, topic=topic, txnAppId=f"app of {one}", txnVersion="1")

    assert len(read(client, one)) == len(read(client, two)) == 10


def test_writes_of_one_name_to_topics_whose_names_begin_alike_are_told_apart(
    spark: Any, client: Bus, make_topic: MakeTopic, write: Write
) -> None:
    """With more tasks than one group has room for: their progress goes on in a group with a number."""
    one = make_topic()
    two = f"{one}-1"
    client.create_topic(two)
    rows = spark.range(41, numPartitions=41).selectExpr("cast(id as string) value")

    for topic, written in ((one, rows), (two, rows.limit(1))):
        write(written, topic=topic, txnAppId="app", txnVersion="1")

    assert (len(read(client, one)), len(read(client, two))) == (41, 1)


def test_a_write_of_the_same_name_and_number_with_other_rows_is_refused(
    spark: Any, client: Bus, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic()
    rows = spark.range(10, numPartitions=2).selectExpr("cast(id as string) value")
    others = spark.range(10, 20, numPartitions=2).selectExpr("cast(id as string) value")
    named = {"topic": topic, "txnAppId": f"app of {topic}", "txnVersion": "1"}
    write(rows, **named)

    with pytest.raises(Exception, match=r"task \d has other rows now than then"):
        write(others, **named)

    assert sorted(message.value for message in read(client, topic)) == sorted(b"%d" % n for n in range(10))


def test_at_least_once_needs_no_transaction(spark: Any, client: Bus, make_topic: MakeTopic, write: Write) -> None:
    topic = make_topic(partitions=2)

    write(spark.range(1000).selectExpr("cast(id as string) value"), topic=topic, exactlyOnce="false")

    assert sorted(int(message.value) for message in read(client, topic)) == list(range(1000))


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("id", {"topic": "t"}, "column 'value' is missing"),
        ("id value", {"topic": "t"}, "column 'value' is bigint; it must be string or binary"),
        ("'v' value, 1L partition", {"topic": "t"}, "column 'partition' is bigint; it must be int"),
        ("'v' value, array(1) headers", {"topic": "t"}, "column 'headers' is array<int>; it must be array<struct<key:"),
        ("'v' value, 3 timestamp", {"topic": "t"}, "column 'timestamp' is int; it must be timestamp"),
        ("'v' value", {}, "say where rows go: option 'topic', or a column 'topic'"),
        ("'v' value, cast(null as string) topic", {}, "column 'topic' is null in a row"),
        ("'v' value, -4 partition", {"topic": "spark-none"}, "column 'partition' is -4 in a row"),
        ("'v' value", {"topik": "t"}, "unknown option 'topik'; did you mean 'topic'?"),
        ("'v' value", {"topic": "a b"}, "option 'topic' is 'a b', which is not a valid topic name"),
        ("'v' value", {"topic": "t", "kafka.liger.ms": "1"}, 'No such configuration property: "liger.ms"'),
        ("'v' value", {"topic": "t", "kafka.acks": "1"}, "option 'kafka.acks' cannot be set"),
        ("'v' value", {"topic": "t", "txnAppId": "a"}, "options 'txnAppId' and 'txnVersion' go together"),
        (
            "'v' value",
            {"topic": "t", "exactlyOnce": "false", "transactionTimeout": "1m"},
            "option 'transactionTimeout' is for exactly once",
        ),
        ("'v' value", {"topic": "t", "transactionTimeout": "20m"}, "transaction timeout"),
    ],
)
def test_what_cannot_be_written_is_said(
    spark: Any, write: Write, columns: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=f"(?i){re.escape(said)}"):
        write(spark.range(1).selectExpr(*columns.split(", ")), **options)


def test_rows_are_never_put_in_the_place_of_others(spark: Any, write: Write) -> None:
    with pytest.raises(Exception, match="a topic can only be appended to"):
        write(spark.range(1).selectExpr("'v' value"), mode="overwrite", topic="t")


def test_a_cluster_that_is_not_there_is_said_in_time(spark: Any, write: Write) -> None:
    away = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "1000"}

    with pytest.raises(Exception, match="is a broker running at that address"):
        write(spark.range(1).selectExpr("'v' value"), topic="t", **away)
