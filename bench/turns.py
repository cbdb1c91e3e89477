"""``python -m bench.turns TREE [name ...]``: this tree against another checkout of it, in turns within one run.

A broker of each tree runs all the while, and each round asks the same of one and then of the other, so that a noisy
machine disturbs both alike. Two ratios: of the rates that a client saw, and of the processor time that the broker
took for a unit of the same work, which other processes disturb less. The spread beside each says how far single rounds
lie apart: a difference within it is noise. Above 1, this tree is ahead.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from barnabas.core.records.record import encode_batch
from bench import groups, native_client, transactions
from bench.logs import make_records
from bench.measure import seconds
from bench.raw_client import RawClient
from bench.served import Served, served

ROUNDS = 9
HERE = Path(__file__).parent.parent
Work = Callable[[Served], float]

# Appends to a log of the tree that it runs in, and prints the seconds.
APPEND = """
import sys, time
from pathlib import Path
from barnabas.storage.config import FlushPolicy, LogConfig
from bench.logs import make_batch, new_log
from bench.measure import scratch_directory
with scratch_directory() as scratch:
    log, batch = new_log(scratch, LogConfig(flush_policy=FlushPolicy.OS)), make_batch(16 * 1024)
    start = time.process_time()
    for _ in range(20_000):
        log.append(batch, leader_epoch=0, now_ms=0)
    print(time.process_time() - start)
"""


class Measured(NamedTuple):
    """Something to ask of a broker with one flush policy; `work` gives the seconds that `units` of them took."""

    policy: str
    work: Work
    units: int
    unit: str


@dataclass(slots=True)
class Side:
    """One of the two trees: its broker, and what it took in each round."""

    tree: Path
    brokers: dict[str, Served]
    took: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)  # seconds of each unit of work

    def run(self, measured: Measured) -> None:
        broker = self.brokers[measured.policy]
        before = broker.processor_s()
        self.took.append(measured.work(broker))
        self.processor.append((broker.processor_s() - before) / measured.units)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.turns", description=__doc__)
    parser.add_argument("tree", type=Path, help="the other checkout, as `git worktree add` makes one")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join((*WORK, *ALONE)))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--set", action="append", default=[], help="a setting of this tree's brokers alone")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in WORK and name not in ALONE]
    if unknown:
        parser.error(f"nothing is called {', '.join(unknown)}; names are {', '.join((*WORK, *ALONE))}")
    table = Table(
        *("measured", "here", "there", "ratio", "spread"),
        *("broker's processor time for each, here", "there", "ratio", "spread"),
    )
    with ExitStack() as stack:
        here = Side(HERE, _brokers(stack, HERE, arguments.set))
        there = Side(arguments.tree.resolve(), _brokers(stack, arguments.tree.resolve(), ()))
        for name in arguments.names or (*WORK, *ALONE):
            _measure(name, here, there, arguments.rounds)
            table.add_row(name, *_cells(name, here, there))
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    return 0


def _brokers(stack: ExitStack, tree: Path, settings: Sequence[str]) -> dict[str, Served]:
    def one(policy: str) -> Served:
        sets = (f"log.flush.policy={policy}", "num.partitions=100", groups.NO_DELAY, *settings)
        return stack.enter_context(served(*sets, tree=tree))

    return {policy: one(policy) for policy in ("os", "fsync")}


def _measure(name: str, here: Side, there: Side, rounds: int) -> None:
    for side in (here, there):
        side.took, side.processor = [], []
    for number in range(rounds + 1):
        # Who goes first changes, so that neither always finds the caches as the other left them.
        for side in (here, there) if number % 2 else (there, here):
            if name in WORK:
                side.run(WORK[name])
            else:
                side.took.append(ALONE[name](side.tree))
    for side in (here, there):  # the first round finds everything cold
        side.took, side.processor = side.took[1:], side.processor[1:]


def _cells(name: str, here: Side, there: Side) -> tuple[str, ...]:
    cells = (
        f"{statistics.median(here.took) * 1000:,.0f} ms",
        f"{statistics.median(there.took) * 1000:,.0f} ms",
        *_ratio(here.took, there.took),
    )
    if name not in WORK:
        return cells
    return (
        *cells,
        f"{statistics.median(here.processor) * 1e6:,.3f} us/{WORK[name].unit}",
        f"{statistics.median(there.processor) * 1e6:,.3f}",
        *_ratio(here.processor, there.processor),
    )


def _ratio(here: list[float], there: list[float]) -> tuple[str, str]:
    """The median of what each round says, and where the middle half of the rounds lies."""
    ratios = [theirs / ours for ours, theirs in zip(here, there, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return f"{statistics.median(ratios):.3f}", f"{low:.2f} to {high:.2f}"


# What is measured


def _produce(size: int, acks: str, count: int) -> Work:
    topic = f"produce-{size}-{acks}"
    return lambda broker: native_client.run("produce", broker.bootstrap, topic, str(count), str(size), acks)


def _consume(size: int, count: int) -> Work:
    topic = f"consume-{size}"
    filled: set[int] = set()

    def work(broker: Served) -> float:
        if broker.pid not in filled:
            native_client.run("produce", broker.bootstrap, topic, str(count), str(size), "1")
            filled.add(broker.pid)
        return native_client.run("consume", broker.bootstrap, topic, str(count), str(size))

    return work


def _requests(broker: Served) -> float:
    client = RawClient(broker.bootstrap)
    client.create_topic("requests")
    batch = bytes(encode_batch(make_records(1)))
    took = seconds(lambda: client.produce_pipelined("requests", batch, count=50_000, in_flight=64))
    client.close()
    return took


def _commits(broker: Served) -> float:
    client = RawClient(broker.bootstrap)
    client.create_topic(groups.TOPIC)
    client.close()
    return asyncio.run(groups.commit_many(broker, 5_000))


def _append(tree: Path) -> float:
    environ = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}"}
    done = subprocess.run(
        [sys.executable, "-c", APPEND], env=environ, cwd=tree, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def _start(tree: Path) -> float:
    with served(tree=tree) as broker:
        return broker.ready_after_s


WORK: dict[str, Measured] = {
    "produce-100": Measured("os", _produce(100, "1", 1_000_000), 1_000_000, "record"),
    "produce-1000": Measured("os", _produce(1000, "1", 200_000), 200_000, "record"),
    "produce-100-all-fsync": Measured("fsync", _produce(100, "all", 500_000), 500_000, "record"),
    "consume-100": Measured("os", _consume(100, 2_000_000), 2_000_000, "record"),
    "consume-1000": Measured("os", _consume(1000, 300_000), 300_000, "record"),
    "requests": Measured("os", _requests, 50_000, "request"),
    "commits": Measured("fsync", _commits, 5_000, "commit"),
    "transactions-1": Measured("os", lambda broker: transactions.commit_many(broker, 1, 300), 300, "transaction"),
    "transactions-10": Measured("os", lambda broker: transactions.commit_many(broker, 10, 60), 60, "transaction"),
}
ALONE: dict[str, Callable[[Path], float]] = {"append": _append, "start": _start}


if __name__ == "__main__":
    raise SystemExit(main())
