"""Reading: sequential reads against a bare read loop, and point lookups as the log grows a thousandfold."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

from barnabas.core.records.batch import read_header, seal, write_header
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.log import Log
from barnabas.storage.lookup import get_record, offset_for_timestamp
from bench.logs import make_batch, new_log
from bench.measure import Row, compare, rate, scratch_directory, seconds

TARGET_READ = 0.70
FETCH_BYTES = 1024 * 1024
CONFIG = LogConfig(flush_policy=FlushPolicy.OS)


def rows(*, quick: bool) -> Iterator[Row]:
    megabyte = 1024 * 1024
    with scratch_directory() as scratch:
        yield _sequential_row(scratch, (64 if quick else 512) * megabyte)
    small, large = 10 * megabyte, (200 if quick else 10 * 1024) * megabyte
    with scratch_directory() as first, scratch_directory() as second:
        small_log, large_log = _filled(first, small), _filled(second, large)
        yield from _lookup_rows(small_log, large_log, lookups=2_000 if quick else 10_000)


def _filled(directory: Path, total: int) -> Log:
    log, batch = new_log(directory, CONFIG), make_batch(16 * 1024)
    records = read_header(batch).record_count
    for n in range(total // len(batch)):
        _restamp(batch, n * records)
        log.append(batch, leader_epoch=0, now_ms=0)
    return log


def _restamp(batch: bytearray, milliseconds: int) -> None:
    """Move a batch on in time, so that a lookup by time has something to find."""
    header = read_header(batch)
    start = 1_700_000_000_000 + milliseconds
    span = header.max_timestamp - header.base_timestamp
    write_header(batch, 0, header._replace(base_timestamp=start, max_timestamp=start + span))
    seal(batch, 0, len(batch))


def _sequential_row(scratch: Path, total: int) -> Row:
    log = _filled(scratch, total)
    batch = make_batch(16 * 1024)
    size, records = len(batch), read_header(batch).record_count
    path = log.active.log_path
    amount = log.size

    def ours() -> None:
        offset = log.log_start_offset
        while (found := log.read(offset, max_bytes=FETCH_BYTES)) is not None:
            data = found.read()
            offset += len(data) // size * records  # as a consumer would: on to the first batch it did not get whole

    def limit() -> None:
        descriptor = os.open(path, os.O_RDONLY)
        position = 0
        while data := os.pread(descriptor, FETCH_BYTES, position):
            position += len(data) // size * size if len(data) == FETCH_BYTES else len(data)
        os.close(descriptor)

    found = compare(lambda: seconds(ours), lambda: seconds(limit), amount=amount, rounds=7)
    return Row(
        "sequential read, 1 MB at a time",
        rate(found.ours, "MB/s"),
        f"bare pread {rate(found.limit, 'MB/s')}",
        found.ratio,
        TARGET_READ,
    )


def _lookup_rows(small: Log, large: Log, *, lookups: int) -> Iterator[Row]:
    chance = random.Random(7)

    def points(log: Log) -> float:
        offsets = [chance.randrange(log.end_offset) for _ in range(lookups)]
        return seconds(lambda: [get_record(log, offset) for offset in offsets])

    def times(log: Log) -> float:
        stamps = [1_700_000_000_000 + chance.randrange(log.end_offset) for _ in range(lookups // 4)]
        return seconds(lambda: [offset_for_timestamp(log, stamp) for stamp in stamps])

    sizes = f"{large.size / 1e6:,.0f} MB of log"
    small_size = f"{small.size / 1e6:,.0f} MB"
    points(large)  # loads the indexes, as a broker that has run for a while has
    times(large)
    found = compare(lambda: points(large), lambda: points(small), amount=lookups)
    yield Row(
        f"record by offset, {sizes}",
        rate(found.ours, "lookups/s"),
        f"in {small_size}: {rate(found.limit, 'lookups/s')}",
        found.ratio,
    )
    found = compare(lambda: times(large), lambda: times(small), amount=lookups // 4)
    yield Row(
        f"offset by time, {sizes}",
        rate(found.ours, "lookups/s"),
        f"in {small_size}: {rate(found.limit, 'lookups/s')}",
        found.ratio,
    )
