"""``python -m bench.turns TREE [name ...]``: this tree against another checkout of it, in turns within one run.

A broker of each tree runs all the while, and each round asks the same of one and then of the other, so that a noisy
machine disturbs both alike. Two ratios: of the rates that a client saw, and of the processor time that the broker
took for the same work, which says more on a machine whose cores are shared. Above 1, this tree is ahead.
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
TICKS = os.sysconf("SC_CLK_TCK")
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


@dataclass(slots=True)
class Side:
    """One of the two trees: its broker, and what it took in each round."""

    tree: Path
    brokers: dict[str, Served]
    took: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def run(self, policy: str, work: Work) -> None:
        broker = self.brokers[policy]
        before = _processor_seconds(broker.pid)
        self.took.append(work(broker))
        self.processor.append(_processor_seconds(broker.pid) - before)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.turns", description=__doc__)
    parser.add_argument("tree", type=Path, help="the other checkout, as `git worktree add` makes one")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join((*WORK, "append", "start")))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--set", action="append", default=[], help="a setting of this tree's brokers alone")
    arguments = parser.parse_args()
    table = Table("measured", "here", "there", "ratio", "broker's processor time, ratio", "spread of the ratios")
    with ExitStack() as stack:
        here = Side(HERE, _brokers(stack, HERE, arguments.set))
        there = Side(arguments.tree.resolve(), _brokers(stack, arguments.tree.resolve(), ()))
        for name in arguments.names or (*WORK, "append", "start"):
            _measure(name, here, there, arguments.rounds)
            table.add_row(name, *_cells(here, there))
    Console(width=None if sys.stdout.isatty() else 132).print(table)
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
                side.run(*WORK[name])
            else:
                side.took.append(ALONE[name](side.tree))
    for side in (here, there):  # the first round finds everything cold
        side.took, side.processor = side.took[1:], side.processor[1:]


def _cells(here: Side, there: Side) -> tuple[str, ...]:
    ratios = [theirs / ours for ours, theirs in zip(here.took, there.took, strict=True)]
    spread = statistics.quantiles(ratios, n=4)
    processor = (
        f"{statistics.median(there.processor) / statistics.median(here.processor):.2f}" if here.processor else ""
    )
    return (
        f"{statistics.median(here.took) * 1000:,.0f} ms",
        f"{statistics.median(there.took) * 1000:,.0f} ms",
        f"{statistics.median(ratios):.3f}",
        processor,
        f"{spread[0]:.2f} to {spread[2]:.2f}",
    )


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


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


WORK: dict[str, tuple[str, Work]] = {
    "produce-100": ("os", _produce(100, "1", 1_000_000)),
    "produce-1000": ("os", _produce(1000, "1", 200_000)),
    "produce-100-all-fsync": ("fsync", _produce(100, "all", 500_000)),
    "consume-100": ("os", _consume(100, 2_000_000)),
    "consume-1000": ("os", _consume(1000, 300_000)),
    "requests": ("os", _requests),
    "commits": ("fsync", _commits),
    "transactions-1": ("os", lambda broker: transactions.commit_many(broker, 1, 300)),
    "transactions-10": ("os", lambda broker: transactions.commit_many(broker, 10, 60)),
}
ALONE: dict[str, Callable[[Path], float]] = {"append": _append, "start": _start}


if __name__ == "__main__":
    raise SystemExit(main())
