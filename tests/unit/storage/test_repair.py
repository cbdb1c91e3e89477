"""Stepping over what cannot be read: offsets keep their meaning, the rest is read on, and a crash does no harm."""

import itertools

import pytest

from barnabas.core.errors import CorruptLog, StorageError
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import HEADER_SIZE, read_header, seal
from barnabas.core.records.record import Record, decode_batch, encode_batch
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.repair import Finding, find_unreadable, repair_segment
from barnabas.testing.disk import Keep, SimulatedCrash, SimulatedDisk

NAME = TopicPartition("t", 0)
DIRECTORY = "/data/t-0"
FIRST = f"{DIRECTORY}/00000000000000000000.log"
CONFIG = LogConfig(segment_bytes=4096, index_interval_bytes=0)
BATCHES = 30
PER_BATCH = 3


def batch(first: int, *, sequence: int | None = None) -> bytearray:
    records = [Record(n, 1000 + first + n, b"k%d" % (first + n), b"v" * 60) for n in range(PER_BATCH)]
    if sequence is None:
        return encode_batch(records)
    return encode_batch(records, producer_id=5, producer_epoch=0, base_sequence=sequence)


def poisoned(data: bytearray) -> bytearray:
    data[HEADER_SIZE + 5] = 0x7D  # the length of the first key: -63
    seal(data, 0, len(data))
    return data


def written(disk: SimulatedDisk, *, poison: int | None = None, is_idempotent: bool = False) -> list[tuple[str, int]]:
    """A log of several segments, closed; says in which file and where each batch is."""
    data_dir = DataDir(disk, "/data")
    log = data_dir.create_log(NAME, CONFIG)
    for number in range(BATCHES):
        made = batch(number * PER_BATCH, sequence=number * PER_BATCH if is_idempotent else None)
        log.append(poisoned(made) if number == poison else made, leader_epoch=0, now_ms=0)
    assert len(log.segments) > 1
    places = [(segment.log_path, position) for segment in log.segments for position, _ in segment.headers()]
    data_dir.close()
    return places


def findings_of(disk: SimulatedDisk) -> list[Finding]:
    return list(find_unreadable(disk, "/data", NAME))


def repair(disk: SimulatedDisk) -> list[Finding]:
    found = findings_of(disk)
    for _, each in itertools.groupby(found, key=lambda finding: finding.path):
        repair_segment(disk, list(each), lambda path, data: keep(disk, path, data))
    return found


def keep(disk: SimulatedDisk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.write(0, data)
    file.sync()


def read_all(disk: SimulatedDisk) -> tuple[list[int], int]:
    """The offsets that a consumer sees, and where the log ends."""
    data_dir = DataDir(disk, "/data")
    for _ in data_dir.open_logs(lambda _: CONFIG):
        pass
    log = data_dir.create_log(NAME, CONFIG)
    offsets: list[int] = []
    offset = log.log_start_offset
    while (piece := log.read(offset, max_bytes=1)) is not None:
        data = bytes(piece.read())
        header = read_header(data)
        offsets += [record.offset for record in decode_batch(data)]
        offset = header.next_offset
    return offsets, log.end_offset


def without(number: int) -> list[int]:
    return [offset for offset in range(BATCHES * PER_BATCH) if offset // PER_BATCH != number]


def test_a_sound_log_has_nothing_to_repair() -> None:
    disk = SimulatedDisk(1)
    written(disk)
    assert findings_of(disk) == []


@pytest.mark.parametrize("number", [0, 4, BATCHES - 1])
def test_a_poisoned_batch_is_stepped_over(number: int) -> None:
    disk = SimulatedDisk(1)
    path, position = written(disk, poison=number)[number]
    original = disk.open(path).read(position, 61)
    (finding,) = repair(disk)
    assert (finding.path, finding.position) == (path, position)
    assert (finding.first_offset, finding.last_offset) == (number * PER_BATCH, number * PER_BATCH + PER_BATCH - 1)
    assert "-63 bytes" in finding.reason
    assert read_all(disk) == (without(number), BATCHES * PER_BATCH)
    kept = disk.open(f"{DIRECTORY}/{number * PER_BATCH:020d}.quarantine")
    assert kept.read(0, 61) == original
    assert kept.size() == finding.end_position - finding.position
    assert findings_of(disk) == []


def test_the_producer_of_a_poisoned_batch_goes_on_where_it_was() -> None:
    disk = SimulatedDisk(1)
    written(disk, poison=BATCHES - 1, is_idempotent=True)
    for name in disk.list_dir(DIRECTORY):
        if name.endswith(".snapshot"):
            disk.remove(f"{DIRECTORY}/{name}")
    repair(disk)
    log = DataDir(disk, "/data").create_log(NAME, CONFIG)
    following = batch(BATCHES * PER_BATCH, sequence=BATCHES * PER_BATCH)
    assert log.append(following, leader_epoch=0, now_ms=0).first_offset == BATCHES * PER_BATCH


@pytest.mark.parametrize("number", [0, 4, BATCHES - 1])
@pytest.mark.parametrize("at", [20, 22, 40, 61, 100])
def test_a_batch_whose_bytes_are_damaged_is_stepped_over(number: int, at: int) -> None:
    disk = SimulatedDisk(1)
    path, position = written(disk)[number]
    disk.flip_bit(path, position + at, 3)
    (finding,) = repair(disk)
    assert not finding.is_restored
    assert (finding.first_offset, finding.last_offset) == (number * PER_BATCH, number * PER_BATCH + PER_BATCH - 1)
    assert read_all(disk) == (without(number), BATCHES * PER_BATCH)


# Nothing follows the last one to say that its offset is too large, unless it is far too large.
@pytest.mark.parametrize(
    ("number", "at"),
    [
        (number, at)
        for number in (0, 4, BATCHES - 1)
        for at in (1, 6, 7, 8, 10, 11, 16)
        if number < 5 or at not in (6, 7)
    ],
)
def test_what_is_not_under_the_checksum_is_put_right(number: int, at: int) -> None:
    disk = SimulatedDisk(1)
    path, position = written(disk)[number]
    before = disk.open(path).read(0, disk.file_size(path))
    disk.flip_bit(path, position + at, 5)
    (finding,) = repair(disk)
    assert finding.is_restored
    assert disk.open(path).read(0, disk.file_size(path)) == before
    assert read_all(disk) == (list(range(BATCHES * PER_BATCH)), BATCHES * PER_BATCH)


def test_a_hole_over_several_batches_becomes_one_empty_batch() -> None:
    disk = SimulatedDisk(1)
    places = written(disk)
    file = disk.open(FIRST)
    start, end = places[2][1] + 30, places[5][1] + 100
    file.write(start, bytes(end - start))
    file.sync()
    (finding,) = repair(disk)
    assert (finding.first_offset, finding.last_offset) == (2 * PER_BATCH, 6 * PER_BATCH - 1)
    offsets, end_offset = read_all(disk)
    assert offsets == [offset for offset in range(BATCHES * PER_BATCH) if not 2 <= offset // PER_BATCH < 6]
    assert end_offset == BATCHES * PER_BATCH


def test_a_partition_that_does_not_open_does_afterwards() -> None:
    disk = SimulatedDisk(1)
    path, position = written(disk)[BATCHES - 1]
    disk.remove("/data/.kafka_cleanshutdown")
    disk.remove("/data/recovery-point-offset-checkpoint")
    disk.flip_bit(path, position + 100, 3)
    data_dir = DataDir(disk, "/data")
    assert list(data_dir.open_logs(lambda _: CONFIG)) == []
    assert isinstance(data_dir.unreadable[NAME], CorruptLog)
    repair(disk)
    assert read_all(disk) == (without(BATCHES - 1), BATCHES * PER_BATCH)


def test_an_unfinished_write_at_the_end_is_left_to_recovery() -> None:
    disk = SimulatedDisk(1)
    written(disk)
    disk.remove("/data/recovery-point-offset-checkpoint")
    last = max(name for name in disk.list_dir(DIRECTORY) if name.endswith(".log"))
    file = disk.open(f"{DIRECTORY}/{last}")
    file.truncate(file.size() - 10)
    assert findings_of(disk) == []


def test_bytes_missing_below_the_recovery_point_are_damage() -> None:
    disk = SimulatedDisk(1)
    written(disk)
    last = max(name for name in disk.list_dir(DIRECTORY) if name.endswith(".log"))
    file = disk.open(f"{DIRECTORY}/{last}")
    file.truncate(file.size() - 10)
    (finding,) = repair(disk)
    assert finding.last_offset == BATCHES * PER_BATCH - 1
    assert read_all(disk) == (without(BATCHES - 1), BATCHES * PER_BATCH)


def test_an_interrupted_compaction_is_finished_first() -> None:
    disk = SimulatedDisk(1)
    path, _ = written(disk, poison=2)[2]
    disk.open(f"{DIRECTORY}/{0:020d}.{15:020d}.swap", create=True)
    before = disk.open(path).read(0, disk.file_size(path))
    with pytest.raises(StorageError, match="interrupted compaction"):
        repair(disk)
    assert disk.open(path).read(0, disk.file_size(path)) == before


@pytest.mark.parametrize("mutations", range(20))
@pytest.mark.parametrize("kept", [Keep.NOTHING, Keep.RANDOM])
def test_a_crash_at_any_step_leaves_the_old_or_the_new(mutations: int, kept: Keep) -> None:
    disk = SimulatedDisk(mutations)
    path, position = written(disk)[2]
    disk.flip_bit(path, position + 100, 3)
    disk.crash_after(mutations)
    try:
        repair(disk)
        disk.crash(kept)
    except SimulatedCrash:
        pass
    disk.restart()
    for finding in findings_of(disk):
        assert (finding.first_offset, finding.last_offset) == (6, 8)
    repair(disk)
    assert read_all(disk) == (without(2), BATCHES * PER_BATCH)
