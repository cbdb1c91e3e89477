"""The second act of the demo: three nodes, and a copy of every order on each of them.

Orders stream into a topic of three replicas; in the middle of it the leader of a partition is killed with SIGKILL, and
is not started again: another node leads, and the producer goes on. Everything is read back and compared while the node
is gone. At the end it comes back, and gets what it has missed.
"""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from barnabas.cli.demo.findings import DemoFailed, Findings
from barnabas.cli.demo.one_broker import FIRST_MS, PARTITIONS, TOPIC, columns, make_order, read_back
from barnabas.client import Bus
from barnabas.client.topics import PartitionInfo
from barnabas.core.errors import BarnabasError
from barnabas.testing.cluster.local import LocalCluster
from barnabas.testing.cluster.starting import Kept

NODES: Final = 3
SETTINGS: Final = {"retention.ms": "-1", "min.insync.replicas": "2"}
PATIENCE_S: Final = 60.0
POLL_S: Final = 0.05


def show(console: Console, directory: Path, *, orders: int, seed: int) -> None:
    """Run the act and print its table; raise `DemoFailed` if a check fails."""
    findings = Findings()
    kept = Kept()  # the nodes end with the demo, however that ends
    try:
        cluster = LocalCluster(directory, kept)
        begin = time.perf_counter()
        cluster.create(NODES)
        cluster.start()
        findings.add("three nodes started, exec to ready", f"{(time.perf_counter() - begin) * 1000:,.0f} ms")
        with Bus(cluster.bootstrap) as bus, Progress(*columns(), console=console) as progress:
            _run(progress, bus, cluster, orders, random.Random(seed), findings)
        cluster.stop_all()
    finally:
        kept.close()
    console.print(findings.table("Barnabas: three nodes, and one of them is killed"))


def _run(
    progress: Progress, bus: Bus, cluster: LocalCluster, orders: int, dice: random.Random, findings: Findings
) -> None:
    bus.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=NODES, config=SETTINGS)
    killed = _produce(progress, bus, cluster, orders, dice, findings)
    read_back(progress, bus, orders, findings)
    begin = time.perf_counter()
    cluster.start(killed)
    _wait(bus, lambda parts: all(len(part.in_sync) == NODES for part in parts))
    took = time.perf_counter() - begin
    findings.add("killed node started again, in sync", f"node {killed}, after {took * 1000:,.0f} ms")


def _produce(
    progress: Progress, bus: Bus, cluster: LocalCluster, orders: int, dice: random.Random, findings: Findings
) -> int:
    """Send every order; returns the id of the node that was killed meanwhile."""
    task = progress.add_task("produce, with a leader killed in the middle", total=orders)
    kill_at = int(orders * dice.uniform(0.3, 0.7))
    killed = _wait(bus, lambda parts: all(len(part.in_sync) == NODES for part in parts))[0].leader
    begin = time.perf_counter()
    for number in range(orders):
        key, value = make_order(number)
        if number != kill_at:
            bus.send(TOPIC, value, key=key, timestamp_ms=FIRST_MS + number)
        else:
            cluster.kill(killed)
            killed_at = time.perf_counter()
            # Behind those that are on their way to the node that is gone.
            bus.send(TOPIC, value, key=key, partition=0, timestamp_ms=FIRST_MS + number).result(PATIENCE_S)
            without_s = time.perf_counter() - killed_at
        if number % 1000 == 0:
            progress.update(task, completed=number)
    bus.flush(PATIENCE_S)
    took = time.perf_counter() - begin
    progress.update(task, completed=orders)
    leader = _wait(bus, lambda parts: killed not in [part.leader for part in parts])[0].leader
    findings.add("produced, each on two disks or more", f"{orders:,} orders in {took:.1f} s, the kill included")
    findings.add(f"leader of {TOPIC}-0 killed", f"node {killed}, at order {kill_at:,}; it stays away")
    findings.add("next order acknowledged", f"{without_s * 1000:,.0f} ms after the kill; node {leader} leads")
    return killed


def _wait(bus: Bus, is_so: Callable[[Sequence[PartitionInfo]], bool]) -> Sequence[PartitionInfo]:
    """The partitions of the topic, once they are as they should be."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(BarnabasError):  # of a leader that does not know yet that it is one
            found = bus.describe_topic(TOPIC).partitions
            if is_so(found):
                return found
        time.sleep(POLL_S)
    raise DemoFailed(f"{TOPIC} is not replicated as it should be after {PATIENCE_S:.0f} s")
