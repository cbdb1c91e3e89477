"""Several nodes, leaders that move and nodes that go: nothing is lost, and nothing comes twice."""

import itertools
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.client import Bus
from barnabas.client.brokers import Brokers
from barnabas.client.settings import Settings
from barnabas.testing.embedded import EmbeddedBroker
from tests.spark.conftest import MakeTopic
from tests.spark.source.streams import batch, numbered, produce, start, stream, wait_until
from tests.support.moving_leaders import MovingLeaders

PARTITIONS = 5


@pytest.fixture
def front(spark_broker: EmbeddedBroker) -> Iterator[MovingLeaders]:
    with MovingLeaders(spark_broker.bootstrap) as front:
        yield front


@contextmanager
def moving(front: MovingLeaders, topics: list[str], *, seed: int) -> Iterator[None]:
    """While the block runs, leaders move all the time, partitions are without one, and nodes go down and come back."""
    done = threading.Event()
    dice = random.Random(seed)

    def move() -> None:
        for number in itertools.count(1):
            if done.wait(0.05):
                return
            for topic in topics:
                front.move(topic, dice.randrange(PARTITIONS), dice.choice([1, 2, 3, None]))
            if number % 10 == 0:
                node = dice.choice([2, 3])
                front.stop_node(node)
                done.wait(0.2)
                front.start_node(node)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        for topic in topics:
            for partition in range(PARTITIONS):
                front.move(topic, partition, 1 + partition % 3)


def values(rows: Any) -> list[int]:
    return sorted(int(bytes(row.value)[1:]) for row in rows)


def test_a_batch_read_goes_to_every_leader(spark: Any, front: MovingLeaders, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=PARTITIONS)
    produce(front.bootstrap, topic, numbered(2000))
    brokers = Brokers(Settings(front.bootstrap))
    leaders = {each.node_id for each in brokers.metadata([topic]).topics[topic].leaders.values() if each is not None}
    brokers.close()

    rows = batch(spark, front.bootstrap, topic).collect()

    assert leaders == {1, 2, 3}
    assert values(rows) == list(range(2000))
    assert len({row.partition for row in rows}) == PARTITIONS


def test_columns_are_read_while_leaders_move(front: MovingLeaders, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=PARTITIONS)
    payload = [(None, b"%d" % number + bytes(10_000)) for number in range(3000)]
    produce(front.bootstrap, topic, payload)

    with Bus(front.bootstrap) as bus, moving(front, [topic], seed=1):
        for number in range(1, 200):
            table = bus.read_arrow(topic, columns=["partition", "offset"]).read_all()
            places = list(zip(*table.to_pydict().values(), strict=True))
            assert len(places) == len(set(places)) == 3000
            if number >= 5 and front.refused > 0:
                break

    assert front.refused > 0


def test_a_stream_goes_on_while_leaders_move(
    spark: Any, front: MovingLeaders, client: Bus, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    query, collected = start(stream(spark, front.bootstrap, topic, maxOffsetsPerTrigger=700), tmp_path)
    try:
        with moving(front, [topic], seed=2):
            for round_ in range(12):
                for number in range(round_ * 200, round_ * 200 + 200):
                    client.send(topic, b"v%d" % number, partition=number % PARTITIONS)
                client.flush(60)
                wait_until(lambda at=round_: len(collected.rows) >= at * 100, query)  # type: ignore[misc]
            wait_until(lambda: len(collected.rows) >= 2400, query)
    finally:
        query.stop()

    assert values(collected.rows) == list(range(2400))
    assert len(collected.batches) > 3


def test_what_is_written_while_leaders_move_is_there_once(
    spark: Any, front: MovingLeaders, client: Bus, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    rows = spark.range(0, 60_000, numPartitions=2).selectExpr("cast(id as string) as key", "concat('v', id) as value")

    with moving(front, [topic], seed=3):
        writer = rows.write.format("barnabas").option("kafka.bootstrap.servers", front.bootstrap)
        writer.option("topic", topic).mode("append").save()

    written = client.read_arrow(topic, columns=["value"]).read_all().column("value").to_pylist()
    assert sorted(int(value[1:]) for value in written) == list(range(60_000))
