"""A bit that flips in records on disk is noticed: by recovery, or by the first read that checks what it returns.

Two limits, both of the format. The base offset and the leader epoch of a batch are not under its checksum; what
is noticed of them is in the tests of `storage.scan`. And beyond the recovery point, damage in a batch that has a
sector's share of zeros is taken for an interrupted write, for a sector that was never written looks just so.
"""

from collections import Counter
from random import Random

import pytest

from barnabas.core.errors import CorruptLog
from barnabas.core.records.batch import LOG_OVERHEAD, MAGIC_AT, iter_batches
from barnabas.core.records.record import Record
from barnabas.storage.config import LogConfig
from barnabas.storage.log import Log
from barnabas.storage.lookup import get_record
from barnabas.storage.scan import zero_share
from barnabas.testing.disk import SimulatedDisk
from tests.simulation.seeded import seeds
from tests.simulation.storage_model import Violation
from tests.unit.storage.builders import LOG_DIRECTORY, NOW_MS, PARTITION, content, open_dir, plain, records

FLIPS = 125
CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=300)


@pytest.mark.parametrize("place", ["below the recovery point", "beyond the recovery point", "after a clean shutdown"])
def test_a_flipped_bit_is_noticed(place: str) -> None:
    outcomes = Counter(flip_one_bit(seed, place) for seed in seeds(default=FLIPS))

    print(f"{place}: {dict(outcomes)}")
    assert outcomes["noticed when opened"] + outcomes["noticed when read"] > 0.99 * outcomes.total()


def flip_one_bit(seed: int, place: str) -> str:
    """Write a log, flip a bit of a batch in it, open it again; says how the flip was noticed."""
    random = Random(seed)
    disk = SimulatedDisk(seed)
    written, first_unknown = _written(disk, random, is_closed=place == "after a clean shutdown")
    low = first_unknown if place == "beyond the recovery point" else 0
    high = first_unknown if place == "below the recovery point" else len(written)
    path, start, size = _batch_with(disk, random.randrange(low, high))
    at = start + _checked_byte(random, size)
    disk.flip_bit(path, at, random.randrange(8))
    disk.crash()
    try:
        return _outcome(disk, written, path, start, size)
    except Violation as violation:
        violation.add_note(f"seed {seed}, {place}: byte {at - start} of the batch at {start} of {path}")
        raise


def _written(disk: SimulatedDisk, random: Random, *, is_closed: bool) -> tuple[list[Record], int]:
    """Durable records of several segments, and from which offset on recovery has to look."""
    data_dir = open_dir(disk, CONFIG)
    log = data_dir.create_log(PARTITION, CONFIG)
    count = random.randrange(10, 25)
    checkpointed = random.randrange(5, count)
    known = 0
    for index in range(count):
        value = bytes(random.choices(range(1, 256), k=random.randrange(700)))
        log.append(plain(random.randrange(1, 4), value=value), leader_epoch=0, now_ms=NOW_MS)
        if index == checkpointed:
            log.flush()
            data_dir.checkpoint()
            known = log.end_offset
    log.flush()
    if log.end_offset == known:
        log.append(plain(), leader_epoch=0, now_ms=NOW_MS)
        log.flush()
    written = records(log)
    if is_closed:
        data_dir.close()
    return written, known


def _batch_with(disk: SimulatedDisk, offset: int) -> tuple[str, int, int]:
    """Where the batch with this offset is: path, position and size."""
    for name in disk.list_dir(LOG_DIRECTORY):
        if name.endswith(".log"):
            path = f"{LOG_DIRECTORY}/{name}"
            for position, header in iter_batches(content(disk, path)):
                if header.base_offset <= offset <= header.last_offset:
                    return path, position, header.size
    raise AssertionError(f"no batch has offset {offset}")


def _checked_byte(random: Random, size: int) -> int:
    """A byte of a batch that its length, its magic or its checksum vouches for."""
    checked: list[int] = [*range(8, LOG_OVERHEAD), *range(MAGIC_AT, size)]
    return random.choice(checked)


def _outcome(disk: SimulatedDisk, written: list[Record], path: str, start: int, size: int) -> str:
    looks_torn = zero_share(content(disk, path)[start : start + size], start) > 16
    data_dir = open_dir(disk, CONFIG)
    if PARTITION in data_dir.unreadable:
        return "noticed when opened"
    log = data_dir.logs[PARTITION]
    if log.end_offset < len(written):
        if not looks_torn:
            raise Violation(f"{len(written) - log.end_offset} durable records were dropped")
        _check_all(log, written[: log.end_offset])
        return "taken for an interrupted write"
    if _check_all(log, written):
        return "noticed when read"
    raise Violation("nobody noticed")


def _check_all(log: Log, written: list[Record]) -> int:
    """Read every record; each is the right one or refused. Returns how many were refused."""
    refused = 0
    for record in written:
        try:
            found = get_record(log, record.offset)
        except CorruptLog:
            refused += 1
        else:
            if found != record:
                raise Violation(f"offset {record.offset} gave {found}")
    return refused
