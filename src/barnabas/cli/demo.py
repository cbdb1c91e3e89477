"""``barnabas demo``: the storage engine at work, ending in a table of what was checked.

A process of its own appends orders to three logs and reports what is durable; it is killed with SIGKILL in the
middle. The logs are opened again and everything it had reported must be there. Then the rest: reading by id and
by time, closing and opening cleanly, truncating history. Anything that does not add up ends in exit code 1.
"""

import json
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from crc32c import crc32c
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import Codec, iter_batches, iter_whole_batches
from barnabas.core.records.record import Record, decode_records, encode_batch
from barnabas.runtime.disk import OsDisk
from barnabas.storage import lookup, truncate
from barnabas.storage.compaction.planning import plan_compaction
from barnabas.storage.compaction.swap import apply
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.storage.recovery import RecoveryReport

PARTITIONS: Final = tuple(TopicPartition("orders", number) for number in range(3))
CONFIG: Final = LogConfig(segment_bytes=512 * 1024)
BATCH: Final = 100  # orders in a batch
GROUP: Final = 8  # batches between two syncs
GROUPS: Final = 50  # syncs between two checkpoints
FIRST_MS: Final = 1_700_000_000_000
COUNTRIES: Final = ("AT", "BE", "CZ", "DE", "FR", "IT", "NL", "PL")


class DemoFailed(BarnabasError):
    """The demo found something that must not be."""


@dataclass(slots=True)
class Findings:
    """The lines of the closing table."""

    rows: list[tuple[str, str]] = field(default_factory=list)

    def add(self, what: str, result: str) -> None:
        self.rows.append((what, result))


def run(*, orders: int, seed: int, keep: Path | None) -> None:
    """Run the demo on `orders` orders, in `keep` or in a temporary directory."""
    console = Console()
    directory = keep or Path(tempfile.mkdtemp(prefix="barnabas-demo-"))
    findings = Findings()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _run(console, directory / "data", orders, random.Random(seed), findings)
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    table = Table("what", "result", title="Barnabas: one log, from append to recovery")
    for row in findings.rows:
        table.add_row(*row)
    console.print(table)
    if keep is not None:
        console.print(f"The logs are in {directory}.")


def _run(console: Console, directory: Path, orders: int, dice: random.Random, findings: Findings) -> None:
    if directory.exists():
        raise DemoFailed(f"{directory} exists already; name a directory without one")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        durable = _append_until_killed(progress, directory, orders // 2, dice, findings)
        logs = _recover(progress, directory, durable, findings)
        _append_the_rest(progress, logs, orders, findings)
        _read_back(progress, logs, orders, dice, findings)
    _compact(logs[PARTITIONS[1]], dice, findings)
    _close_and_open(logs, directory, findings)


def make_order(number: int) -> Record:
    """The order with this number; the same every time, so that what is read can be checked."""
    customer = number * 7919 % 1000
    value = {
        "order": number,
        "customer": customer,
        "country": COUNTRIES[customer % len(COUNTRIES)],
        "cents": number * 104_729 % 50_000,
    }
    return Record(
        offset=0, timestamp=FIRST_MS + number, key=b"customer-%d" % customer, value=json.dumps(value).encode()
    )


def partition_of(record: Record) -> TopicPartition:
    return PARTITIONS[crc32c(record.key or b"") % len(PARTITIONS)]


def _batches(first: int, end: int) -> Iterator[tuple[TopicPartition, bytearray]]:
    """Batches of the orders from `first` to `end`, each for one partition."""
    waiting: dict[TopicPartition, list[Record]] = {partition: [] for partition in PARTITIONS}
    for number in range(first, end):
        record = make_order(number)
        partition = partition_of(record)
        queue = waiting[partition]
        queue.append(record)
        if len(queue) == BATCH:
            yield partition, _encode(queue)
            queue.clear()
    for partition, queue in waiting.items():
        if queue:
            yield partition, _encode(queue)


def _encode(orders: list[Record]) -> bytearray:
    placed = [
        Record(offset=n, timestamp=order.timestamp, key=order.key, value=order.value) for n, order in enumerate(orders)
    ]
    return encode_batch(placed, codec=Codec.LZ4)


class _Logs:
    """The three logs of one data directory, open."""

    def __init__(self, directory: Path) -> None:
        self.data_dir = DataDir(OsDisk(), str(directory))
        self.reports: list[RecoveryReport] = list(self.data_dir.open_logs(lambda _: CONFIG))
        for error in self.data_dir.unreadable.values():
            raise error
        for partition in PARTITIONS:
            self.data_dir.create_log(partition, CONFIG)

    def __getitem__(self, partition: TopicPartition) -> Log:
        return self.data_dir.logs[partition]

    def append(self, batches: Iterator[tuple[TopicPartition, bytearray]]) -> Iterator[dict[TopicPartition, int]]:
        """Append, and after every group commit say up to where each log is durable."""
        for number, (partition, batch) in enumerate(batches, start=1):
            self[partition].append(batch, leader_epoch=1, now_ms=0)
            if number % GROUP == 0:
                yield self.flush()
            if number % (GROUP * GROUPS) == 0:
                self.data_dir.checkpoint()
        yield self.flush()

    def flush(self) -> dict[TopicPartition, int]:
        for partition in PARTITIONS:
            self[partition].flush()
        return {partition: self[partition].flushed_offset for partition in PARTITIONS}


def _append_in_process(directory: Path, orders: int, durable: Connection) -> None:
    """The process that gets killed: appends, and tells what is durable only once it is."""
    for offsets in _Logs(directory).append(_batches(0, orders)):
        durable.send(offsets)


def _append_until_killed(
    progress: Progress, directory: Path, orders: int, dice: random.Random, findings: Findings
) -> dict[TopicPartition, int]:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_append_in_process, args=(directory, 10 * orders, sender), daemon=True)
    process.start()
    sender.close()
    kill_at = int(orders * dice.uniform(0.7, 1.0))
    durable = dict.fromkeys(PARTITIONS, 0)
    task = progress.add_task("append in a process of its own", total=kill_at)
    try:
        while sum(durable.values()) < kill_at:
            durable = receiver.recv()
            progress.update(task, completed=min(sum(durable.values()), kill_at))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        # What it had reported before it died counts as well.
        while receiver.poll(0.2):
            durable = receiver.recv()
    except EOFError:
        if process.exitcode not in (None, -signal.SIGKILL):
            raise DemoFailed(f"the appending process ended with {process.exitcode}") from None
    finally:
        process.join()
    findings.add("reported durable before SIGKILL", f"{sum(durable.values()):,} orders")
    return durable


def _recover(progress: Progress, directory: Path, durable: dict[TopicPartition, int], findings: Findings) -> _Logs:
    start = time.perf_counter()
    logs = _Logs(directory)
    took = time.perf_counter() - start
    ends = {partition: logs[partition].end_offset for partition in PARTITIONS}
    task = progress.add_task("recover and check", total=sum(ends.values()))
    lost = [partition for partition in PARTITIONS if ends[partition] < durable[partition]]
    if lost:
        raise DemoFailed(f"durable orders are missing from {', '.join(map(str, lost))}: {ends} after {durable}")
    for partition in PARTITIONS:
        for record in _records(logs[partition]):
            _check(record)
            progress.advance(task)
    cut = sum(report.cut_bytes for report in logs.reports)
    checked = sum(report.checked_bytes for report in logs.reports)
    findings.add("lost of those", "0")
    findings.add("recovery", f"{took * 1000:,.0f} ms; {checked:,} bytes checked, {cut:,} of an unfinished write cut")
    return logs


def _append_the_rest(progress: Progress, logs: _Logs, orders: int, findings: Findings) -> None:
    """Go on where each log ends: an order is written again only where it was not before."""
    remaining = {partition: logs[partition].end_offset for partition in PARTITIONS}
    task = progress.add_task("append the rest", total=orders)

    def rest() -> Iterator[tuple[TopicPartition, bytearray]]:
        for partition, batch in _batches(0, orders):
            count = sum(header.record_count for _, header in iter_batches(batch))
            progress.advance(task, count)
            if remaining[partition] >= count:
                remaining[partition] -= count
            else:
                yield partition, batch

    for _ in logs.append(rest()):
        pass
    segments = sum(len(logs[partition].segments) for partition in PARTITIONS)
    size = sum(logs[partition].size for partition in PARTITIONS)
    findings.add("appended in all", f"{orders:,} orders, {size / 1e6:,.1f} MB in {segments} segments of 3 logs")


def _read_back(progress: Progress, logs: _Logs, orders: int, dice: random.Random, findings: Findings) -> None:
    task = progress.add_task("read everything", total=orders)
    seen: set[int] = set()
    for partition in PARTITIONS:
        for record in _records(logs[partition]):
            seen.add(_check(record))
            progress.advance(task)
    if not seen.issuperset(range(orders)):
        raise DemoFailed(f"{len(set(range(orders)) - seen)} of {orders} orders are missing")
    findings.add("read back and compared", f"{len(seen):,} orders, each as it was written")

    log = logs[PARTITIONS[0]]
    offset = dice.randrange(log.end_offset)
    start = time.perf_counter()
    order = lookup.get_record(log, offset)
    took = time.perf_counter() - start
    assert order is not None
    findings.add(f"order by id, {log.partition} at {offset:,}", f"number {_check(order):,} in {took * 1e6:,.0f} us")
    start = time.perf_counter()
    found = lookup.offset_for_timestamp(log, order.timestamp)
    took = time.perf_counter() - start
    if found is None or found.offset != offset:
        raise DemoFailed(f"the time of {log.partition}@{offset} leads to {found}")
    findings.add("the same by its time", f"offset {found.offset} in {took * 1e6:,.0f} us")


def _compact(log: Log, dice: random.Random, findings: Findings) -> None:
    """Keep the newest order of each customer, and see that it is the one that was newest before."""
    newest = {record.key: record for record in _records(log)}
    before, count = log.size, sum(1 for _ in _records(log))
    log.roll()
    log.flush()
    start = time.perf_counter()
    plan = plan_compaction(log, now_ms=FIRST_MS, hash_key=dice.randbytes(16), is_forced=True)
    if plan is None or not apply(log, plan.run()):
        raise DemoFailed(f"{log.partition} could not be compacted")
    took = time.perf_counter() - start
    kept = list(_records(log))
    if {record.key: record for record in kept} != newest:
        raise DemoFailed(f"compaction changed the newest orders of {log.partition}")
    findings.add(
        f"{log.partition} compacted by customer",
        f"{count:,} orders to {len(kept):,}, {before:,} bytes to {log.size:,}, in {took * 1000:,.0f} ms",
    )


def _close_and_open(logs: _Logs, directory: Path, findings: Findings) -> None:
    ends = {partition: logs[partition].end_offset for partition in PARTITIONS}
    logs.data_dir.close()
    start = time.perf_counter()
    again = _Logs(directory)
    took = time.perf_counter() - start
    if {partition: again[partition].end_offset for partition in PARTITIONS} != ends:
        raise DemoFailed("a clean shutdown changed the logs")
    findings.add("opened after a clean shutdown", f"{took * 1000:,.1f} ms, nothing re-read")
    log = again[PARTITIONS[0]]
    middle = log.end_offset // 2
    before = log.size
    truncate.delete_before(log, middle)
    findings.add(
        "history before the middle deleted", f"{before - log.size:,} bytes freed; starts at {log.log_start_offset:,}"
    )
    again.data_dir.close()


def _records(log: Log) -> Iterator[Record]:
    offset = log.log_start_offset
    while (found := log.read(offset, max_bytes=1024 * 1024)) is not None:
        data = found.read()
        for position, header in iter_whole_batches(data):
            yield from decode_records(data, position, header)
            offset = header.next_offset


def _check(record: Record) -> int:
    """The number of the order in a record, which must be exactly as it was made."""
    assert record.value is not None
    number = int(json.loads(record.value)["order"])
    expected = make_order(number)
    if (record.key, record.value, record.timestamp) != (expected.key, expected.value, expected.timestamp):
        raise DemoFailed(f"order {number} at offset {record.offset} is not what was written")
    return number
