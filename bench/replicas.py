"""Partitions with three replicas on three nodes: what that costs, and how long the loss of a node is felt.

All nodes and the clients are on this machine and share its two cores and its disk, which syncs three times for every
record. What is measured with three replicas is measured with one beside it, in turns, on the same nodes. Where its JARs
can be had, three nodes of Apache Kafka are asked the same after ours, in the same run: as they are shipped, so they do
not sync what they acknowledge. Ours do; ``flush.policy=os`` is the row to compare.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final

from confluent_kafka import Producer

from barnabas.client import Bus
from bench.apache_kafka import kafka_nodes
from bench.maven import KAFKA, broker_jars
from bench.measure import Compared, Row, compare_rounds, rate
from bench.quorum_nodes import Nodes, nodes
from bench.served import Served

VALUE: Final = bytes(1000)
ROUNDS: Final = 5
KILLS: Final = 20
KILLS_OF_KAFKA: Final = 5  # each of them takes it half a minute
PARTITIONS: Final = 4_000
PATIENCE_S: Final = 120.0
_names = (f"replicas-{number}" for number in count())

Clusters = Callable[[], AbstractContextManager[Nodes]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is asked of a cluster."""

    records: int
    single_records: int
    kills: int
    partitions: int
    idle_s: float


@dataclass(frozen=True, slots=True)
class Written:
    """What writing costs, with three replicas and with one."""

    produced: Compared
    single_s: list[float]
    single_of_one_s: list[float]

    @property
    def throughput(self) -> str:
        return f"{rate(self.produced.ours, 'MB/s')}, {self.produced.ratio:.2f} of one replica"

    @property
    def latency(self) -> str:
        return f"{_spread(self.single_s)}; one replica {_spread(self.single_of_one_s)}"


@dataclass(frozen=True, slots=True)
class Wide:
    """What many partitions cost. Of a record: processor seconds of all nodes, among many partitions and alone."""

    created_s: float
    idle: float  # of a core, for each node
    memory: float  # bytes of each node
    busy_s: float
    alone_s: float

    @property
    def at_rest(self) -> str:
        return f"{self.idle * 100:.1f}% of a core, {self.memory / 1e6:,.0f} MB"

    @property
    def per_record(self) -> str:
        return f"{self.busy_s * 1e6:,.0f} us; alone {self.alone_s * 1e6:,.0f} us"


def rows(*, quick: bool) -> Iterator[Row]:
    sizes = Sizes(2_000, 50, 2, 400, 2.0) if quick else Sizes(50_000, 500, KILLS, PARTITIONS, 20.0)
    jars = broker_jars()
    kafka: Clusters | None = None if jars is None else lambda: kafka_nodes(3, jars)
    yield from _written_rows(sizes, kafka)
    yield from _failover_rows(sizes, kafka)
    yield from _wide_rows(sizes, kafka)


def _ours() -> AbstractContextManager[Nodes]:
    return nodes(3)


def _ours_unsynced() -> AbstractContextManager[Nodes]:
    return nodes(3, log_flush_policy="os")


def _beside(theirs: str | None) -> str:
    return "no Apache Kafka here" if theirs is None else f"Kafka {KAFKA}: {theirs}"


# What three replicas cost


def _written_rows(sizes: Sizes, kafka: Clusters | None) -> Iterator[Row]:
    with _settled(_ours) as (bus, cluster):
        synced = _write(bus, cluster, sizes)
        caught_up = _catch_up(bus, cluster, sizes.records)
    with _settled(_ours_unsynced) as (bus, cluster):
        unsynced = _write(bus, cluster, sizes)
    theirs, their_catch_up = None, None
    if kafka is not None:
        with _settled(kafka) as (bus, cluster):
            theirs = _write(bus, cluster, sizes)
            their_catch_up = _catch_up(bus, cluster, sizes.records)
    for name, ours in (("synced", synced), ("flush.policy=os", unsynced)):
        yield Row(
            f"produce 1 kB, acks=all, three replicas, {name}",
            ours.throughput,
            _beside(None if theirs is None else theirs.throughput),
            None if theirs is None else ours.produced.ours / theirs.produced.ours,
        )
        yield Row(
            f"one record, acks=all, three replicas, {name}",
            ours.latency,
            _beside(None if theirs is None else theirs.latency),
            None if theirs is None else statistics.median(theirs.single_s) / statistics.median(ours.single_s),
        )
    yield Row(
        "catch-up of a follower that was away",
        f"{caught_up:,.0f} MB/s",
        _beside(None if their_catch_up is None else f"{their_catch_up:,.0f} MB/s"),
        None if their_catch_up is None else caught_up / their_catch_up,
    )


@contextmanager
def _settled(clusters: Clusters) -> Iterator[tuple[Bus, Nodes]]:
    with clusters() as cluster:
        asyncio.run(cluster.wait_settled())
        with Bus(cluster.bootstrap) as bus:
            yield bus, cluster


def _write(bus: Bus, cluster: Nodes, sizes: Sizes) -> Written:
    """Records of 1 kB with acks=all, to three partitions whose leaders are on all nodes; then one at a time."""
    three, one = _topic(bus, partitions=3, replicas=3), _topic(bus, partitions=3, replicas=1)
    produced = compare_rounds(
        lambda: (_produce(cluster, three, sizes.records), _produce(cluster, one, sizes.records)),
        amount=sizes.records * len(VALUE),
        rounds=ROUNDS,
    )
    return Written(produced, *_single_records(bus, sizes.single_records))


def _produce(cluster: Nodes, topic: str, records: int) -> float:
    """Seconds until all are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "sticky.partitioning.linger.ms": 5,
        }
    )
    producer.list_topics(topic, timeout=10)
    start = time.perf_counter()
    for _ in range(records):
        producer.produce(topic, VALUE)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    return time.perf_counter() - start


def _single_records(bus: Bus, records: int) -> tuple[list[float], list[float]]:
    """Seconds from send to acknowledgement with three replicas, and with one, in turns."""
    three, one = _topic(bus, partitions=1, replicas=3), _topic(bus, partitions=1, replicas=1)
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(records + 10):
        for topic, times in zip((three, one), found, strict=True):
            start = time.perf_counter()
            bus.send(topic, VALUE).result(PATIENCE_S)
            if number >= 10:
                times.append(time.perf_counter() - start)
    return found


def _catch_up(bus: Bus, cluster: Nodes, records: int) -> float:
    """A follower is killed, records are written, it is started: MB/s from when it serves until it is in sync again."""
    topic = _topic(bus, partitions=1, replicas=3)
    _wait_in_sync(bus, topic, 3)
    leader = bus.describe_topic(topic).partitions[0].leader
    away = next(number for number in cluster.numbers if number != leader)
    cluster.kill(away)
    _wait_in_sync(bus, topic, 2)
    _produce(cluster, topic, records)
    cluster.start(away)
    started = time.perf_counter()
    _wait_in_sync(bus, topic, 3)
    return records * len(VALUE) / 1e6 / (time.perf_counter() - started)


# How long a loss is felt


def _failover_rows(sizes: Sizes, kafka: Clusters | None) -> Iterator[Row]:
    ours = _failovers(_ours, sizes.kills)
    theirs = None if kafka is None else _failovers(kafka, min(KILLS_OF_KAFKA, sizes.kills))
    for whose, took in ours.items():
        yield Row(
            f"from the SIGKILL of the {whose} to the next acknowledged write",
            _middle_and_most(took),
            _beside(None if theirs is None else _middle_and_most(theirs[whose])),
            None if theirs is None else statistics.median(theirs[whose]) / statistics.median(took),
        )


def _failovers(clusters: Clusters, kills: int) -> dict[str, list[float]]:
    with _settled(clusters) as (bus, cluster):
        topic = _topic(bus, partitions=1, replicas=3)
        return {
            whose: [_kill_one(bus, cluster, topic, whose) for _ in range(kills)]
            for whose in ("leader", "active controller")
        }


def _middle_and_most(took: list[float]) -> str:
    return f"p50 {statistics.median(took):,.2f} s, max {max(took):,.2f} s of {len(took)}"


def _kill_one(bus: Bus, cluster: Nodes, topic: str, whose: str) -> float:
    """Seconds. The killed node is back, and in sync, when this returns."""
    controller = asyncio.run(cluster.wait_settled())
    _wait_in_sync(bus, topic, 3)
    bus.send(topic, VALUE).result(PATIENCE_S)
    victim = bus.describe_topic(topic).partitions[0].leader if whose == "leader" else controller
    start = time.perf_counter()
    cluster.kill(victim)
    bus.send(topic, VALUE).result(PATIENCE_S)
    took = time.perf_counter() - start
    cluster.start(victim)
    return took


# Many partitions


def _wide_rows(sizes: Sizes, kafka: Clusters | None) -> Iterator[Row]:
    ours = _widen(_ours, sizes)
    theirs = None if kafka is None else _widen(kafka, sizes)
    what = f"{sizes.partitions:,} partitions of three replicas"
    yield Row(
        f"create {what}",
        f"{ours.created_s * 1000:,.0f} ms",
        _beside(None if theirs is None else f"{theirs.created_s * 1000:,.0f} ms"),
        None if theirs is None else theirs.created_s / ours.created_s,
    )
    yield Row(f"idle node with {what}", ours.at_rest, _beside(None if theirs is None else theirs.at_rest))
    yield Row(
        f"one busy partition among {sizes.partitions:,}: CPU of all nodes per record",
        ours.per_record,
        _beside(None if theirs is None else theirs.per_record),
        None if theirs is None else theirs.busy_s / ours.busy_s,
    )


def _widen(clusters: Clusters, sizes: Sizes) -> Wide:
    with _settled(clusters) as (bus, cluster):
        start = time.perf_counter()
        wide = _topic(bus, partitions=sizes.partitions, replicas=3)
        created_s = time.perf_counter() - start
        _wait_in_sync(bus, wide, 3)
        time.sleep(min(sizes.idle_s, 5.0))
        before = _cpu(cluster)
        time.sleep(sizes.idle_s)
        idle = (_cpu(cluster) - before) / sizes.idle_s / len(cluster.numbers)
        memory = statistics.mean(cluster.memory(number) for number in cluster.numbers)
        busy = _busy(bus, cluster, wide, sizes.idle_s)
        alone = _busy(bus, cluster, _topic(bus, partitions=1, replicas=3), sizes.idle_s)
        return Wide(created_s, idle, memory, busy, alone)


def _busy(bus: Bus, cluster: Nodes, topic: str, seconds: float) -> float:
    """CPU seconds of all nodes for a record that is sent alone."""
    bus.send(topic, VALUE, partition=0).result(PATIENCE_S)
    before, sent, end = _cpu(cluster), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        bus.send(topic, VALUE, partition=0).result(PATIENCE_S)
        sent += 1
    return (_cpu(cluster) - before) / sent


# What all of them need


def _topic(bus: Bus, *, partitions: int, replicas: int) -> str:
    name = next(_names)
    bus.create_topic(name, partitions=partitions, replication_factor=replicas)
    return name


def _wait_in_sync(bus: Bus, topic: str, replicas: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        if all(len(each.in_sync) == replicas for each in bus.describe_topic(topic).partitions):
            return
        assert time.monotonic() < deadline, "the replicas are not in sync"
        time.sleep(0.02)


def _cpu(cluster: Nodes) -> float:
    return sum(Served("", pid, 0.0).processor_s() for pid in cluster.pids)


def _spread(found: list[float]) -> str:
    ordered = sorted(found)
    p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return f"p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms"
