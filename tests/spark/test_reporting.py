"""Lag and description of a query's sources, from reports as Spark makes them."""

import json
from types import SimpleNamespace
from typing import Any

from barnabas.core.model import TopicPartition
from barnabas.spark import SourceProgress, source_progress

JAVA = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow@352274c4"


def report(*sources: dict[str, Any]) -> dict[str, Any]:
    return {"batchId": 3, "sources": [{"description": JAVA, "numInputRows": 7, **each} for each in sources]}


def test_the_lag_is_counted_as_sparks_own_source_counts_it() -> None:
    end = {"orders": {"0": 10, "1": 5}, "returns": {"0": 4}, "orders@XELmi": {}}
    latest = {"orders": {"0": 17, "1": 5}, "returns": {"0": 6}}

    (found,) = source_progress(report({"endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}))

    assert found.description == "topics orders (2 partitions), returns (1 partition)"
    assert found.rows == 7
    assert found.offsets_behind[TopicPartition("orders", 0)] == 7
    assert found.total_offsets_behind == 9
    assert found.metrics == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "7",
        "avgOffsetsBehindLatest": "3.0",
    }


def test_a_partition_that_is_new_is_behind_with_all_it_has() -> None:
    (found,) = source_progress(report({"endOffset": {"t": {"0": 2}}, "latestOffset": {"t": {"0": 2, "1": 3}}}))

    assert found.metrics["maxOffsetsBehindLatest"] == "3"
    assert found.description == "topic t (1 partition)"


def test_other_sources_stay_as_spark_describes_them() -> None:
    files = {"description": "FileStreamSource[file:/in]", "endOffset": '{"logOffset":4}', "latestOffset": None}
    rate = {"description": "RateStreamV2", "endOffset": "12", "latestOffset": "12"}

    found = source_progress(report(files, rate, {"endOffset": "not JSON", "latestOffset": "null"}))

    assert found == [
        SourceProgress("FileStreamSource[file:/in]", 7),
        SourceProgress("RateStreamV2", 7),
        SourceProgress(JAVA, 7),
    ]
    assert [each.metrics for each in found] == [{}, {}, {}]


def test_a_query_is_asked_for_its_last_report() -> None:
    said = report({"endOffset": {"t": {"0": 2}}, "latestOffset": {"t": {"0": 2}}})

    assert source_progress(SimpleNamespace(lastProgress=None)) == []
    assert source_progress(SimpleNamespace(lastProgress=said)) == source_progress(said)
