"""Streams: limits, restarts, what appears later, and what is lost."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.client import Bus, KeysMove
from barnabas.spark import source_progress
from tests.spark.conftest import MakeTopic
from tests.spark.source.streams import WAIT_S, numbered, produce, run_available, start, stream, wait_until


def fill(bootstrap: str, topic: str, *counts: int) -> None:
    for partition, count in enumerate(counts):
        produce(bootstrap, topic, numbered(count), partition=partition)


def test_all_there_is_is_read_once_and_a_restart_goes_on_where_it_ended(
    spark: Any, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    fill(bootstrap, topic, 5, 3)
    frame = stream(spark, bootstrap, topic)

    first = run_available(frame, tmp_path)
    fill(bootstrap, topic, 0, 4)
    second = run_available(frame, tmp_path)
    third = run_available(frame, tmp_path)

    assert first.places == [(topic, 0, at) for at in range(5)] + [(topic, 1, at) for at in range(3)]
    assert second.places == [(topic, 1, at) for at in range(3, 7)]
    assert third.rows == []
    newest = max((tmp_path / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    written = json.loads(newest.read_text().splitlines()[-1])
    (id_,) = written.keys() - {topic}
    assert written == {topic: {"0": 5, "1": 7}, id_: {}}
    assert id_.startswith(f"{topic}@")


def test_batches_are_limited_by_offsets_and_shared_among_partitions(
    spark: Any, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    fill(bootstrap, topic, 90, 10)

    read = run_available(stream(spark, bootstrap, topic, maxOffsetsPerTrigger=50), tmp_path)

    assert [len(rows) for rows in read.batches] == [50, 50]
    assert [sum(row.partition for row in rows) for rows in read.batches] == [5, 5]
    assert len(set(read.places)) == 100


def test_batches_are_limited_by_bytes(spark: Any, bootstrap: str, topic: str, tmp_path: Path) -> None:
    produce(bootstrap, topic, [(None, b"x" * 1000)] * 300, config={"batch.num.messages": 10})

    read = run_available(stream(spark, bootstrap, topic, maxBytesPerTrigger="100k"), tmp_path)

    sizes = [len(rows) for rows in read.batches]
    assert sum(sizes) == 300
    assert len(sizes) == 3
    assert all(size <= 101 for size in sizes), sizes


def test_a_batch_waits_for_enough_but_not_for_ever(spark: Any, bootstrap: str, topic: str, tmp_path: Path) -> None:
    produce(bootstrap, topic, numbered(3))
    patient = stream(spark, bootstrap, topic, minOffsetsPerTrigger=5, maxTriggerDelay="10m")
    query, read = start(patient, tmp_path / "patient")
    hasty, hastily_read = start(
        stream(spark, bootstrap, topic, minOffsetsPerTrigger=5, maxTriggerDelay="100ms"), tmp_path / "hasty"
    )
    try:
        wait_until(lambda: len(hastily_read.rows) == 3, hasty)
        assert read.rows == []
        produce(bootstrap, topic, numbered(2))
        wait_until(lambda: len(read.rows) == 5, query)
    finally:
        query.stop()
        hasty.stop()


def test_topics_and_partitions_that_appear_later_are_read_from_their_beginning(
    spark: Any, bootstrap: str, client: Bus, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    later = f"{topic}-later"
    query, read = start(stream(spark, bootstrap, subscribePattern=f"{topic}.*", startingOffsets="latest"), tmp_path)
    try:
        wait_until(lambda: query.lastProgress is not None, query)  # it has its first offsets
        with pytest.warns(KeysMove):
            client.add_partitions(topic, 2)
        client.create_topic(later, partitions=1)
        produce(bootstrap, topic, numbered(2), partition=1)
        produce(bootstrap, later, numbered(2))
        wait_until(lambda: len(read.rows) == 4, query)
    finally:
        query.stop()
    assert read.places == [(topic, 1, 0), (topic, 1, 1), (later, 0, 0), (later, 0, 1)]


def test_offsets_that_were_deleted_stop_a_stream_or_are_skipped(
    spark: Any, bootstrap: str, client: Bus, topic: str, tmp_path: Path
) -> None:
    produce(bootstrap, topic, numbered(5))
    run_available(stream(spark, bootstrap, topic), tmp_path)
    produce(bootstrap, topic, numbered(10))
    client.truncate(topic, 0, before=8)

    with pytest.raises(Exception, match=f"{topic}-0: offsets 5 to 7 are gone, it begins at 8 now") as refusal:
        run_available(stream(spark, bootstrap, topic), tmp_path)
    read = run_available(stream(spark, bootstrap, topic, failOnDataLoss=False), tmp_path)

    assert "failOnDataLoss" in str(refusal.value)
    assert read.places == [(topic, 0, at) for at in range(8, 15)]


def test_what_is_gone_does_not_count_towards_a_limit(
    spark: Any, bootstrap: str, client: Bus, topic: str, tmp_path: Path
) -> None:
    beginning = json.dumps({topic: {"0": 0}})
    produce(bootstrap, topic, numbered(15))
    client.truncate(topic, 0, before=8)
    options = {"startingOffsets": beginning, "failOnDataLoss": False, "maxOffsetsPerTrigger": 5}

    read = run_available(stream(spark, bootstrap, topic, **options), tmp_path)

    assert [[row.offset for row in rows] for rows in read.batches] == [[8, 9, 10, 11, 12], [13, 14]]


def test_a_topic_that_was_deleted_stops_a_stream_or_is_left_behind(
    spark: Any, bootstrap: str, client: Bus, make_topic: MakeTopic, tmp_path: Path
) -> None:
    gone, kept = make_topic(), make_topic()
    both = f"{gone},{kept}"
    fill(bootstrap, gone, 3)
    run_available(stream(spark, bootstrap, both), tmp_path)
    client.delete_topic(gone)
    produce(bootstrap, kept, numbered(2))

    with pytest.raises(Exception, match=f"{gone}-0: offsets from 3 on are gone, the partition does not exist any more"):
        run_available(stream(spark, bootstrap, both), tmp_path)
    read = run_available(stream(spark, bootstrap, both, failOnDataLoss=False), tmp_path)

    assert read.places == [(kept, 0, 0), (kept, 0, 1)]


def test_a_topic_that_was_made_anew_is_read_from_its_beginning_if_data_may_be_lost(
    spark: Any, bootstrap: str, client: Bus, topic: str, tmp_path: Path
) -> None:
    produce(bootstrap, topic, numbered(10))
    run_available(stream(spark, bootstrap, topic), tmp_path)
    client.delete_topic(topic)
    client.create_topic(topic, partitions=1)
    produce(bootstrap, topic, numbered(12))  # its offsets alone would not tell

    with pytest.raises(Exception, match=f"records were lost: topic '{topic}' was deleted and created again"):
        run_available(stream(spark, bootstrap, topic), tmp_path)
    read = run_available(stream(spark, bootstrap, topic, failOnDataLoss=False), tmp_path)
    again = run_available(stream(spark, bootstrap, topic, failOnDataLoss=False), tmp_path)

    assert read.places == [(topic, 0, at) for at in range(12)]
    assert again.rows == []


def test_a_checkpoint_without_topic_ids_goes_on(spark: Any, bootstrap: str, topic: str, tmp_path: Path) -> None:
    """As older versions wrote them, and Spark's own source does."""
    produce(bootstrap, topic, numbered(3))
    run_available(stream(spark, bootstrap, topic), tmp_path)
    (offsets,) = (tmp_path / "offsets").glob("0")
    *before, _ = offsets.read_text().splitlines()
    offsets.write_text("\n".join([*before, json.dumps({topic: {"0": 3}})]))
    (tmp_path / "offsets" / ".0.crc").unlink(missing_ok=True)

    idle = run_available(stream(spark, bootstrap, topic), tmp_path)
    produce(bootstrap, topic, numbered(2))
    read = run_available(stream(spark, bootstrap, topic), tmp_path)

    assert idle.batches == []
    assert read.places == [(topic, 0, 3), (topic, 0, 4)]


def test_a_stream_waits_behind_an_open_transaction(spark: Any, bootstrap: str, topic: str, tmp_path: Path) -> None:
    """One that has read what was not committed, and then reads only what is."""
    produce(bootstrap, topic, numbered(2))
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(WAIT_S)
    dirty = run_available(stream(spark, bootstrap, topic, isolation__level="read_uncommitted"), tmp_path)

    waiting = run_available(stream(spark, bootstrap, topic), tmp_path)
    producer.commit_transaction(WAIT_S)
    produce(bootstrap, topic, numbered(1))
    read = run_available(stream(spark, bootstrap, topic), tmp_path)

    assert [row.offset for row in dirty.rows] == [0, 1, 2]
    assert waiting.rows == []
    assert [row.offset for row in read.rows] == [4]


def test_the_lag_of_a_query_is_in_its_reports(
    spark: Any, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap, topic, numbered(6), partition=0)
    frame = stream(spark, bootstrap, topic, maxOffsetsPerTrigger=4)

    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    ended = query.start()
    assert ended.awaitTermination(int(WAIT_S))

    first, last = (source_progress(report)[0] for report in ended.recentProgress)
    assert first.description == f"topic {topic} (2 partitions)"
    assert (first.rows, first.metrics["maxOffsetsBehindLatest"], first.metrics["avgOffsetsBehindLatest"]) == (
        4,
        "2",
        "1.0",
    )
    assert (last.rows, last.total_offsets_behind) == (2, 0)
    assert source_progress(ended) == [last]
