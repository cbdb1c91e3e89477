"""Streams into topics, once over restarts."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.client import Bus, KeysMove
from barnabas.client.partitioning import partition_for_key
from tests.spark.conftest import MakeTopic


def add_file(directory: Path, number: int) -> list[bytes]:
    """A file of ten lines."""
    lines = [f"{number}-{row}" for row in range(10)]
    unfinished = directory.parent / "unfinished"
    unfinished.write_text("".join(f"{line}\n" for line in lines))
    unfinished.rename(directory / f"{number:03}.txt")
    return [line.encode() for line in lines]


def run(rows: Any, bootstrap: str, topic: str, checkpoint: Path, mode: str = "append", **options: str) -> Any:
    """Run a query over what is there."""
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "checkpointLocation": str(checkpoint), **options}
    writing = rows.writeStream.format("barnabas").outputMode(mode).options(**given).trigger(availableNow=True)
    query = writing.start()
    query.awaitTermination(90)
    return query


def values(client: Bus, topic: str) -> list[bytes]:
    return sorted(message.value or b"" for message in client.consume(topic, until_end=True))


def test_a_stream_goes_on_from_its_checkpoint(
    spark: Any, client: Bus, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, files = make_topic(partitions=2), tmp_path / "files"
    files.mkdir()
    rows = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(str(files))
    expected = [line for number in range(3) for line in add_file(files, number)]

    first = run(rows, bootstrap, topic, tmp_path / "checkpoint")
    expected += add_file(files, 3)
    run(rows, bootstrap, topic, tmp_path / "checkpoint")

    assert values(client, topic) == sorted(expected)
    (group,) = [group.name for group in client.groups() if str(first.id) in group.name]
    assert group == f"spark-sink-{first.id}"


def test_keys_go_where_other_clients_put_them_when_a_topic_gets_more_partitions(
    spark: Any, client: Bus, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """While the query runs: its tasks keep their producers."""
    topic, files = make_topic(), tmp_path / "files"
    files.mkdir()
    rows = spark.readStream.format("text").load(str(files)).selectExpr("value as key", "value")
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "checkpointLocation": str(tmp_path / "checkpoint")}
    query = rows.writeStream.format("barnabas").options(**given).start()
    try:
        add_file(files, 0)
        query.processAllAvailable()
        with pytest.warns(KeysMove):
            client.add_partitions(topic, 5)
        later = add_file(files, 1)
        query.processAllAvailable()
    finally:
        query.stop()

    placed = {message.key: message.partition for message in client.consume(topic, until_end=True)}
    assert {key: placed[key] for key in later} == {key: partition_for_key(key, 5) for key in later}


def test_a_batch_that_is_run_again_is_passed_over(
    spark: Any, client: Bus, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """As after a crash between the sink's commit and that of Spark: the entry of the commit log is not there."""
    topic, files, checkpoint = make_topic(), tmp_path / "files", tmp_path / "checkpoint"
    files.mkdir()
    rows = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(str(files))
    expected = [line for number in range(2) for line in add_file(files, number)]
    run(rows, bootstrap, topic, checkpoint)

    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    expected += add_file(files, 2)
    run(rows, bootstrap, topic, checkpoint)

    assert values(client, topic) == sorted(expected)


def test_a_checkpoint_that_was_put_back_is_refused(
    spark: Any, client: Bus, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, files, checkpoint = make_topic(), tmp_path / "files", tmp_path / "checkpoint"
    files.mkdir()
    rows = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(str(files))
    expected = [line for number in range(2) for line in add_file(files, number)]
    run(rows, bootstrap, topic, checkpoint)

    for directory in ("commits", "offsets"):
        for name in ("1", ".1.crc", *(("0", ".0.crc") if directory == "commits" else ())):
            (checkpoint / directory / name).unlink(missing_ok=True)
    with pytest.raises(Exception, match=r"batch 1 of .* was published already, and this is batch 0"):
        run(rows, bootstrap, topic, checkpoint)

    assert values(client, topic) == sorted(expected)


def test_an_aggregate_is_written_as_a_whole_in_the_mode_complete(
    spark: Any, client: Bus, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Spark does not have the mode `update` for sinks in Python."""
    topic, files = make_topic(), tmp_path / "files"
    files.mkdir()
    add_file(files, 1)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    counts = spark.readStream.format("text").load(str(files)).groupBy("value").count()

    rows = counts.selectExpr("value as key", "cast(count as string) value")
    run(rows, bootstrap, topic, tmp_path / "checkpoint", "complete")

    assert values(client, topic) == [b"1"] * 10


def test_at_least_once(spark: Any, client: Bus, bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic, files = make_topic(), tmp_path / "files"
    files.mkdir()
    expected = add_file(files, 0)
    rows = spark.readStream.format("text").load(str(files))

    query = run(rows, bootstrap, topic, tmp_path / "checkpoint", exactlyOnce="false")

    assert values(client, topic) == expected
    assert not [group.name for group in client.groups() if str(query.id) in group.name]
