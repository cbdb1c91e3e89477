"""Appending: the log against a bare write loop of the same bytes, without and with syncs."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from barnabas.storage.config import FlushPolicy, LogConfig
from bench.logs import make_batch, new_log
from bench.measure import Row, compare, rate, scratch_directory, seconds

TARGET_WRITE = 0.60
TARGET_SYNC = 0.80
ROUNDS = 11  # disks are moody: with five the ratio of small appends moves by a tenth from run to run


def rows(*, quick: bool) -> Iterator[Row]:
    total = (64 if quick else 256) * 1024 * 1024
    yield _append_row("append 16 kB, flush.policy=os", 16 * 1024, total)
    yield _append_row("append 1 MB, flush.policy=os", 1024 * 1024, total)
    yield _synced_row("append 16 kB, fsync of every one", 16 * 1024, group=1, rounds=200 if quick else 1000)
    yield _synced_row("append 16 kB, fsync of every 16", 16 * 1024, group=16, rounds=50 if quick else 500)
    yield _synced_row("append 1 MB, fsync of every one", 1024 * 1024, group=1, rounds=20 if quick else 200)
    yield _preallocated_row(total)


def _append_row(name: str, size: int, total: int) -> Row:
    batch = make_batch(size)
    count = total // len(batch)

    def ours(directory: Path) -> float:
        log = new_log(directory, LogConfig(flush_policy=FlushPolicy.OS))

        def work() -> None:
            for _ in range(count):
                log.append(batch, leader_epoch=0, now_ms=0)

        return seconds(work)

    def limit(directory: Path) -> float:
        return _bare_writes(directory, batch, count)

    with scratch_directory() as scratch:
        found = compare(
            lambda: _in_fresh(scratch, ours),
            lambda: _in_fresh(scratch, limit),
            amount=count * len(batch),
            rounds=ROUNDS,
        )
    return Row(name, rate(found.ours, "MB/s"), f"bare write {rate(found.limit, 'MB/s')}", found.ratio, TARGET_WRITE)


def _synced_row(name: str, size: int, *, group: int, rounds: int) -> Row:
    batch = make_batch(size)

    def ours(directory: Path) -> float:
        log = new_log(directory, LogConfig())

        def work() -> None:
            for _ in range(rounds):
                for _ in range(group):
                    log.append(batch, leader_epoch=0, now_ms=0)
                log.flush()

        return seconds(work)

    def limit(directory: Path) -> float:
        descriptor = os.open(directory / "bare", os.O_CREAT | os.O_WRONLY)

        def work() -> None:
            for _ in range(rounds):
                for _ in range(group):
                    os.write(descriptor, batch)
                os.fdatasync(descriptor)

        took = seconds(work)
        os.close(descriptor)
        return took

    amount = rounds * group * len(batch)
    with scratch_directory() as scratch:
        found = compare(
            lambda: _in_fresh(scratch, ours), lambda: _in_fresh(scratch, limit), amount=amount, rounds=ROUNDS
        )
    limit_text = f"bare write+fdatasync {rate(found.limit, 'MB/s')}"
    return Row(name, rate(found.ours, "MB/s"), limit_text, found.ratio, TARGET_SYNC)


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


def _in_fresh(scratch: Path, work: Callable[[Path], float]) -> float:
    """Run in an empty directory, and wait for the disk to be idle again afterwards."""
    with scratch_directory(scratch) as directory:
        took = work(directory)
    os.sync()
    return took
