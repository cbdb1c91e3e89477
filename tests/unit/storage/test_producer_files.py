"""The snapshots of a log's producers: the newest that can be read, and those that must go."""

from barnabas.core.records.batch import read_header
from barnabas.core.replica.producers import ProducerStates
from barnabas.storage.producer_files import ProducerFiles, find_aborted
from barnabas.testing.disk import SimulatedDisk
from tests.unit.storage.builders import (
    SMALL,
    abort,
    append,
    commit,
    in_transaction,
    new_log,
    overwrite,
    plain,
    produced,
)

DIRECTORY = "/t-0"


def states(*producer_ids: int) -> ProducerStates:
    found = ProducerStates()
    for producer_id in producer_ids:
        found.apply(read_header(produced(producer_id, 0)))
    return found


def files_with(disk: SimulatedDisk, *offsets: int) -> ProducerFiles:
    """A snapshot at each offset, of one producer whose id is that offset."""
    disk.make_dir(DIRECTORY)
    files = ProducerFiles(disk, DIRECTORY)
    for offset in offsets:
        files.write(offset, states(offset))
    return files


def newest(files: ProducerFiles, at_most: int) -> tuple[int, list[int]] | None:
    found = files.newest(at_most=at_most)
    return None if found is None else (found[0], [producer.producer_id for producer in found[1]])


def test_the_newest_snapshot_not_beyond_an_offset_is_found() -> None:
    files = files_with(SimulatedDisk(), 10, 20, 30)
    assert files.offsets() == [10, 20, 30]
    assert newest(files, at_most=25) == (20, [20])
    assert newest(files, at_most=30) == (30, [30])
    assert newest(files, at_most=9) is None


def test_a_damaged_snapshot_is_passed_over() -> None:
    disk = SimulatedDisk()
    files = files_with(disk, 10, 20)
    disk.flip_bit(f"{DIRECTORY}/00000000000000000020.snapshot", 12, 0)
    assert newest(files, at_most=99) == (10, [10])
    assert files.newest_offset(at_most=99) == 10
    overwrite(disk, f"{DIRECTORY}/00000000000000000010.snapshot", b"")
    assert newest(files, at_most=99) is None


def test_a_snapshot_written_again_replaces_a_longer_one() -> None:
    disk = SimulatedDisk()
    files = files_with(disk, 10)
    files.write(10, states(1, 2, 3))
    files.write(10, states(4))
    assert newest(files, at_most=10) == (10, [4])


def test_snapshots_of_what_was_cut_or_deleted_go() -> None:
    disk = SimulatedDisk()
    files = files_with(disk, 10, 20, 30, 40)
    files.remove_beyond(30)
    assert files.offsets() == [10, 20, 30]
    files.remove_below(20)
    assert files.offsets() == [20, 30]
    files.remove_between(20, 30)
    assert files.offsets() == [20, 30]


def test_snapshots_between_two_points_go() -> None:
    files = files_with(SimulatedDisk(), 10, 20, 30, 40)
    files.remove_between(10, 40)
    assert files.offsets() == [10, 40]


def test_other_files_are_none_of_its_business() -> None:
    disk = SimulatedDisk()
    files = files_with(disk, 10)
    disk.open(f"{DIRECTORY}/00000000000000000020.log", create=True)
    files.remove_beyond(-1)
    assert disk.list_dir(DIRECTORY) == ["00000000000000000020.log"]


def test_aborted_transactions_are_found_again_from_the_producers_and_the_markers() -> None:
    log = new_log(SimulatedDisk(), SMALL)
    append(log, in_transaction(7, 0), in_transaction(8, 0))
    log.roll()
    append(log, plain(), abort(7), in_transaction(9, 0), commit(8), abort(9))
    expected = log.active.txn_index.aborted()
    assert expected == [(7, 0, 3, 1), (9, 4, 6, 7)]
    assert find_aborted(log.producer_files, log.segments, end_position=log.active.size) == expected
    log.producer_files.remove_beyond(-1)  # without a snapshot, from the first batch on
    assert find_aborted(log.producer_files, log.segments, end_position=log.active.size) == expected
