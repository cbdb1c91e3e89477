"""Finding one record, a time, or the aborted transactions of a range."""

from collections.abc import Callable

import pytest

from barnabas.core.errors import CorruptLog, OffsetOutOfRange
from barnabas.core.records.batch import Codec
from barnabas.core.records.control import MarkerType
from barnabas.storage.config import LogConfig
from barnabas.storage.log import Log
from barnabas.storage.lookup import (
    aborted_transactions,
    get_record,
    offset_for_timestamp,
    offset_of_newest_timestamp,
)
from barnabas.storage.truncate import delete_before
from barnabas.testing.disk import SimulatedDisk
from tests.unit.storage.builders import (
    NOW_MS,
    SMALL,
    abort,
    append,
    commit,
    fill,
    in_transaction,
    marker,
    new_log,
    overwrite,
    plain,
    reopened,
)


def log_with_times(*times: int, config: LogConfig = SMALL) -> Log:
    log = new_log(SimulatedDisk(), config)
    for time in times:
        append(log, plain(timestamp=time, value=b"v" * 200))
    return log


def found_at(log: Log, timestamp: int) -> int | None:
    found = offset_for_timestamp(log, timestamp)
    return None if found is None else found.offset


# One record


@pytest.mark.parametrize("codec", list(Codec))
def test_every_record_is_found_by_its_offset(codec: Codec) -> None:
    log = new_log(SimulatedDisk(), SMALL)
    for n in range(10):
        append(log, plain(3, value=b"%d" % n * 50, codec=codec))
    for offset in range(30):
        record = get_record(log, offset)
        assert record is not None
        assert (record.offset, record.value) == (offset, b"%d" % (offset // 3) * 50)


def test_a_marker_is_no_record_and_neither_is_the_end() -> None:
    log = new_log(SimulatedDisk())
    append(log, in_transaction(7, 0), commit(7))
    assert get_record(log, 1) is None
    assert get_record(log, 2) is None


def test_a_record_that_compaction_removed_is_none() -> None:
    log = new_log(SimulatedDisk())
    log.append_as_follower(plain(base_offset=0, leader_epoch=0) + plain(base_offset=5, leader_epoch=0))
    assert get_record(log, 3) is None
    assert get_record(log, 5) is not None


@pytest.mark.parametrize("offset", [-1, 2, 11])
def test_a_record_outside_of_the_log_is_refused(offset: int) -> None:
    log = new_log(SimulatedDisk(), SMALL)
    fill(log, 10)
    delete_before(log, 3)
    with pytest.raises(OffsetOutOfRange):
        get_record(log, offset)


@pytest.mark.parametrize("byte", [17, 22, 26, 40, 60, 90])
def test_a_record_of_a_damaged_batch_is_reported_not_returned_nor_missed(byte: int) -> None:
    """Also when the bit makes the batch shorter in offsets, or a control batch."""
    for bit in range(8):
        disk = SimulatedDisk()
        log = new_log(disk)
        append(log, plain(3), plain(3), plain(3))
        size = len(plain(3))
        disk.flip_bit(log.active.log_path, size + byte, bit)
        refused = 0
        for offset in range(9):
            try:
                record = get_record(log, offset)
            except CorruptLog:
                refused += 1
            else:
                assert record is not None
                assert record.offset == offset
        assert refused >= 1


# Times


def test_the_first_record_not_older_than_a_time_is_found() -> None:
    log = log_with_times(*range(1000, 1200, 10))
    assert len(log.segments) > 3
    assert found_at(log, 0) == 0
    assert found_at(log, 1000) == 0
    assert found_at(log, 1001) == 1
    assert found_at(log, 1190) == 19
    assert found_at(log, 1191) is None


def test_the_time_and_the_epoch_of_what_is_found_come_with_it() -> None:
    log = new_log(SimulatedDisk())
    append(log, plain(timestamp=1000), leader_epoch=3)
    append(log, plain(timestamp=2000), leader_epoch=4)
    assert offset_for_timestamp(log, 1500) == (2000, 1, 4)


def test_times_need_not_be_in_order() -> None:
    times = [1000, 5000, 1100, 1200, 4000, 900, 5000, 1300] * 3
    log = log_with_times(*times)
    for wanted in range(850, 5100, 50):
        assert found_at(log, wanted) == next((n for n, time in enumerate(times) if time >= wanted), None)


def test_a_time_within_a_batch_is_found() -> None:
    log = new_log(SimulatedDisk())
    append(log, plain(3, timestamp=1000))
    assert found_at(log, 1000) == 0


def test_a_deleted_record_is_not_found() -> None:
    log = log_with_times(5000, 1000, 2000, 3000)
    delete_before(log, 1)
    assert found_at(log, 500) == 1
    assert found_at(log, 2500) == 3
    assert found_at(log, 4000) is None


def test_a_marker_is_not_found() -> None:
    log = new_log(SimulatedDisk())
    append(log, in_transaction(7, 0), marker(MarkerType.COMMIT, 7, timestamp=NOW_MS + 50))
    assert found_at(log, NOW_MS + 1) is None


def test_the_newest_record_is_the_first_that_has_the_largest_time() -> None:
    log = log_with_times(1000, 3000, 2000, 3000, 1500)
    assert offset_of_newest_timestamp(log) == (3000, 1, 0)


def test_an_empty_log_has_no_newest_record() -> None:
    assert offset_of_newest_timestamp(new_log(SimulatedDisk())) is None


def test_a_marker_or_a_deleted_record_is_not_the_newest() -> None:
    log = new_log(SimulatedDisk())
    append(log, plain(timestamp=NOW_MS + 500), in_transaction(7, 0))
    append(log, plain(timestamp=NOW_MS + 10), marker(MarkerType.ABORT, 7, timestamp=NOW_MS + 999))
    delete_before(log, 1)
    assert offset_of_newest_timestamp(log) == (NOW_MS + 10, 2, 0)


# Aborted transactions


def log_with_aborts(disk: SimulatedDisk) -> Log:
    """Aborted: 7 in [0, 4], 8 in [6, 8], 7 in [10, 12]; three segments."""
    log = new_log(disk)
    append(log, in_transaction(7, 0), plain(), plain(), plain(), abort(7))
    log.roll()
    append(log, plain(), in_transaction(8, 0), plain(), abort(8), plain())
    log.roll()
    append(log, in_transaction(7, 1), plain(), abort(7))
    return log


def aborted(log: Log, start: int, end: int) -> list[tuple[int, int]]:
    return [(each.producer_id, each.first_offset) for each in aborted_transactions(log, start, end)]


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (0, 13, [(7, 0), (8, 6), (7, 10)]),
        (0, 1, [(7, 0)]),
        (4, 5, [(7, 0)]),
        (5, 6, []),
        (5, 7, [(8, 6)]),
        (7, 11, [(8, 6), (7, 10)]),
        (13, 13, []),
    ],
)
def test_the_aborted_transactions_of_a_range_are_found(start: int, end: int, found: list[tuple[int, int]]) -> None:
    assert aborted(log_with_aborts(SimulatedDisk()), start, end) == found


def test_transactions_that_began_before_the_range_are_found_by_their_marker() -> None:
    log = new_log(SimulatedDisk())
    append(log, in_transaction(7, 0), in_transaction(8, 0), commit(8))
    log.roll()
    append(log, plain(), abort(7))
    assert aborted(log, 1, 2) == [(7, 0)]


SPOIL: dict[str, Callable[[bytes], bytes]] = {
    "cut within an entry": lambda data: data[:20],
    "longer by some bytes": lambda data: data + b"\x00" * 7,
    "an unknown version": lambda data: b"\x00\x09" + data[2:],
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("way", SPOIL)
@pytest.mark.parametrize("base", [0, 5, 10])
def test_a_damaged_transaction_index_is_made_again(way: str, base: int) -> None:
    disk = SimulatedDisk()
    log = log_with_aborts(disk)
    log.flush()
    path = f"{log.directory}/{base:020d}.txnindex"
    overwrite(disk, path, SPOIL[way](disk.open(path).read(0, 1000)))
    disk.crash()
    assert aborted(reopened(disk), 0, 13) == [(7, 0), (8, 6), (7, 10)]


@pytest.mark.parametrize("way", SPOIL)
def test_a_damaged_transaction_index_of_the_active_segment_is_made_again_after_a_clean_shutdown(way: str) -> None:
    disk = SimulatedDisk()
    log = log_with_aborts(disk)
    path = log.active.path(".txnindex")
    log.close()
    log.context.checkpoints.write()
    disk.open("/data/.kafka_cleanshutdown", create=True)
    overwrite(disk, path, SPOIL[way](disk.open(path).read(0, 1000)))
    disk.restart()
    log = reopened(disk)
    append(log, in_transaction(9, 0), abort(9))
    assert aborted(log, 0, 15) == [(7, 0), (8, 6), (7, 10), (9, 13)]
