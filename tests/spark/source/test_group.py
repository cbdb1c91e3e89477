"""Progress as a consumer group."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from barnabas.client import Bus
from tests.spark.conftest import MakeTopic
from tests.spark.source.streams import numbered, produce, run_available, start, stream, wait_until


def progress(client: Bus, group: str) -> dict[int, tuple[int | None, int | None]]:
    """Offset and lag of each partition."""
    return {each.partition: (each.offset, each.lag) for each in client.describe_group(group).partitions}


def test_a_stream_shows_its_progress_and_its_lag_in_a_group(
    spark: Any, bootstrap: str, client: Bus, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    group = f"of-{topic}"
    produce(bootstrap, topic, numbered(6), partition=0)
    frame = stream(spark, bootstrap, topic, group=group, maxOffsetsPerTrigger=4)

    run_available(frame, tmp_path)
    produce(bootstrap, topic, numbered(3), partition=1)

    assert progress(client, group) == {0: (6, 0), 1: (0, 3)}
    assert client.describe_group(group).state == "empty"
    run_available(frame, tmp_path)
    assert progress(client, group) == {0: (6, 0), 1: (3, 0)}


def test_a_stream_that_runs_on_commits_its_last_batch_too(
    spark: Any, bootstrap: str, client: Bus, topic: str, tmp_path: Path
) -> None:
    group = f"of-{topic}"
    query, read = start(stream(spark, bootstrap, topic, group=group), tmp_path)
    try:
        produce(bootstrap, topic, numbered(5))
        wait_until(lambda: len(read.rows) == 5, query)
        wait_until(lambda: progress(client, group) == {0: (5, 0)}, query)
    finally:
        query.stop()


def test_a_query_that_starts_over_moves_its_group_back(
    spark: Any, bootstrap: str, client: Bus, topic: str, tmp_path: Path
) -> None:
    group = f"of-{topic}"
    produce(bootstrap, topic, numbered(5))
    frame = stream(spark, bootstrap, topic, group=group)
    run_available(frame, tmp_path / "first")
    anew = stream(spark, bootstrap, topic, group=group, minOffsetsPerTrigger=100, maxTriggerDelay="10m")

    query, read = start(anew, tmp_path / "second")
    try:
        wait_until(lambda: progress(client, group) == {0: (0, 5)}, query)
    finally:
        query.stop()
    assert read.rows == []


def test_a_group_with_members_is_refused(spark: Any, bootstrap: str, client: Bus, topic: str, tmp_path: Path) -> None:
    group = f"of-{topic}"
    produce(bootstrap, topic, numbered(1))
    with closing(client.consume(topic, group=group, offset="earliest")) as reading:
        next(reading)
        with pytest.raises(Exception, match=f"cannot commit the progress of group '{group}'"):
            run_available(stream(spark, bootstrap, topic, group=group), tmp_path)
