"""Batch reads: which topics, from where to where, in how many tasks; from SQL too."""

import json
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.client import Bus
from tests.spark.conftest import MakeTopic
from tests.spark.source.streams import WAIT_S, batch, numbered, produce


def offsets(frame: Any) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def test_topics_are_named_matched_or_given_by_partition(spark: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    one, two = make_topic(partitions=2), make_topic()
    for topic, partition in ((one, 0), (one, 1), (two, 0)):
        produce(bootstrap, topic, numbered(2), partition=partition)

    def places(**options: Any) -> list[tuple[str, int]]:
        rows = batch(spark, bootstrap, **options).select("topic", "partition").distinct().collect()
        return sorted((row.topic, row.partition) for row in rows)

    assert places(subscribe=f"{one}, {two}") == [(one, 0), (one, 1), (two, 0)]
    assert places(subscribePattern=f"({one}|{two})") == [(one, 0), (one, 1), (two, 0)]
    assert places(assign=json.dumps({one: [1]})) == [(one, 1)]
    assert places(subscribePattern=f"park.{one[6:]}$") == [(one, 0), (one, 1)]  # it need not be the whole name


def test_a_range_is_read_from_its_start_up_to_its_end(spark: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    for partition in (0, 1):
        produce(bootstrap, topic, numbered(10), partition=partition)

    frame = batch(
        spark,
        bootstrap,
        topic,
        startingOffsets=json.dumps({topic: {"0": 3, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": 5, "1": -1}}),
    )

    assert offsets(frame) == [(0, 3), (0, 4), *((1, offset) for offset in range(10))]


def test_a_range_is_read_by_time(spark: Any, bootstrap: str, topic: str) -> None:
    start = 1_700_000_000_000
    produce(bootstrap, topic, [(None, b"v", None, start + 1000 * at) for at in range(10)])

    by_time = batch(spark, bootstrap, topic, startingTimestamp=start + 2500, endingTimestamp=start + 6000)
    of_each = batch(
        spark,
        bootstrap,
        topic,
        startingOffsetsByTimestamp=json.dumps({topic: {"0": start + 8000}}),
        endingOffsetsByTimestamp=json.dumps({topic: {"0": start + 99_000}}),
    )
    later = {"startingTimestamp": start + 99_000}
    waiting = batch(spark, bootstrap, topic, startingOffsetsByTimestampStrategy="latest", **later)

    assert offsets(by_time) == [(0, offset) for offset in (3, 4, 5)]
    assert offsets(of_each) == [(0, 8), (0, 9)]
    assert offsets(waiting) == []
    with pytest.raises(Exception, match=f"'startingTimestamp': {topic}-0 has no record that new"):
        batch(spark, bootstrap, topic, **later).collect()


def test_large_ranges_are_split_into_tasks(spark: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap, topic, numbered(900), partition=0)
    produce(bootstrap, topic, numbered(100), partition=1)

    def read(**options: Any) -> tuple[int, list[tuple[int, int]]]:
        frame = batch(spark, bootstrap, topic, **options)
        return frame.rdd.getNumPartitions(), offsets(frame)

    everything = [(0, offset) for offset in range(900)] + [(1, offset) for offset in range(100)]
    assert read() == (2, everything)
    assert read(minPartitions=10) == (10, everything)
    assert read(maxRecordsPerPartition=300) == (4, everything)


def test_a_reader_that_is_left_early_leaves_nothing_behind_for_the_next(spark: Any, bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [(None, b"x" * 10_000)] * 4000, config={"queue.buffering.max.kbytes": 100_000})

    for _ in range(2):
        assert len(batch(spark, bootstrap, topic).limit(5).collect()) == 5
        assert batch(spark, bootstrap, topic).count() == 4000


def test_sql_reads_a_topic(spark: Any, bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, numbered(7))

    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW of_sql USING barnabas "
        f"OPTIONS (kafka.bootstrap.servers '{bootstrap}', subscribe '{topic}')"
    )

    assert spark.sql("SELECT count(*) AS n, max(offset) AS last FROM of_sql").first() == (7, 6)


def test_spark_finds_the_data_source_by_itself() -> None:
    """As a worker of Spark looks for it, in a process that knows nothing of this one."""
    script = (
        "from importlib import import_module; from pkgutil import iter_modules\n"
        "found = [each.name for each in iter_modules() if each.name.startswith('pyspark_')]\n"
        "print([import_module(name).DefaultSource.name() for name in found])\n"
        "import sys; print(sorted({'numba', 'confluent_kafka', 'pandas'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60, cwd="/"
    )

    assert "barnabas" in done.stdout.splitlines()[0]
    assert done.stdout.splitlines()[1] == "[]", "a lookup is made by every session, and is to be quick"


def test_what_was_deleted_is_lost(spark: Any, bootstrap: str, client: Bus, topic: str) -> None:
    produce(bootstrap, topic, numbered(10))
    client.truncate(topic, 0, before=6)

    wanted = {"startingOffsets": json.dumps({topic: {"0": 2}})}
    with pytest.raises(Exception, match=f"{topic}-0: offsets 2 to 5 are gone, it begins at 6 now"):
        batch(spark, bootstrap, topic, **wanted).collect()
    assert offsets(batch(spark, bootstrap, topic, failOnDataLoss=False, **wanted)) == [(0, at) for at in range(6, 10)]
    beyond = {"endingOffsets": json.dumps({topic: {"0": 20}})}
    with pytest.raises(
        Exception, match=f"do not exist: {topic}-0 is to be read up to offset 20, and ends before that, at 10"
    ):
        batch(spark, bootstrap, topic, **beyond).collect()


def test_a_range_that_starts_behind_its_end_is_refused_or_empty(spark: Any, bootstrap: str, topic: str) -> None:
    start = 1_700_000_000_000
    produce(bootstrap, topic, [(None, b"v", None, start + 1000 * at) for at in range(10)])

    beyond = {"startingOffsets": json.dumps({topic: {"0": 20}})}
    before = {"startingTimestamp": start + 6000, "endingTimestamp": start + 2000}
    for wanted, ends_at in ((beyond, "20 on, and ends before it, at 10"), (before, "6 on, and ends before it, at 2")):
        with pytest.raises(Exception, match=f"{topic}-0 is to be read from offset {ends_at}"):
            batch(spark, bootstrap, topic, **wanted).collect()
        assert offsets(batch(spark, bootstrap, topic, failOnDataLoss=False, **wanted)) == []


def test_what_an_open_transaction_holds_back_is_not_lost(spark: Any, bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, numbered(3))
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(WAIT_S)
    wanted = {"endingOffsets": json.dumps({topic: {"0": 4}})}

    with pytest.raises(Exception, match="cannot be read up to offset 4 yet: a transaction that began at 3 is open"):
        batch(spark, bootstrap, topic, **wanted).collect()
    assert offsets(batch(spark, bootstrap, topic, failOnDataLoss=False, **wanted)) == [(0, 0), (0, 1), (0, 2)]
    assert offsets(batch(spark, bootstrap, topic, startingOffsets=json.dumps({topic: {"0": 4}}))) == []
    producer.commit_transaction(WAIT_S)
    assert offsets(batch(spark, bootstrap, topic, **wanted)) == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_offsets_that_were_named_for_a_topic_are_not_those_of_the_next_of_that_name(
    spark: Any, bootstrap: str, client: Bus, topic: str
) -> None:
    produce(bootstrap, topic, numbered(5))
    wanted = {"startingOffsets": json.dumps({topic: {"0": 2}})}
    frame = batch(spark, bootstrap, topic, **wanted)
    lenient = batch(spark, bootstrap, topic, failOnDataLoss=False, **wanted)
    assert (frame.count(), lenient.count()) == (3, 3)
    client.delete_topic(topic)
    client.create_topic(topic, partitions=1)
    produce(bootstrap, topic, numbered(9))

    with pytest.raises(Exception, match=f"records were lost: topic '{topic}' was deleted and created again"):
        frame.count()
    assert lenient.count() == 7
