"""Partitions with three replicas on three nodes: what that costs, and how long the loss of a node is felt.

All nodes and the clients are on this machine and share its two cores and its disk, which syncs three times for every
record. What is measured with three replicas is measured with one beside it, in turns, on the same nodes.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator
from itertools import count
from typing import Final

from confluent_kafka import Producer

from barnabas.client import Bus
from bench.measure import Row, compare_rounds, rate
from bench.quorum_nodes import Nodes, nodes
from bench.served import Served

VALUE: Final = bytes(1000)
ROUNDS: Final = 5
KILLS: Final = 20
PARTITIONS: Final = 4_000
PATIENCE_S: Final = 120.0
_names = (f"replicas-{number}" for number in count())


def rows(*, quick: bool) -> Iterator[Row]:
    records = 2_000 if quick else 50_000
    with nodes(3) as cluster:
        asyncio.run(cluster.wait_settled())
        with Bus(cluster.bootstrap) as bus:
            yield _produce_row(bus, cluster, records)
            yield _latency_row(bus, 50 if quick else 500)
            yield _catch_up_row(bus, cluster, records)
    with nodes(3) as cluster:
        asyncio.run(cluster.wait_settled())
        with Bus(cluster.bootstrap) as bus:
            yield _failover_row(bus, cluster, 2 if quick else KILLS, whose="leader")
            yield _failover_row(bus, cluster, 2 if quick else KILLS, whose="active controller")
    with nodes(3) as cluster:
        asyncio.run(cluster.wait_settled())
        with Bus(cluster.bootstrap) as bus:
            yield from _partitions_rows(bus, cluster, 400 if quick else PARTITIONS, 2.0 if quick else 20.0)


# What three replicas cost


def _produce_row(bus: Bus, cluster: Nodes, records: int) -> Row:
    """Records of 1 kB with acks=all, to three partitions whose leaders are on all nodes."""
    three, one = _topic(bus, partitions=3, replicas=3), _topic(bus, partitions=3, replicas=1)
    found = compare_rounds(
        lambda: (_produce(cluster, three, records), _produce(cluster, one, records)),
        amount=records * len(VALUE) / 1e6,
        rounds=ROUNDS,
    )
    return Row(
        "produce 1 kB, acks=all, three replicas",
        rate(found.ours, "MB/s"),
        f"one replica {rate(found.limit, 'MB/s')}",
        found.ratio,
    )


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


def _latency_row(bus: Bus, records: int) -> Row:
    """One record at a time, from send to acknowledgement."""
    three, one = _topic(bus, partitions=1, replicas=3), _topic(bus, partitions=1, replicas=1)
    ours: list[float] = []
    limit: list[float] = []
    for number in range(records + 10):
        for topic, times in ((three, ours), (one, limit)):
            start = time.perf_counter()
            bus.send(topic, VALUE).result(PATIENCE_S)
            if number >= 10:
                times.append(time.perf_counter() - start)
    ratio = statistics.median(limit) / statistics.median(ours)
    return Row("one record, acks=all, three replicas", _spread(ours), f"one replica {_spread(limit)}", ratio)


def _catch_up_row(bus: Bus, cluster: Nodes, records: int) -> Row:
    """A follower is killed, records are written, it is started: from then until it is in sync again."""
    topic = _topic(bus, partitions=1, replicas=3)
    _wait_in_sync(bus, topic, 3)
    leader = bus.describe_topic(topic).partitions[0].leader
    away = next(number for number in cluster.numbers if number != leader)
    cluster.kill(away)
    _wait_in_sync(bus, topic, 2)
    _produce(cluster, topic, records)
    start = time.perf_counter()
    cluster.start(away)
    started = time.perf_counter()
    _wait_in_sync(bus, topic, 3)
    took = time.perf_counter()
    size = records * len(VALUE) / 1e6
    return Row(
        "catch-up of a follower that was away",
        f"{size / (took - started):,.0f} MB/s",
        f"{size:,.0f} MB in {took - started:.1f} s, after {started - start:.1f} s for its start",
    )


# How long a loss is felt


def _failover_row(bus: Bus, cluster: Nodes, kills: int, *, whose: str) -> Row:
    topic = _topic(bus, partitions=1, replicas=3)
    took = sorted(_kill_one(bus, cluster, topic, whose) for _ in range(kills))
    return Row(
        f"from the SIGKILL of the {whose} to the next acknowledged write",
        f"p50 {statistics.median(took):,.2f} s, max {took[-1]:,.2f} s",
        f"{kills} kills, three replicas",
    )


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


def _partitions_rows(bus: Bus, cluster: Nodes, partitions: int, idle_s: float) -> Iterator[Row]:
    start = time.perf_counter()
    wide = _topic(bus, partitions=partitions, replicas=3)
    took = time.perf_counter() - start
    yield Row(f"create {partitions:,} partitions of three replicas", f"{took * 1000:,.0f} ms")
    _wait_in_sync(bus, wide, 3)
    time.sleep(min(idle_s, 5.0))
    before = _cpu(cluster)
    time.sleep(idle_s)
    idle = (_cpu(cluster) - before) / idle_s / len(cluster.numbers)
    memory = statistics.mean(cluster.memory(number) for number in cluster.numbers)
    yield Row(
        f"idle node with {partitions:,} partitions of three replicas",
        f"{idle * 100:.1f}% of a core, {memory / 1e6:,.0f} MB",
    )
    busy = _busy(bus, cluster, wide, idle_s)
    alone = _busy(bus, cluster, _topic(bus, partitions=1, replicas=3), idle_s)
    yield Row(
        f"one busy partition among {partitions:,}: CPU of all nodes per record",
        f"{busy * 1e6:,.0f} us",
        f"the same partition alone {alone * 1e6:,.0f} us",
        alone / busy,
    )


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
