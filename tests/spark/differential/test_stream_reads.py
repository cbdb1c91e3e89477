"""Streams of both connectors, and checkpoints that move between them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.differential.topics import START_MS, Topics, outcome
from tests.spark.source.streams import numbered, produce, run_available

ONE = {"subscribe": "diff-one", "startingOffsets": "earliest"}
CUT = '{"diff-cut": {"0": 2}}'
ALIKE: dict[str, dict[str, Any]] = {
    "earliest": ONE,
    "latest": {"subscribe": "diff-one"},
    "a pattern": {"subscribePattern": "ff-c", "startingOffsets": "earliest"},
    "headers": {**ONE, "includeHeaders": "true"},
    "offsets": {"subscribe": "diff-one", "startingOffsets": json.dumps({"diff-one": {"0": 35, "1": -1, "2": -2}})},
    "a time": {"assign": '{"diff-one": [0]}', "startingTimestamp": START_MS + 30_500},
    "times": {
        "assign": '{"diff-one": [0]}',
        "startingOffsetsByTimestamp": json.dumps({"diff-one": {"0": START_MS + 30_500}}),
    },
    "committed": {
        "subscribe": "diff-two",
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    },
    "limited": {**ONE, "maxOffsetsPerTrigger": "25"},
    "waiting": {**ONE, "minOffsetsPerTrigger": "5", "maxTriggerDelay": "1s"},
    "more tasks": {**ONE, "minPartitions": "7"},
    "before its beginning": {"subscribe": "diff-cut", "startingOffsets": CUT},
    "before its beginning, and may": {"subscribe": "diff-cut", "startingOffsets": CUT, "failOnDataLoss": "false"},
    "an end": {**ONE, "endingOffsets": "latest"},
    "an end in time": {**ONE, "endingOffsetsByTimestamp": json.dumps({"diff-one": {"0": 1, "1": 1, "2": 1}})},
    "a topic that is not there": {"subscribe": "diff-none", "startingOffsets": "earliest"},
}


def run(spark: Any, topics: Topics, format_: str, options: dict[str, Any], checkpoint: Path) -> list[Any]:
    return run_available(topics.reader(spark.readStream, format_, options), checkpoint).rows


@pytest.mark.parametrize("case", ALIKE)
def test_both_stream_the_same(spark: Any, topics: Topics, case: str, tmp_path: Path) -> None:
    theirs, ours = (
        outcome(run, spark, topics, format_, ALIKE[case], tmp_path / format_) for format_ in ("kafka", "barnabas")
    )

    assert ours == theirs


def test_a_checkpoint_moves_to_the_other_connector_and_back(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topics.create("diff-moving", 2)
    options = {"subscribe": "diff-moving", "startingOffsets": "earliest"}
    read = []
    for at, format_ in enumerate(("kafka", "barnabas", "kafka", "barnabas")):
        produce(topics.bootstrap, "diff-moving", numbered(5, start=5 * at), partition=at % 2)
        read += [bytes(row.value) for row in run(spark, topics, format_, options, tmp_path)]
    topics.delete("diff-moving")

    assert read == [f"v{number}".encode() for number in range(20)]


def test_only_ours_notices_a_topic_that_was_made_anew_and_is_longer(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """A difference that docs/spark.md names."""
    options = {"subscribe": "diff-anew", "startingOffsets": "earliest"}
    topics.create("diff-anew")
    produce(topics.bootstrap, "diff-anew", numbered(3))
    for format_ in ("kafka", "barnabas"):
        run(spark, topics, format_, options, tmp_path / format_)
    topics.delete("diff-anew")
    topics.create("diff-anew")
    produce(topics.bootstrap, "diff-anew", numbered(7))

    theirs, ours = (
        outcome(run, spark, topics, format_, options, tmp_path / format_) for format_ in ("kafka", "barnabas")
    )

    assert theirs is not None
    assert [row[2] for row in theirs] == [3, 4, 5, 6]
    assert ours is None
