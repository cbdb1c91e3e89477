"""Opening: thousands of partitions after a clean shutdown, and the recovery of a large log after a crash."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from crc32c import crc32c

from barnabas.core.model import TopicPartition
from barnabas.runtime.disk import OsDisk
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from bench.logs import make_batch, new_log, open_log
from bench.measure import Row, compare, rate, scratch_directory, seconds

CONFIG = LogConfig(flush_policy=FlushPolicy.OS)


def rows(*, quick: bool) -> Iterator[Row]:
    partitions = 500 if quick else 10_000
    with scratch_directory() as scratch:
        yield from _open_rows(scratch, partitions)
    with scratch_directory() as scratch:
        yield _recovery_row(scratch, (64 if quick else 1000) * 1024 * 1024)


def _open_rows(scratch: Path, partitions: int) -> Iterator[Row]:
    path = str(scratch / "data")
    created = seconds(lambda: _create(path, partitions))
    yield Row(f"create {partitions:,} partitions, one record each", f"{created:.2f} s")

    found = compare(lambda: _open_in_process(path)[0], lambda: _bare_open(path), amount=partitions, rounds=3)
    yield Row(
        f"open {partitions:,} partitions (clean)",
        f"{partitions / found.ours:.2f} s",
        f"bare list, open and read: {partitions / found.limit:.2f} s",
        found.ratio,
    )
    _, memory = _open_in_process(path)
    yield Row(f"memory of {partitions:,} open partitions", f"{memory / 1e6:,.0f} MB")


def _create(path: str, partitions: int) -> None:
    data_dir = DataDir(OsDisk(), path)
    batch = make_batch(300)
    for n in range(partitions):
        data_dir.create_log(TopicPartition("bench", n), CONFIG).append(batch, leader_epoch=0, now_ms=0)
    data_dir.close()


OPEN = """
import os, sys, time
from barnabas.runtime.disk import OsDisk
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = resident()
start = time.perf_counter()
data_dir = DataDir(OsDisk(), sys.argv[1])
config = LogConfig(flush_policy=FlushPolicy.OS)
count = sum(report.was_clean for report in data_dir.open_logs(lambda _: config))
took = time.perf_counter() - start
after = resident()
assert count == len(data_dir.logs) > 0
data_dir.close()
print(took, after - before)
"""


def _open_in_process(path: str) -> tuple[float, int]:
    """Seconds and bytes to open everything, in a process of its own so that memory means something."""
    output = subprocess.run([sys.executable, "-c", OPEN, path], check=True, capture_output=True, text=True).stdout
    took, memory = output.split()
    return float(took), int(memory)


def _bare_open(path: str) -> float:
    """What any opening must do: list each directory, and read the ends of its files."""

    def work() -> None:
        for name in os.listdir(path):
            directory = f"{path}/{name}"
            if not os.path.isdir(directory):
                continue
            for file in sorted(os.listdir(directory)):
                descriptor = os.open(f"{directory}/{file}", os.O_RDONLY)
                os.pread(descriptor, 4096, 0)
                os.close(descriptor)

    return seconds(work)


def _recovery_row(scratch: Path, total: int) -> Row:
    log, batch = new_log(scratch, CONFIG), make_batch(16 * 1024)
    for _ in range(total // len(batch)):
        log.append(batch, leader_epoch=0, now_ms=0)
    path, amount = log.active.log_path, log.size

    def limit() -> None:
        descriptor = os.open(path, os.O_RDONLY)
        position = 0
        while data := os.pread(descriptor, 1024 * 1024, position):
            crc32c(data)
            position += len(data)
        os.close(descriptor)

    found = compare(lambda: seconds(lambda: open_log(scratch, CONFIG)), lambda: seconds(limit), amount=amount, rounds=5)
    return Row(
        "recovery after a crash, all unknown",
        rate(found.ours, "MB/s"),
        f"bare read and checksum {rate(found.limit, 'MB/s')}",
        found.ratio,
    )
