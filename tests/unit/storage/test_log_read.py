"""Reading by offset: whole batches, within limits, from the right segment."""

import pytest

from barnabas.core.errors import OffsetOutOfRange, StorageError
from barnabas.core.records.batch import iter_batches
from barnabas.storage.log import Log
from barnabas.storage.truncate import delete_before
from barnabas.testing.disk import SimulatedDisk
from tests.unit.storage.builders import SMALL, all_bytes, append, fill, new_log, plain


def read(log: Log, offset: int, *, max_bytes: int = 1_000_000, end_offset: int | None = None) -> bytes | None:
    found = log.read(offset, max_bytes=max_bytes, end_offset=end_offset)
    return None if found is None else found.read()


def base_offsets(data: bytes | None) -> list[int]:
    return [] if data is None else [header.base_offset for _, header in iter_batches(data)]


def test_every_offset_is_read_from_the_batch_that_holds_it() -> None:
    log = new_log(SimulatedDisk(), SMALL)
    for _ in range(10):
        append(log, plain(3, value=b"v" * 80))
    assert len(log.segments) > 2
    for offset in range(30):
        assert base_offsets(read(log, offset))[0] == offset // 3 * 3


def test_following_the_reads_gives_the_whole_log() -> None:
    log = new_log(SimulatedDisk(), SMALL)
    fill(log, 20)
    pieces, offset = [], 0
    while (piece := read(log, offset)) is not None:
        pieces.append(piece)
        offset = [header.next_offset for _, header in iter_batches(piece)][-1]
    assert b"".join(pieces) == all_bytes(log)


def test_a_read_stops_at_its_limit_but_gives_at_least_a_batch() -> None:
    log = new_log(SimulatedDisk())
    append(log, plain(), plain(), plain())
    size = len(plain())
    assert len(read(log, 0, max_bytes=1) or b"") == size
    assert len(read(log, 0, max_bytes=size + 5) or b"") == size + 5
    assert len(read(log, 1, max_bytes=10 * size) or b"") == 2 * size


def test_nothing_that_reaches_the_bound_is_read() -> None:
    log = new_log(SimulatedDisk())
    append(log, plain(2), plain(2), plain(2))
    assert base_offsets(read(log, 0, end_offset=6)) == [0, 2, 4]
    assert base_offsets(read(log, 0, end_offset=5)) == [0, 2]
    assert base_offsets(read(log, 0, end_offset=4)) == [0, 2]
    assert base_offsets(read(log, 0, end_offset=99)) == [0, 2, 4]
    assert read(log, 0, end_offset=1) is None
    assert read(log, 2, end_offset=2) is None
    assert read(log, 5, end_offset=3) is None


def test_the_end_of_the_log_has_nothing_to_read_yet() -> None:
    log = new_log(SimulatedDisk())
    assert read(log, 0) is None
    append(log, plain())
    assert read(log, 1) is None


@pytest.mark.parametrize("offset", [-1, 3, 11, 2**40])
def test_an_offset_that_is_not_in_the_log_is_refused(offset: int) -> None:
    log = new_log(SimulatedDisk(), SMALL)
    fill(log, 10)
    delete_before(log, 4)
    with pytest.raises(OffsetOutOfRange, match=f"offset {offset} is not in topic-0, which has 4 to 10"):
        read(log, offset)


def test_a_read_goes_on_after_its_segment_was_removed() -> None:
    log = new_log(SimulatedDisk(), SMALL)
    fill(log, 10)
    log.flush()
    found = log.read(0, max_bytes=1000)
    delete_before(log, 9)
    assert found is not None
    assert base_offsets(found.read())[0] == 0


def test_a_gap_of_compaction_is_read_over() -> None:
    log = new_log(SimulatedDisk())
    for offset in (0, 5, 9):
        log.append_as_follower(plain(base_offset=offset, leader_epoch=0))
    log.roll()
    log.append_as_follower(plain(base_offset=20, leader_epoch=0))
    assert base_offsets(read(log, 1)) == [5, 9]
    assert base_offsets(read(log, 12)) == [20]


def test_a_failed_read_takes_the_directory_offline() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain())
    disk.fail_read()
    with pytest.raises(StorageError):
        read(log, 0)
    with pytest.raises(StorageError, match="is offline"):
        append(log, plain())
