"""Streams into topics, once over restarts."""

import shutil
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


def test_a_batch_whose_task_fails_before_the_sink_is_not_published_and_runs_again(
    spark: Any, client: Bus, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Spark ends the input of the sink as if it were complete; once what was wrong is put right, the query goes on."""
    topic, files, checkpoint = make_topic(), tmp_path / "files", tmp_path / "checkpoint"
    files.mkdir()
    text = spark.readStream.format("text").load(str(files))
    expected = add_file(files, 0)

    def query(condition: str) -> Any:
        # One Arrow batch for each row, so that rows are on their way when the task fails.
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
        return run(
            text.selectExpr(f"if({condition}, raise_error('no good'), value) value"), bootstrap, topic, checkpoint
        )

    try:
        with pytest.raises(Exception, match="no good"):
            query("value = '0-8'")
        assert values(client, topic) == []
        assert client.transactions(states=["Ongoing"]) == []
        query("value = 'none'")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    assert values(client, topic) == sorted(expected)


def copy_of(checkpoint: Path) -> Path:
    copied = checkpoint.with_name("copy")
    shutil.copytree(checkpoint, copied)
    return copied


def test_an_old_copy_of_a_checkpoint_is_refused_before_anything_is_written(
    spark: Any, client: Bus, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Its next batch has a number that was published, with other rows."""
    topic, files, checkpoint = make_topic(), tmp_path / "files", tmp_path / "checkpoint"
    files.mkdir()
    rows = spark.readStream.format("text").load(str(files))
    expected = add_file(files, 0)
    run(rows, bootstrap, topic, checkpoint)
    copied = copy_of(checkpoint)
    expected += add_file(files, 1)
    run(rows, bootstrap, topic, checkpoint)
    later = add_file(files, 2)

    with pytest.raises(Exception, match=r"batch 1 of .* was published with other offsets.*Nothing was written"):
        run(rows, bootstrap, topic, copied)
    assert values(client, topic) == sorted(expected)

    run(rows, bootstrap, topic, checkpoint)
    with pytest.raises(
        Exception, match=r"batch 2 of .* was published already, and this is batch 1.*Nothing was written"
    ):
        run(rows, bootstrap, topic, copied)
    assert values(client, topic) == sorted(expected + later)


def test_a_batch_that_was_published_to_another_topic_is_refused(
    spark: Any, client: Bus, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, other = make_topic(), make_topic()
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    files.mkdir()
    rows = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(str(files))
    for number in range(2):
        add_file(files, number)
    run(rows, bootstrap, topic, checkpoint)

    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    with pytest.raises(Exception, match=r"was published to topic .* and is to go to topic"):
        run(rows, bootstrap, other, checkpoint)

    assert values(client, other) == []
