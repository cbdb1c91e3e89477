"""Which errors of an answer are counted."""

from collections import Counter
from typing import Any

from barnabas.edge.kafka.reporting import MAX_COUNTED, count_refusals


def _counted(values: dict[str, Any]) -> Counter[tuple[str, int]]:
    refusals: Counter[tuple[str, int]] = Counter()
    count_refusals(refusals, "list_offsets", values)
    return refusals


def test_the_error_of_an_answer_and_those_of_its_parts_are_counted() -> None:
    partitions = [{"error_code": 3, "replicas": [1, 2]}, {"error_code": 0}, {"error_code": 3}]
    answer = {"error_code": 7, "topics": [{"name": "a", "partitions": []}, {"name": "b", "partitions": partitions}]}
    assert _counted(answer) == {("list_offsets", 7): 1, ("list_offsets", 3): 2}


def test_an_answer_without_errors_counts_nothing() -> None:
    assert not _counted({"throttle_time": 0, "topics": [], "error_code": None, "nodes": [1, 2], "owner": {"id": 1}})


def test_of_very_many_parts_only_the_first_are_looked_at() -> None:
    parts = [{"error_code": 3, "inner": [{"error_code": 5}]}] * (MAX_COUNTED + 10)
    assert _counted({"topics": parts}) == {("list_offsets", 3): MAX_COUNTED}
