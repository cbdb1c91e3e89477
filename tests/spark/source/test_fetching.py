"""What a task does, without Spark: ranges that are there, that went since they were planned, or that never were."""

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client import Bus
from barnabas.core.model import TopicPartition
from barnabas.spark.source import fetching
from barnabas.spark.source.options import ReadOptions, parse_options
from barnabas.spark.source.planning import OffsetRange
from barnabas.spark.source.refusals import DataLoss
from barnabas.spark.source.rows import RowLayout, row_schema
from tests.spark.conftest import MakeTopic
from tests.spark.source.streams import numbered, produce


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """No connection is left to another test."""
    yield
    while fetching._idle:
        fetching._idle.popitem()[1].close()


def options_of(bootstrap: str, **options: str) -> ReadOptions:
    return parse_options({"kafka.bootstrap.servers": bootstrap, "subscribe": "any", **options}, "batch")


def offsets(options: ReadOptions, topic: str, start: int, end: int) -> list[int]:
    layout = RowLayout(row_schema(include_headers=False))
    batches: list[Any] = list(
        fetching.read_ranges(options, [OffsetRange(TopicPartition(topic, 0), start, end)], layout)
    )
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_range_that_was_cut_off_since_it_was_planned_is_lost(bootstrap: str, client: Bus, topic: str) -> None:
    produce(bootstrap, topic, numbered(10))
    client.truncate(topic, 0, before=6)

    with pytest.raises(DataLoss, match=f"{topic}-0: offsets 2 to 5 are gone, it begins at 6 now"):
        offsets(options_of(bootstrap), topic, 2, 9)
    assert offsets(options_of(bootstrap, failOnDataLoss="false"), topic, 2, 9) == [6, 7, 8]
    assert offsets(options_of(bootstrap, failOnDataLoss="false"), topic, 2, 5) == []


def test_a_range_beyond_the_end_is_lost(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, numbered(3))

    with pytest.raises(DataLoss, match=f"{topic}-0: offsets 8 to 9 are gone, it ends at 3 now"):
        offsets(options_of(bootstrap), topic, 8, 10)


def test_a_topic_that_is_gone_is_lost(bootstrap: str, client: Bus, topic: str) -> None:
    client.delete_topic(topic)

    with pytest.raises(DataLoss, match=f"{topic}-0: offsets 1 to 2 are gone, the partition does not exist any more"):
        offsets(options_of(bootstrap), topic, 1, 3)
    assert offsets(options_of(bootstrap, failOnDataLoss="false"), topic, 1, 3) == []


def test_connections_are_kept_for_the_next_task_and_their_number_is_bounded(
    bootstrap: str, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_MOST_IDLE", 2)
    topics = [make_topic() for _ in range(3)]
    for topic in topics:
        produce(bootstrap, topic, numbered(1))
        assert offsets(options_of(bootstrap), topic, 0, 1) == [0]
    kept = list(fetching._idle.values())

    assert offsets(options_of(bootstrap), topics[2], 0, 1) == [0]

    assert [identity[2] for identity in fetching._idle] == topics[1:]
    assert list(fetching._idle.values()) == kept
