"""Batch reads of both connectors."""

import json
from typing import Any

import pytest

from tests.spark.differential.topics import START_MS, Outcome, Topics, outcome
from tests.spark.source.streams import numbered, produce

ONE = {"subscribe": "diff-one"}
CUT = {"subscribe": "diff-cut"}


def of_one(first: int, second: int, third: int) -> str:
    return json.dumps({"diff-one": {"0": first, "1": second, "2": third}})


# By what a case is about: options that both read alike.
ALIKE: dict[str, dict[str, Any]] = {
    "subscribe": ONE,
    "several topics": {"subscribe": "diff-one, diff-cut"},
    "a pattern": {"subscribePattern": "diff-(one|cut)"},
    "a pattern that is found in a name": {"subscribePattern": "ff-o"},
    "a pattern that is found nowhere": {"subscribePattern": "nothing-like-it"},
    "assign": {"assign": json.dumps({"diff-one": [1, 2], "diff-cut": [0]})},
    "headers": {**ONE, "includeHeaders": "true"},
    "earliest to latest": {**ONE, "startingOffsets": "earliest", "endingOffsets": "latest"},
    "offsets": {**ONE, "startingOffsets": of_one(5, 3, 0), "endingOffsets": of_one(10, 3, 0)},
    "offsets with -2 and -1": {**ONE, "startingOffsets": of_one(-2, 7, -2), "endingOffsets": of_one(9, -1, -1)},
    "offsets of not all partitions": {**ONE, "startingOffsets": json.dumps({"diff-one": {"0": 5}})},
    "offsets of another topic": {**ONE, "startingOffsets": json.dumps({"diff-cut": {"0": 5}})},
    "offsets with assign": {"assign": '{"diff-one": [0]}', "startingOffsets": '{"diff-one": {"0": 30}}'},
    "latest to latest": {**ONE, "startingOffsets": "latest"},
    "to the earliest": {**ONE, "endingOffsets": "earliest"},
    "from the latest of a partition": {**ONE, "startingOffsets": of_one(-1, 0, 0)},
    "starts where it ends": {**CUT, "startingOffsets": '{"diff-cut": {"0": 20}}'},
    "starts behind its end": {**CUT, "startingOffsets": '{"diff-cut": {"0": 21}}'},
    "ends before its start": {**ONE, "startingOffsets": of_one(9, 0, 0), "endingOffsets": of_one(8, 0, 0)},
    "ends before its beginning": {**CUT, "endingOffsets": '{"diff-cut": {"0": 3}}'},
    "ends behind its end": {**CUT, "endingOffsets": '{"diff-cut": {"0": 30}}'},
    "starts before its beginning": {**CUT, "startingOffsets": '{"diff-cut": {"0": 2}}'},
    "starts before its beginning, and may": {
        **CUT,
        "startingOffsets": '{"diff-cut": {"0": 2}}',
        "failOnDataLoss": "false",
    },
    "from a time": {"assign": '{"diff-one": [0]}', "startingTimestamp": START_MS + 30_500},
    "between two times": {
        "assign": '{"diff-one": [0, 1]}',
        "startingTimestamp": START_MS + 3000,
        "endingTimestamp": START_MS + 8000,
        "failOnDataLoss": "false",
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "to a time": {**ONE, "endingTimestamp": START_MS + 20_000},
    "to a time in a partition out of order": {"assign": '{"diff-one": [1]}', "endingTimestamp": START_MS + 5_000},
    "from a time that nothing has": {**CUT, "startingTimestamp": START_MS + 99_000},
    "from a time that nothing has, or the latest": {
        **CUT,
        "startingTimestamp": START_MS + 99_000,
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "from a time of each partition": {
        "assign": '{"diff-one": [0, 1]}',
        "startingOffsetsByTimestamp": json.dumps({"diff-one": {"0": START_MS + 30_000, "1": START_MS + 2000}}),
    },
    "to a time of each partition": {
        "assign": '{"diff-one": [0, 1]}',
        "endingOffsetsByTimestamp": json.dumps({"diff-one": {"0": START_MS + 30_000, "1": START_MS + 99_000}}),
    },
    "a time of not all partitions": {
        **ONE,
        "startingOffsetsByTimestamp": json.dumps({"diff-one": {"0": START_MS}}),
    },
    "more tasks": {**ONE, "minPartitions": "7"},
    "smaller tasks": {**ONE, "maxRecordsPerPartition": "15"},
    "more and smaller tasks": {**ONE, "minPartitions": "9", "maxRecordsPerPartition": "15"},
    "no tasks": {**ONE, "minPartitions": "0"},
    "committed": {"subscribe": "diff-two", "kafka.isolation.level": "read_committed"},
    "not committed": {"subscribe": "diff-two", "kafka.isolation.level": "read_uncommitted"},
    "a topic that is not there": {"subscribe": "diff-none"},
    "no topic": {"subscribe": " , "},
    "two ways to name topics": {**ONE, "subscribePattern": "x"},
    "no way to name topics": {},
    "offsets that are none": {**ONE, "startingOffsets": "first"},
    "a setting that is not the user's": {**ONE, "kafka.auto.offset.reset": "latest"},
}
# What they read differently, as docs/spark.md says, and whom of them that refuses.
DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "isolation is read_committed unless it is said": ({"subscribe": "diff-two"}, "nobody"),
    "an unknown option": ({**ONE, "startingOffset": "latest"}, "ours"),
    "an option of a stream": ({**ONE, "maxOffsetsPerTrigger": "5"}, "ours"),
    "a partition that is not there": ({"assign": '{"diff-one": [0, 7]}'}, "ours"),
    "two starts": ({**CUT, "startingOffsets": "earliest", "startingTimestamp": START_MS + 15}, "ours"),
    "starts behind its end, and may": (
        {**CUT, "startingOffsets": '{"diff-cut": {"0": 21}}', "failOnDataLoss": "false"},
        "theirs",
    ),
}


def read(spark: Any, topics: Topics, format_: str, options: dict[str, Any]) -> Outcome:
    return outcome(lambda: topics.reader(spark.read, format_, options).collect())


@pytest.mark.parametrize("case", ALIKE)
def test_both_read_the_same(spark: Any, topics: Topics, case: str) -> None:
    theirs = read(spark, topics, "kafka", ALIKE[case])
    ours = read(spark, topics, "barnabas", ALIKE[case])

    assert ours == theirs


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_is_known_to_differ_differs(spark: Any, topics: Topics, case: str) -> None:
    options, who_refuses = DIFFERENT[case]
    theirs = read(spark, topics, "kafka", options)
    ours = read(spark, topics, "barnabas", options)

    assert ours != theirs
    assert (theirs is None, ours is None) == (who_refuses == "theirs", who_refuses == "ours")


@pytest.mark.parametrize("case", ["subscribe", "more tasks", "more and smaller tasks"])
def test_both_make_as_many_tasks_of_what_is_there(spark: Any, topics: Topics, case: str) -> None:
    """Spark's own also makes one of a partition that is empty, unless it splits."""
    frames = [topics.reader(spark.read, format_, ALIKE[case]) for format_ in ("kafka", "barnabas")]
    theirs, ours = (frame.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect() for frame in frames)

    assert sorted(filter(None, ours)) == sorted(filter(None, theirs))


def test_both_see_what_was_added_to_a_frame_that_is_used_again(spark: Any, topics: Topics) -> None:
    topics.create("diff-again")
    frames = [topics.reader(spark.read, format_, {"subscribe": "diff-again"}) for format_ in ("kafka", "barnabas")]
    counted = []
    for _ in range(3):
        produce(topics.bootstrap, "diff-again", numbered(5))
        counted.append([frame.count() for frame in frames])
    topics.delete("diff-again")

    assert counted == [[5, 5], [10, 10], [15, 15]]


def test_both_filter_alike(spark: Any, topics: Topics) -> None:
    conditions = ["partition = 1", "offset > 30 AND partition < 1", "timestamp >= TIMESTAMP '2023-11-14 22:13:35Z'"]

    for condition in conditions:
        frames = [topics.reader(spark.read, format_, ONE).where(condition) for format_ in ("kafka", "barnabas")]
        theirs, ours = (outcome(frame.collect) for frame in frames)
        assert ours == theirs
        assert ours
