"""A frame or a view that is used again: each job reads what there is when it runs."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.client import Bus, KeysMove
from tests.spark.conftest import MakeTopic
from tests.spark.source.streams import batch, numbered, produce, start, stream, wait_until


def test_a_frame_sees_what_was_added_since_it_was_used(spark: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    frame = batch(spark, bootstrap, topic, minPartitions=4)
    values = frame.selectExpr("cast(value as string) AS value")
    counted = []
    for at in range(3):
        produce(bootstrap, topic, numbered(10, start=10 * at), partition=at % 2)
        counted.append((frame.count(), len(values.collect())))

    assert counted == [(10, 10), (20, 20), (30, 30)]
    assert sorted(row.value for row in values.collect()) == sorted(f"v{number}" for number in range(30))


def test_a_view_sees_what_was_added(spark: Any, bootstrap: str, topic: str) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW made_by_sql USING barnabas "
        f"OPTIONS (kafka.bootstrap.servers '{bootstrap}', subscribe '{topic}')"
    )
    batch(spark, bootstrap, topic).createOrReplaceTempView("made_of_a_frame")
    counted = []
    for _ in range(2):
        produce(bootstrap, topic, numbered(5))
        counted += [
            spark.sql(f"SELECT max(offset) FROM {view}").first()[0] for view in ("made_by_sql", "made_of_a_frame")
        ]

    assert counted == [4, 4, 9, 9]


def test_a_frame_sees_partitions_and_topics_that_were_added(
    spark: Any, bootstrap: str, client: Bus, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    frame = batch(spark, bootstrap, subscribePattern=f"^{topic}")
    assert frame.count() == 0

    with pytest.warns(KeysMove):
        client.add_partitions(topic, 2)
    client.create_topic(f"{topic}-later", partitions=1)
    for name, partition in ((topic, 0), (topic, 1), (f"{topic}-later", 0)):
        produce(bootstrap, name, numbered(3), partition=partition)

    places = frame.select("topic", "partition").distinct().collect()
    assert sorted(tuple(row) for row in places) == [(topic, 0), (topic, 1), (f"{topic}-later", 0)]
    assert frame.count() == 9


def test_a_frame_goes_on_after_retention_and_after_its_topic_was_made_anew(
    spark: Any, bootstrap: str, client: Bus, topic: str
) -> None:
    produce(bootstrap, topic, numbered(10))
    frame = batch(spark, bootstrap, topic)
    assert frame.count() == 10

    client.truncate(topic, 0, before=6)
    assert frame.count() == 4
    client.delete_topic(topic)
    with pytest.raises(
        Exception, match=f"{topic}-0: offsets from 0 on are gone, the partition does not exist any more"
    ):
        frame.count()
    client.create_topic(topic, partitions=1)
    produce(bootstrap, topic, numbered(3))
    assert frame.count() == 3


def test_a_stream_is_joined_with_what_a_topic_has_at_each_batch(
    spark: Any, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    events, names = make_topic(), make_topic()
    produce(bootstrap, names, [(b"a", b"Ada")])
    known = batch(spark, bootstrap, names).selectExpr("key", "value AS name")
    query, read = start(stream(spark, bootstrap, events).join(known, "key", "left"), tmp_path)
    try:
        produce(bootstrap, events, [(b"b", b"1")])
        wait_until(lambda: len(read.rows) == 1, query)
        produce(bootstrap, names, [(b"b", b"Bob")])
        produce(bootstrap, events, [(b"b", b"2")])
        wait_until(lambda: len(read.rows) == 2, query)
    finally:
        query.stop()

    assert [None if row.name is None else bytes(row.name) for row in read.rows] == [None, b"Bob"]
