"""The metadata quorum: commits, what a kill of its controller costs, and the memory of who only follows.

A commit is a CreateTopics of one partition, from request to answer: decided, on the disks of a majority, applied. All
nodes and the client are on this machine and share its disk, so that a commit of three nodes waits for a disk that
syncs for three. Beside it is the bare sync of that disk, in turns with the commits.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from barnabas.testing.wire_client import WireClient, create_topic_request, metadata_request
from barnabas.wire.apis import CREATE_TOPICS, METADATA
from bench.measure import Compared, Row, compare_rounds, rate, scratch_directory
from bench.quorum_nodes import Nodes, nodes

NODES: Final = (1, 3, 5)
CONNECTIONS: Final = 16
ROUNDS: Final = 5
KILLS: Final = 20
PARTITIONS: Final = 4_000
RECORD: Final = bytes(300)  # about what a commit of one topic writes
IDLE_S: Final = 15.0
REQUEST_TIMED_OUT, TOPIC_ALREADY_EXISTS, NOT_CONTROLLER = 7, 36, 41
PASSING: Final = frozenset({REQUEST_TIMED_OUT, NOT_CONTROLLER})  # what a node answers that finds no controller


def rows(*, quick: bool) -> Iterator[Row]:
    commits = 20 if quick else 200
    idle_s = 1.0 if quick else IDLE_S
    for number in NODES:
        with nodes(number) as cluster:
            controller = asyncio.run(cluster.wait_settled())
            if number in (1, 3):
                yield _memory_row(cluster, controller, idle_s)
            yield _one_row(cluster, controller, commits)
            yield _many_row(cluster, controller, commits * CONNECTIONS // 4)
            if number == 3:
                yield _forwarded_row(cluster, controller, commits)
                yield _partitions_row(cluster, controller, 400 if quick else PARTITIONS)
    with nodes(3) as cluster:
        yield _kills_row(cluster, 2 if quick else KILLS)


# Commits


@dataclass(slots=True)
class _Times:
    """Seconds of each commit, and of each bare sync."""

    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)


class _BareFile:
    """A file that grows by one small write and one sync at a time."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / "bare", os.O_CREAT | os.O_WRONLY)

    def sync_one(self) -> float:
        """Seconds for one."""
        start = time.perf_counter()
        os.write(self._descriptor, RECORD)
        os.fdatasync(self._descriptor)
        return time.perf_counter() - start

    def close(self) -> None:
        os.close(self._descriptor)


def _one_row(cluster: Nodes, controller: int, commits: int) -> Row:
    return _commits_row(f"commits, {_nodes(cluster)}, one connection", cluster, controller, commits, _in_turns)


def _forwarded_row(cluster: Nodes, controller: int, commits: int) -> Row:
    other = _other(cluster, controller)
    name = f"commits, {_nodes(cluster)}, one connection to a follower"
    return _commits_row(name, cluster, other, commits, _in_turns)


def _many_row(cluster: Nodes, controller: int, commits: int) -> Row:
    name = f"commits, {_nodes(cluster)}, {CONNECTIONS} connections"
    return _commits_row(name, cluster, controller, commits, _together)


def _commits_row(
    name: str,
    cluster: Nodes,
    node: int,
    commits: int,
    one_round: Callable[[Nodes, int, int, _BareFile, _Times], Coroutine[Any, Any, tuple[float, float]]],
) -> Row:
    """Rounds of commits and of bare syncs. What the round does first is not counted: its connection, its first file."""
    times = _Times()
    with scratch_directory() as scratch:
        bare = _BareFile(scratch)
        asyncio.run(one_round(cluster, node, CONNECTIONS, bare, _Times()))
        found = compare_rounds(
            lambda: asyncio.run(one_round(cluster, node, commits, bare, times)), amount=commits, rounds=ROUNDS
        )
        bare.close()
    return _compared_row(name, found, times)


async def _in_turns(cluster: Nodes, node: int, commits: int, bare: _BareFile, times: _Times) -> tuple[float, float]:
    """One commit after one sync: both meet the same disk."""
    client = await cluster.connect(node)
    ours, synced = [], []
    for _ in range(commits):
        synced.append(bare.sync_one())
        ours.append(await _create(client))
    client.close()
    times.ours += ours
    times.bare += synced
    return sum(ours), sum(synced)


async def _together(cluster: Nodes, node: int, commits: int, bare: _BareFile, times: _Times) -> tuple[float, float]:
    """All connections at once, each with one commit after another; then as many syncs as there were commits."""
    clients = [await cluster.connect(node) for _ in range(CONNECTIONS)]

    async def create_some(client: WireClient) -> None:
        for _ in range(commits // CONNECTIONS):
            times.ours.append(await _create(client))

    start = time.perf_counter()
    await asyncio.gather(*map(create_some, clients))
    took = time.perf_counter() - start
    for client in clients:
        client.close()
    synced = [bare.sync_one() for _ in range(commits // CONNECTIONS * CONNECTIONS)]
    times.bare += synced
    return took, sum(synced)


def _compared_row(name: str, found: Compared, times: _Times) -> Row:
    ours = f"{rate(found.ours, 'commits/s')}, {_spread(times.ours)}"
    return Row(name, ours, f"bare fsync {rate(found.limit, '/s')}, {_spread(times.bare)}", found.ratio)


# A topic of many partitions


def _partitions_row(cluster: Nodes, controller: int, partitions: int) -> Row:
    """A node that answers has applied the change, so what a follower takes longer is the way there and its own part."""
    here = statistics.median(asyncio.run(_create_wide(cluster, controller, partitions)) for _ in range(3))
    other = _other(cluster, controller)
    there = statistics.median(asyncio.run(_create_wide(cluster, other, partitions)) for _ in range(3))
    return Row(
        f"create {partitions:,} partitions, {_nodes(cluster)}",
        f"{here * 1000:,.0f} ms",
        f"asked of a follower {there * 1000:,.0f} ms",
    )


async def _create_wide(cluster: Nodes, node: int, partitions: int) -> float:
    client = await cluster.connect(node)
    took = await _create(client, partitions=partitions)
    client.close()
    return took


# Without a controller


def _kills_row(cluster: Nodes, kills: int) -> Row:
    took = sorted(_kill_one(cluster) for _ in range(kills))
    return Row(
        f"without a controller after its SIGKILL, {_nodes(cluster)}",
        f"p50 {statistics.median(took):,.2f} s, max {took[-1]:,.2f} s",
        f"{kills} kills; fetch timeout 2 s",
    )


def _kill_one(cluster: Nodes) -> float:
    """Seconds from the kill until another node has had a change made. The killed one is back when this returns."""
    controller = asyncio.run(cluster.wait_settled())
    took = asyncio.run(_time_without(cluster, controller))
    cluster.start(controller)
    return took


async def _time_without(cluster: Nodes, controller: int) -> float:
    client = await cluster.connect(_other(cluster, controller))
    await _create(client)  # through the controller, which is then killed
    start = time.perf_counter()
    cluster.kill(controller)
    await _create(client)
    took = time.perf_counter() - start
    client.close()
    return took


# Memory


def _memory_row(cluster: Nodes, controller: int, idle_s: float) -> Row:
    """A follower, or the only node there is, after a client has asked it something."""
    number = controller if len(cluster.numbers) == 1 else _other(cluster, controller)
    asyncio.run(_ask_once(cluster, number))
    time.sleep(idle_s)
    whose = "a single node" if len(cluster.numbers) == 1 else f"a follower of {len(cluster.numbers)} nodes"
    return Row(f"idle memory of {whose}", f"{cluster.memory(number) / 1e6:,.0f} MB")


async def _ask_once(cluster: Nodes, number: int) -> None:
    client = await cluster.connect(number)
    await client.ask(METADATA, 12, metadata_request())
    client.close()


# What all of them need

_names = (f"topic-{number}" for number in count())


async def _create(client: WireClient, *, partitions: int = 1) -> float:
    """Seconds until a topic of its own is created. It is asked for again while there is no controller to do so."""
    name = next(_names)
    start = time.perf_counter()
    error_code = -1
    while error_code:
        answer = await client.ask(CREATE_TOPICS, 7, create_topic_request(name, partitions=partitions), timeout_s=60)
        error_code = answer.topics[0].error_code
        if error_code == TOPIC_ALREADY_EXISTS:  # an attempt whose answer was lost
            break
        if error_code and error_code not in PASSING:
            raise RuntimeError(f"{name} was not created: {answer.topics[0]}")
    return time.perf_counter() - start


def _other(cluster: Nodes, controller: int) -> int:
    """A node that is not the active controller."""
    return next(number for number in cluster.numbers if number != controller)


def _spread(found: list[float]) -> str:
    ordered = sorted(found)
    p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return f"p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms"


def _nodes(cluster: Nodes) -> str:
    return "1 node" if len(cluster.numbers) == 1 else f"{len(cluster.numbers)} nodes"
