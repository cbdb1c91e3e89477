"""One segment: appended, found in by offset and time, its indexes written, spoilt and made again."""

import pytest

from barnabas.core.errors import CorruptLog
from barnabas.storage.cache import OpenFiles
from barnabas.storage.offset_index import MAX_RELATIVE_OFFSET, DamagedIndex
from barnabas.storage.segment import Segment
from barnabas.storage.txn_index import AbortedTransaction
from barnabas.testing.disk import Keep, SimulatedDisk
from tests.unit.storage.builders import content, overwrite, plain

BASE = 100
DIRECTORY = "/t-0"
INDEX = f"{DIRECTORY}/{BASE:020d}.index"
TIMES = f"{DIRECTORY}/{BASE:020d}.timeindex"
ABORTED = f"{DIRECTORY}/{BASE:020d}.txnindex"
COUNT = 40


def new_segment(disk: SimulatedDisk, *, interval: int = 100, base_offset: int = BASE) -> Segment:
    disk.make_dir(DIRECTORY)
    return Segment.create(OpenFiles(disk), DIRECTORY, base_offset, index_interval_bytes=interval)


def fill(segment: Segment, times: list[int]) -> None:
    """A batch of one record for each timestamp."""
    for n, timestamp in enumerate(times):
        offset = BASE + n
        data = plain(base_offset=offset, timestamp=timestamp, value=b"v" * (50 + n % 7))
        assert segment.append(data, offset, timestamp)


def closed_segment(disk: SimulatedDisk, times: list[int] | None = None) -> Segment:
    """A segment of 40 batches, its indexes written; opened anew, so that nothing of it is in memory."""
    segment = new_segment(disk)
    fill(segment, [1000 + n for n in range(COUNT)] if times is None else times)
    segment.close()
    return Segment(OpenFiles(disk), DIRECTORY, BASE, index_interval_bytes=100)


def found_offsets(segment: Segment) -> list[int]:
    """For every offset, the base offset of the batch that is found for it."""
    found = [segment.find(offset) for offset in range(BASE, BASE + COUNT)]
    return [header.base_offset for _, header in (each for each in found if each is not None)]


def first_at(segment: Segment, timestamp: int) -> int | None:
    return next((batch.header.base_offset for batch in segment.find_time(timestamp)), None)


# Appending and finding


def test_a_new_segment_is_empty() -> None:
    segment = new_segment(SimulatedDisk())
    assert (segment.size, segment.is_active, segment.newest_timestamp(), segment.first_timestamp()) == (0, True, -1, -1)
    assert segment.find(BASE) is None


def test_every_batch_is_found_while_active_and_when_closed() -> None:
    disk = SimulatedDisk()
    segment = new_segment(disk)
    fill(segment, [1000 + n for n in range(COUNT)])
    assert found_offsets(segment) == list(range(BASE, BASE + COUNT))
    segment.close()
    assert not segment.is_active
    assert found_offsets(segment) == list(range(BASE, BASE + COUNT))
    assert segment.find(BASE + COUNT) is None


def test_the_index_has_an_entry_for_each_interval_of_bytes() -> None:
    disk = SimulatedDisk()
    segment = new_segment(disk, interval=1000)
    fill(segment, [1000 + n for n in range(COUNT)])
    segment.close()
    entries = len(content(disk, INDEX)) // 8
    assert 0 < entries <= segment.size / 1000


def test_a_full_segment_takes_nothing_more() -> None:
    segment = new_segment(SimulatedDisk())
    batch = plain(base_offset=BASE)
    segment.set_limits(max_size=2 * len(batch), max_age_ms=1000)
    assert segment.append(batch, BASE, 5000)
    assert segment.append(plain(base_offset=BASE + 1), BASE + 1, 5000)
    size = segment.size
    assert not segment.append(plain(base_offset=BASE + 2), BASE + 2, 5000)
    assert segment.size == size


def test_an_empty_segment_takes_a_batch_larger_than_its_limit() -> None:
    segment = new_segment(SimulatedDisk())
    segment.set_limits(max_size=10, max_age_ms=1000)
    assert segment.append(plain(base_offset=BASE), BASE, 5000)


def test_a_segment_takes_nothing_much_later_than_its_first_record() -> None:
    segment = new_segment(SimulatedDisk())
    segment.set_limits(max_size=10_000, max_age_ms=1000)
    assert segment.append(plain(base_offset=BASE, timestamp=5000), BASE, 5000)
    assert segment.append(plain(base_offset=BASE + 1, timestamp=6000), BASE + 1, 6000)
    assert not segment.append(plain(base_offset=BASE + 2, timestamp=6001), BASE + 2, 6001)


def test_an_offset_that_does_not_fit_an_index_entry_is_not_taken() -> None:
    segment = new_segment(SimulatedDisk())
    assert segment.append(plain(base_offset=BASE), BASE, 5000)
    last = BASE + MAX_RELATIVE_OFFSET
    assert not segment.append(plain(base_offset=last + 1), last + 1, 5000)
    assert segment.append(plain(base_offset=last), last, 5000)


# Indexes that are missing, damaged or cut short


def test_a_missing_index_is_made_again() -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk)
    good = content(disk, INDEX)
    disk.remove(INDEX)
    assert found_offsets(segment) == list(range(BASE, BASE + COUNT))
    assert content(disk, INDEX) == good


@pytest.mark.parametrize("bit", range(0, 400, 13))
def test_a_flipped_bit_in_the_offset_index_does_no_harm(bit: int) -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk)
    disk.flip_bit(INDEX, bit // 8, bit % 8)
    assert found_offsets(segment) == list(range(BASE, BASE + COUNT))


@pytest.mark.parametrize("size", [0, 3, 8, 20, 48])
def test_a_shortened_offset_index_does_no_harm(size: int) -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk)
    overwrite(disk, INDEX, content(disk, INDEX)[:size])
    assert found_offsets(segment) == list(range(BASE, BASE + COUNT))


def test_an_index_of_another_segment_does_no_harm() -> None:
    disk, other = SimulatedDisk(), SimulatedDisk()
    segment = closed_segment(disk)
    stranger = new_segment(other, interval=100)
    for n in range(COUNT // 2):
        stranger.append(plain(base_offset=BASE + n, value=b"w" * (10 + 9 * n)), BASE + n, 1000)
    stranger.close()
    overwrite(disk, INDEX, content(other, INDEX))
    assert found_offsets(segment) == list(range(BASE, BASE + COUNT))


@pytest.mark.parametrize("way", ["missing", "empty", "odd", "one entry", "shortened", "garbage"])
def test_a_spoilt_time_index_is_made_again(way: str) -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk)
    good = content(disk, TIMES)
    if way == "missing":
        disk.remove(TIMES)
    else:
        spoilt = {"empty": b"", "odd": good[:-5], "one entry": good[:12], "shortened": good[:-12], "garbage": b"x" * 24}
        overwrite(disk, TIMES, spoilt[way])
    assert segment.newest_timestamp() == 1000 + COUNT - 1
    assert [first_at(segment, 1000 + n) for n in range(COUNT)] == list(range(BASE, BASE + COUNT))
    assert content(disk, TIMES) == good


@pytest.mark.parametrize("bit", range(0, 600, 17))
def test_a_flipped_bit_in_the_time_index_does_no_harm(bit: int) -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk)
    disk.flip_bit(TIMES, bit // 8 % len(content(disk, TIMES)), bit % 8)
    assert [first_at(segment, 1000 + n) for n in range(COUNT)] == list(range(BASE, BASE + COUNT))


def test_what_was_loaded_of_an_index_is_not_used_after_a_cut() -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk)
    assert segment.find(BASE + 30) is not None  # loads the index
    position, _ = segment.find(BASE + 10) or (0, None)
    segment.activate()
    segment.truncate(position, end_offset=BASE + 10)
    for n in range(10, COUNT):
        segment.append(plain(base_offset=BASE + n, value=b"other" * n), BASE + n, 2000 + n)
    segment.close()
    assert found_offsets(segment) == list(range(BASE, BASE + COUNT))


def test_a_cut_notices_that_the_entry_it_goes_on_from_is_wrong() -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk)
    position, _ = segment.find(BASE + 10) or (0, None)
    segment.activate()
    assert segment._indexes is not None
    segment._indexes.offsets.positions[3] += 1  # as read from a damaged file
    segment.truncate(position, end_offset=BASE + 10)
    assert [segment.find(offset) is not None for offset in range(BASE, BASE + 10)] == [True] * 10
    assert segment.newest_timestamp() == 1009


def test_entries_of_what_was_cut_do_not_come_back_with_a_crash() -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk)
    for path in (segment.log_path, INDEX, TIMES):
        disk.open(path).sync()
    disk.sync_dir(DIRECTORY)
    disk.sync_dir("/")
    position, _ = segment.find(BASE + 10) or (0, None)
    segment.activate()
    segment.truncate(position, end_offset=BASE + 10)
    disk.sync_dir(DIRECTORY)  # as whoever truncates does
    for n in range(10, COUNT):
        segment.append(plain(base_offset=BASE + n, value=b"other" * n), BASE + n, 2000 + n)
    segment.file().sync()
    segment.write_indexes()  # not synced
    disk.crash(Keep.NOTHING)
    again = Segment(OpenFiles(disk), DIRECTORY, BASE, index_interval_bytes=100)
    again.start_rebuilding(again.size)
    assert found_offsets(again) == list(range(BASE, BASE + COUNT))


# Times


def test_times_are_found_though_they_are_not_in_order() -> None:
    disk = SimulatedDisk()
    times = [1000, 1500, 1200, 1400, 1600, 900, 1600, 2000] * 5
    segment = closed_segment(disk, times)
    for wanted in range(850, 2051, 50):
        first = next((n for n, time in enumerate(times) if time >= wanted), None)
        assert first_at(segment, wanted) == (None if first is None else BASE + first)


def test_a_segment_without_times_is_as_old_as_nobody_knows() -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk, [-1] * COUNT)
    assert segment.newest_timestamp() == -1


def test_the_largest_time_is_known_again_when_the_end_of_the_time_index_was_lost() -> None:
    disk = SimulatedDisk()
    segment = new_segment(disk)
    fill(segment, [1000 + n for n in range(20)] + [5000] + [1100 + n for n in range(19)])
    segment.write_indexes()
    overwrite(disk, TIMES, content(disk, TIMES)[:24])  # what a crash may leave, and all of the offset index
    again = Segment(OpenFiles(disk), DIRECTORY, BASE, index_interval_bytes=100)
    again.start_rebuilding(again.size)
    assert again.newest_timestamp() == 5000
    again.append(plain(base_offset=BASE + COUNT, timestamp=1200), BASE + COUNT, 1200)
    again.close()
    assert first_at(again, 5000) == BASE + 20


# Becoming active again, being cut


def test_an_activated_segment_goes_on_where_it_ended() -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk)
    assert segment.activate() == BASE + COUNT
    assert segment.append(plain(base_offset=BASE + COUNT), BASE + COUNT, 9000)
    assert segment.newest_timestamp() == 9000
    assert found_offsets(segment) == list(range(BASE, BASE + COUNT))


def test_activating_reads_little_of_the_log() -> None:
    disk = SimulatedDisk()
    segment = new_segment(disk, interval=4096)
    for n in range(200):
        segment.append(plain(base_offset=BASE + n, value=b"v" * 1000), BASE + n, 1000 + n)
    segment.close()
    again = Segment(OpenFiles(disk), DIRECTORY, BASE, index_interval_bytes=4096)
    before = disk.bytes_read[segment.log_path]
    assert again.activate() == BASE + 200
    assert disk.bytes_read[segment.log_path] - before < 20_000


def test_a_cut_segment_ends_there_durably() -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk)
    disk.sync_dir(DIRECTORY)
    disk.sync_dir("/")
    position, _ = segment.find(BASE + 10) or (0, None)
    segment.activate()
    segment.truncate(position, end_offset=BASE + 10)
    disk.crash()
    assert len(content(disk, segment.log_path)) == position


@pytest.mark.parametrize(
    ("offset", "end"), [(BASE, BASE), (BASE + 1, BASE + 1), (BASE + 39, BASE + 39), (BASE + 99, BASE + 40)]
)
def test_where_the_batches_before_an_offset_end(offset: int, end: int) -> None:
    assert closed_segment(SimulatedDisk()).end_offset_before(offset) == end


# Aborted transactions

FIRST = AbortedTransaction(7, BASE, BASE + 5, BASE + 6)
SECOND = AbortedTransaction(8, BASE + 1, BASE + 9, BASE + 10)


def test_aborted_transactions_are_added_to_the_file() -> None:
    disk = SimulatedDisk()
    segment = new_segment(disk)
    assert not disk.exists(ABORTED)
    segment.txn_index.add(FIRST)
    segment.txn_index.add(SECOND)
    assert len(content(disk, ABORTED)) == 68
    assert Segment(OpenFiles(disk), DIRECTORY, BASE, index_interval_bytes=100).txn_index.aborted() == [FIRST, SECOND]


def test_a_cut_drops_transactions_that_ended_there() -> None:
    disk = SimulatedDisk()
    segment = new_segment(disk)
    segment.txn_index.add(FIRST)
    segment.txn_index.add(SECOND)
    segment.txn_index.cut(BASE + 9)
    assert segment.txn_index.aborted() == [FIRST]
    assert len(content(disk, ABORTED)) == 34


def test_a_crash_while_the_transaction_index_is_cut_leaves_the_old_or_the_new_one() -> None:
    sizes = set()
    for seed in range(100):
        disk = SimulatedDisk(seed)
        segment = new_segment(disk)
        segment.txn_index.add(FIRST)
        segment.txn_index.add(SECOND)
        disk.open(ABORTED).sync()
        disk.sync_dir(DIRECTORY)
        disk.sync_dir("/")
        segment.txn_index.cut(BASE + 9)
        disk.crash()
        sizes.add(len(content(disk, ABORTED)))
    assert sizes == {34}


def test_a_damaged_transaction_index_is_told_to_whoever_can_make_it_again() -> None:
    disk = SimulatedDisk()
    segment = new_segment(disk)
    segment.txn_index.add(FIRST)
    overwrite(disk, ABORTED, b"x" * 33)
    with pytest.raises(DamagedIndex):
        Segment(OpenFiles(disk), DIRECTORY, BASE, index_interval_bytes=100).txn_index.aborted()


# Damage


def test_a_damaged_batch_is_reported_when_it_is_read() -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk)
    position, header = segment.find(BASE + 20) or pytest.fail("not found")
    disk.flip_bit(segment.log_path, position + 70, 3)
    with pytest.raises(CorruptLog, match=f"position {position}"):
        segment.read_batch(position, header)
    with pytest.raises(CorruptLog, match=f"position {position}"):
        list(segment.batches())


def test_a_removed_segment_leaves_no_file() -> None:
    disk = SimulatedDisk()
    segment = closed_segment(disk)
    segment.remove()
    assert disk.list_dir(DIRECTORY) == []
