"""Conditions on partition, offset and timestamp: what is read for them, and that nothing is missing."""

from datetime import UTC, datetime
from typing import Any

import pytest

from barnabas.core.model import TopicPartition
from barnabas.spark.pushdown import push_down_conditions
from barnabas.spark.source.conditions import Conditions, Interval, parse_conditions
from barnabas.spark.source.planning import OffsetRange
from barnabas.spark.source.refusals import InvalidOption
from tests.spark.conftest import MakeTopic
from tests.spark.source.streams import batch, produce

START_MS = 1_700_000_000_000
# By offset; out of order, as clients' clocks are.
SECONDS = [0, 3, 1, 2, 9, 4, 5, 8, 6, 7]


def at(second: float) -> str:
    return f"TIMESTAMP '{datetime.fromtimestamp(START_MS / 1000 + second, UTC).isoformat()}'"


# A condition, and how many of 30 records have to be read for it.
CONDITIONS = [
    ("partition IN (0, 2)", 20),
    ("partition IN (0, 2) AND partition >= 1", 10),
    ("offset = 3 + 1", 3),
    ("offset > 6 AND offset <= 8", 6),
    ("offset < 2", 6),
    ("offset BETWEEN 3 AND 4 AND partition = 0", 2),
    ("offset IN (2, 5)", 12),
    ("offset IN (0,1,2,3,4,5,6,7,8,9,10,11,12) AND partition = 2", 10),
    (f"timestamp >= {at(9)}", 18),
    (f"timestamp > {at(8.5)} AND offset < 6", 6),
    (f"timestamp = {at(3)}", 27),
    (f"timestamp < {at(3)}", 30),
    (f"timestamp > {at(60)}", 0),
    ("timestamp >= timestamp_micros(-1)", 30),
    ("offset = 3 OR partition = 1", 30),
    ("NOT (offset >= 2)", 6),
    ("cast(offset AS int) < 3", 30),
    ("cast(partition AS long) = 1", 10),
    ("offset < 2.5", 9),
    ("value IS NOT NULL AND offset < 1", 3),
]


@pytest.fixture(scope="module")
def topic(spark_broker: Any) -> str:
    name = "pushdown"
    spark_broker.bus.create_topic(name, partitions=3)
    for partition in range(3):
        records = [(None, f"{partition} {second}".encode(), None, START_MS + 1000 * second) for second in SECONDS]
        produce(spark_broker.bootstrap, name, records, partition=partition)
    return name


def rows_and_scanned(frame: Any) -> tuple[list[tuple[int, int]], int]:
    """The rows of a frame, and how many its read of a topic gave to Spark."""
    rows = sorted((row.partition, row.offset) for row in frame.collect())
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return rows, leaves.head().metrics().apply("numOutputRows").value()


def test_only_what_conditions_leave_is_read_and_nothing_is_missing(spark: Any, bootstrap: str, topic: str) -> None:
    frame = batch(spark, bootstrap, topic)
    # Each condition as a column is no condition on the read.
    checked = frame.selectExpr(
        "partition", "offset", *(f"({condition}) AS `{condition}`" for condition, _ in CONDITIONS)
    )
    everything = checked.collect()
    scanned = {}

    for condition, _ in CONDITIONS:
        rows, scanned[condition] = rows_and_scanned(frame.where(condition))
        assert rows == sorted((row.partition, row.offset) for row in everything if row[condition]), condition

    assert len(everything) == 30
    assert scanned == dict(CONDITIONS)


def test_a_time_before_all_others_fails_no_query(spark: Any, bootstrap: str, topic: str) -> None:
    frame = batch(spark, bootstrap, topic)
    java8 = "spark.sql.datetime.java8API.enabled"  # without it Spark's own rules fail, of every Python source

    spark.conf.set(java8, "true")
    try:
        assert frame.where("timestamp > timestamp_micros(-9223372036854775808)").count() == 30
        assert frame.where("timestamp >= timestamp_micros(9223372036854775807)").count() == 0
    finally:
        spark.conf.unset(java8)


def test_a_frame_that_is_read_under_different_conditions_gives_each_its_own(
    spark: Any, bootstrap: str, topic: str
) -> None:
    """Spark's own pushdown gives all of them the records of the one that was planned last."""
    frame = batch(spark, bootstrap, topic)
    first, second = frame.where("partition = 0"), frame.where("partition = 1")

    assert first.count() == 10
    assert frame.count() == 30
    assert first.union(second).count() == 20
    assert frame.union(first).count() == 40
    assert first.join(second, "offset").count() == 10
    assert frame.where("offset = (SELECT 2 + 1)").count() == 3


def test_a_view_under_a_condition_sees_what_was_added(spark: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    batch(spark, bootstrap, topic).createOrReplaceTempView("conditional")
    counted = []
    for _ in range(2):
        produce(bootstrap, topic, [(None, b"v")] * 5)
        counted.append(spark.sql("SELECT count(*) FROM conditional WHERE offset >= 2").first()[0])

    assert counted == [3, 8]


def test_it_is_installed_once(spark: Any) -> None:
    installed = spark._jsparkSession.experimental().extraOptimizations().size()

    assert push_down_conditions(spark)
    assert spark._jsparkSession.experimental().extraOptimizations().size() == installed


def test_another_kind_of_session_is_left_alone() -> None:
    assert not push_down_conditions(object())  # type: ignore[arg-type]


def test_conditions_leave_what_all_of_them_hold_for() -> None:
    found = parse_conditions(["offset > 3", "offset <= 9", "partition in 1 2 5", "partition = 2", "timestamp > 5001"])

    assert found == Conditions(Interval(2, 2), frozenset({2}), Interval(4, 9), Interval(5002))
    assert [id_ for id_ in range(6) if found.wants(id_)] == [2]
    assert found.clip(OffsetRange(TopicPartition("t", 2), 0, 100)) == OffsetRange(TopicPartition("t", 2), 4, 10)
    assert found.clip(OffsetRange(TopicPartition("t", 2), 50, 100)).count == 0
    assert found.not_before_ms == 6
    assert parse_conditions([]).not_before_ms is None
    assert not parse_conditions(["partition in"]).wants(0)
    with pytest.raises(InvalidOption, match="cannot be set"):
        parse_conditions(["offset near 5"])
