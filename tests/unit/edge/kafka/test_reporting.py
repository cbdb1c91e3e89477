"""Which errors of an answer are counted."""

from collections import Counter
from typing import Any

from barnabas.edge.kafka.reporting import MAX_COUNTED, count_refusals
from barnabas.wire.apis import HEARTBEAT, METADATA, OFFSET_FETCH, Api


def _counted(api: Api, version: int, values: dict[str, Any]) -> dict[tuple[str, int], int]:
    refusals: Counter[tuple[str, int]] = Counter()
    count_refusals(refusals, api, version, values)
    return dict(refusals)


def test_the_error_of_an_answer_and_those_of_its_parts_are_counted() -> None:
    partitions = [{"error_code": 3, "replica_nodes": [1, 2]}, {"error_code": 0}, {"error_code": 3}]
    topics = [{"error_code": 5, "partitions": []}, {"error_code": 0, "partitions": partitions}]
    answer = {"error_code": 7, "topics": topics, "brokers": [{"node_id": 1}]}
    assert _counted(METADATA, 12, answer) == {("metadata", 7): 1, ("metadata", 5): 1, ("metadata", 3): 2}


def test_errors_are_counted_however_deep_they_are() -> None:
    topics = [{"name": "t", "partitions": [{"error_code": 3}]}]
    answer = {"groups": [{"error_code": 16, "topics": []}, {"error_code": 0, "topics": topics}]}
    assert _counted(OFFSET_FETCH, 8, answer) == {("offset_fetch", 16): 1, ("offset_fetch", 3): 1}


def test_an_answer_without_errors_counts_nothing() -> None:
    assert not _counted(HEARTBEAT, 4, {"throttle_time": 0, "error_code": 0})
    assert not _counted(METADATA, 12, {"topics": [{"error_code": 0}], "brokers": []})
    assert not _counted(METADATA, 12, {"topics": None})


def test_of_very_many_parts_only_the_first_are_looked_at() -> None:
    assert _counted(METADATA, 12, {"topics": [{"error_code": 3}] * (MAX_COUNTED + 10)}) == {
        ("metadata", 3): MAX_COUNTED
    }
