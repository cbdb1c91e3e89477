"""Appending: the log against a bare write loop of the same bytes, without and with syncs."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from barnabas.storage.config import FlushPolicy, LogConfig
from bench.logs import make_batch, new_log
from bench.measure import Compared, Row, compare, compare_rounds, rate, scratch_directory, seconds, take_turns

T = TypeVar("T")

TARGET_WRITE = 0.60
TARGET_SYNC = 0.80
ROUNDS = 11
STEP_BYTES = 4 * 1024 * 1024  # written by one side before it is the other's turn, where nothing is synced


def rows(*, quick: bool) -> Iterator[Row]:
    total = (64 if quick else 256) * 1024 * 1024
    yield _append_row("append 16 kB, flush.policy=os", 16 * 1024, total)
    yield _append_row("append 1 MB, flush.policy=os", 1024 * 1024, total)
    yield _synced_row("append 16 kB, fsync of every one", 16 * 1024, group=1, steps=200 if quick else 1000)
    yield _synced_row("append 16 kB, fsync of every 16", 16 * 1024, group=16, steps=50 if quick else 500)
    yield _synced_row("append 1 MB, fsync of every one", 1024 * 1024, group=1, steps=20 if quick else 200)
    yield _preallocated_row(total)


def _append_row(name: str, size: int, total: int) -> Row:
    batch = make_batch(size)
    group = STEP_BYTES // len(batch)
    steps = total // STEP_BYTES
    found = _measure(batch, LogConfig(flush_policy=FlushPolicy.OS), group=group, steps=steps)
    return Row(name, rate(found.ours, "MB/s"), f"bare write {rate(found.limit, 'MB/s')}", found.ratio, TARGET_WRITE)


def _synced_row(name: str, size: int, *, group: int, steps: int) -> Row:
    found = _measure(make_batch(size), LogConfig(), group=group, steps=steps)
    limit_text = f"bare write+fdatasync {rate(found.limit, 'MB/s')}"
    return Row(name, rate(found.ours, "MB/s"), limit_text, found.ratio, TARGET_SYNC)


def _measure(batch: bytearray, config: LogConfig, *, group: int, steps: int) -> Compared:
    """Our log and a bare file in turns: `group` batches, synced after each group if the configuration syncs."""
    syncs = config.flush_policy is FlushPolicy.FSYNC

    def one_round(directory: Path) -> tuple[float, float]:
        log = new_log(directory, config)
        descriptor = os.open(directory / "bare", os.O_CREAT | os.O_WRONLY)

        def ours() -> None:
            for _ in range(group):
                log.append(batch, leader_epoch=0, now_ms=0)
            if syncs:
                log.flush()

        def limit() -> None:
            for _ in range(group):
                os.write(descriptor, batch)
            if syncs:
                os.fdatasync(descriptor)

        took = take_turns(ours, limit, steps=steps)
        os.close(descriptor)
        return took

    with scratch_directory() as scratch:
        return compare_rounds(lambda: _in_fresh(scratch, one_round), amount=steps * group * len(batch), rounds=ROUNDS)


def _preallocated_row(total: int) -> Row:
    """Whether reserving a segment's space pays: what a bare loop gains from it."""
    batch = make_batch(16 * 1024)
    count = total // len(batch)

    def preallocated(directory: Path) -> float:
        descriptor = os.open(directory / "bare", os.O_CREAT | os.O_WRONLY)

        def work() -> None:
            os.posix_fallocate(descriptor, 0, count * len(batch))
            for _ in range(count):
                os.write(descriptor, batch)

        took = seconds(work)
        os.close(descriptor)
        return took

    with scratch_directory() as scratch:
        found = compare(
            lambda: _in_fresh(scratch, preallocated),
            lambda: _in_fresh(scratch, lambda directory: _bare_writes(directory, batch, count)),
            amount=count * len(batch),
        )
    return Row(
        "bare write into preallocated space",
        rate(found.ours, "MB/s"),
        f"bare write {rate(found.limit, 'MB/s')}",
        found.ratio,
    )


def _bare_writes(directory: Path, data: bytearray, count: int) -> float:
    descriptor = os.open(directory / "bare", os.O_CREAT | os.O_WRONLY)

    def work() -> None:
        for _ in range(count):
            os.write(descriptor, data)

    took = seconds(work)
    os.close(descriptor)
    return took


def _in_fresh(scratch: Path, work: Callable[[Path], T]) -> T:
    """Run in an empty directory, and wait for the disk to be idle again afterwards."""
    with scratch_directory(scratch) as directory:
        took = work(directory)
    os.sync()
    return took
