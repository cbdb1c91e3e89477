"""Crash points, injected faults, counters and determinism of the simulated disk."""

import errno
import io
from collections.abc import Callable
from random import Random

import pytest

from barnabas.storage.disk import Disk, File
from barnabas.testing.disk import SECTOR, Keep, SimulatedCrash, SimulatedDisk
from tests.unit.testing.disk_support import content, disk_with


def test_the_simulated_disk_is_a_disk() -> None:
    disk: Disk = SimulatedDisk()
    file: File = disk.open("a", create=True)
    with pytest.raises(io.UnsupportedOperation):
        file.fileno()


# Dying.


def replace_durably(disk: SimulatedDisk) -> None:
    """Nine mutations that every careful writer makes."""
    disk.make_dir("d")
    disk.sync_dir("")
    file = disk.open("d/a.tmp", create=True)
    file.write(0, b"new")
    file.truncate(2)
    file.sync()
    disk.rename("d/a.tmp", "d/a")
    disk.remove("d/a")
    disk.sync_dir("d")


def test_every_mutation_is_a_crash_point() -> None:
    calls = []
    for point in range(9):
        disk = SimulatedDisk()
        disk.crash_after(point)
        with pytest.raises(SimulatedCrash):
            replace_durably(disk)
        calls.append(disk.trace[-1][0])
        assert disk.mutations == point + 1
    assert calls == ["make_dir", "sync", "create", "write", "truncate", "sync", "rename", "remove", "sync"]


def test_no_crash_comes_when_the_work_ends_first() -> None:
    disk = SimulatedDisk()
    disk.crash_after(9)
    replace_durably(disk)
    assert disk.mutations == 9


def test_a_crash_is_no_exception_that_code_could_swallow() -> None:
    assert not issubclass(SimulatedCrash, Exception)


@pytest.mark.parametrize("keep", Keep)
def test_after_a_crash_point_everything_raises_until_the_power_is_back(keep: Keep) -> None:
    disk = disk_with({"a": b"x"})
    file = disk.open("a")
    disk.crash_after(0)
    with pytest.raises(SimulatedCrash):
        file.write(0, b"y")
    calls: list[Callable[[], object]] = [
        lambda: file.read(0, 1),
        file.sync,
        file.size,
        lambda: disk.open("a"),
        lambda: disk.exists("a"),
        lambda: disk.list_dir(""),
        lambda: disk.sync_dir(""),
    ]
    for call in calls:
        with pytest.raises(SimulatedCrash):
            call()
    disk.crash(keep)
    assert content(disk, "a") in (b"x", b"y")


def test_the_operation_cut_off_is_left_to_chance() -> None:
    def cut(seed: int, call: Callable[[File], None]) -> bytes:
        disk = disk_with({"a": b"old"}, seed=seed)
        file = disk.open("a")
        file.write(0, b"new")
        disk.crash_after(0)
        with pytest.raises(SimulatedCrash):
            call(file)
        disk.crash()
        return content(disk, "a")

    assert {cut(seed, lambda file: file.sync()) for seed in range(50)} == {b"old", b"new"}
    assert b"newer" in {cut(seed, lambda file: file.write(0, b"newer")) for seed in range(50)}


def test_handles_of_before_a_crash_are_dead() -> None:
    disk = disk_with({"a": b"x"})
    for die in (disk.crash, disk.restart):
        file = disk.open("a")
        die()
        with pytest.raises(OSError, match="Stale file handle") as caught:
            file.write(0, b"y")
        assert caught.value.errno == errno.ESTALE
        assert content(disk, "a") == b"x"


def test_a_restart_loses_nothing_and_saves_nothing() -> None:
    disk = disk_with({"a": b"old"})
    disk.open("a").write(0, b"new")
    disk.open("b", create=True)
    disk.restart()
    assert content(disk, "a") == b"new"
    assert disk.list_dir("") == ["a", "b"]
    disk.crash(Keep.NOTHING)
    assert content(disk, "a") == b"old"
    assert disk.list_dir("") == ["a"]


def test_a_crash_point_is_forgotten_at_the_crash() -> None:
    disk = disk_with({"a": b"x"})
    disk.crash_after(1)
    disk.crash()
    file = disk.open("a")
    file.write(0, b"y")
    file.write(0, b"z")


# Failing syncs.


def test_retrying_a_failed_sync_succeeds_and_loses_the_data() -> None:
    disk = disk_with({"a": b"old"})
    file = disk.open("a")
    file.write(0, b"newer")
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    assert content(disk, "a") == b"newer", "the cache still shows it"
    file.sync()
    disk.crash(Keep.EVERYTHING)
    assert content(disk, "a") == b"old"


def test_writes_after_a_failed_sync_are_saved_beside_the_hole() -> None:
    disk = disk_with({"a": b""})
    file = disk.open("a")
    file.write(0, b"x" * SECTOR)
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.write(SECTOR, b"y" * SECTOR)
    file.sync()
    disk.crash(Keep.EVERYTHING)
    assert content(disk, "a") == bytes(SECTOR) + b"y" * SECTOR


def test_a_sector_written_again_after_a_failed_sync_is_saved_whole() -> None:
    disk = disk_with({"a": b""})
    file = disk.open("a")
    file.write(0, b"first")
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.write(5, b"second")
    file.sync()
    disk.crash(Keep.NOTHING)
    assert content(disk, "a") == b"firstsecond"


def first_dropped(seed: int) -> SimulatedDisk:
    """An empty file that shows `first`, which a failed sync dropped."""
    disk = disk_with({"a": b""}, seed=seed)
    disk.open("a").write(0, b"first")
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output error"):
        disk.open("a").sync()
    return disk


def test_a_sector_written_again_after_a_failed_sync_survives_whole_or_not_at_all() -> None:
    left = set()
    for seed in range(100):
        disk = first_dropped(seed)
        disk.open("a").write(5, b"second")
        disk.crash()
        left.add(content(disk, "a"))
    assert b"firstsecond" in left
    assert all(b"firstsecond".startswith(data) or not any(data) for data in left)


def test_a_good_sync_after_a_failed_one_is_where_the_next_crash_starts_from() -> None:
    left = set()
    for seed in range(100):
        disk = first_dropped(seed)
        file = disk.open("a")
        file.write(5, b"second")
        file.sync()
        file.write(0, b"F")
        disk.crash()
        left.add(content(disk, "a"))
    assert left == {b"firstsecond", b"Firstsecond"}


def test_what_a_failed_sync_dropped_is_forgotten_at_the_crash() -> None:
    for seed in range(100):
        disk = first_dropped(seed)
        disk.crash()
        assert content(disk, "a") == b""
        disk.open("a").write(5, b"second")
        disk.crash()
        assert b"first" not in content(disk, "a")


def test_a_truncation_dropped_by_a_failed_sync_is_undone_by_a_crash() -> None:
    disk = disk_with({"a": b"x" * 1000})
    file = disk.open("a")
    file.truncate(600)
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.write(0, b"y")
    file.sync()
    disk.crash(Keep.EVERYTHING)
    assert content(disk, "a") == b"y" + b"x" * 999


def test_a_failed_sync_may_have_saved_a_part() -> None:
    left = set()
    for seed in range(100):
        disk = disk_with({"a": b""}, seed=seed)
        file = disk.open("a")
        file.write(0, b"x" * (4 * SECTOR))
        disk.fail_sync(keep=Keep.RANDOM)
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        disk.crash()
        left.add(content(disk, "a"))
    assert b"" in left
    assert b"x" * (4 * SECTOR) in left
    assert len(left) > 5


def test_a_directory_that_is_changed_after_a_failed_sync_is_saved_whole() -> None:
    disk = disk_with({"a": b"x", "gone": b"y"})
    disk.open("b", create=True)
    disk.remove("gone")
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync_dir("")
    disk.open("c", create=True)
    disk.remove("c")
    disk.sync_dir("")
    disk.crash(Keep.NOTHING)
    assert disk.list_dir("") == ["a", "b"]


def test_names_dropped_by_a_failed_sync_are_not_saved_by_the_next_one_alone() -> None:
    disk = disk_with({"a": b"x"})
    disk.open("b", create=True)
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync_dir("")
    assert disk.list_dir("") == ["a", "b"]
    disk.sync_dir("")
    disk.crash(Keep.EVERYTHING)
    assert disk.list_dir("") == ["a"]


def test_syncs_fail_as_often_as_asked_where_they_match() -> None:
    disk = SimulatedDisk()
    log = disk.open("x.log", create=True)
    index = disk.open("x.index", create=True)
    disk.fail_sync(lambda path: path.endswith(".log"), count=2)
    for _ in range(2):
        index.sync()
        with pytest.raises(OSError, match="Input/output error"):
            log.sync()
    log.sync()


# Other faults.


def test_a_full_disk_takes_what_fits_and_refuses_the_rest() -> None:
    disk = SimulatedDisk()
    file = disk.open("a", create=True)
    disk.fail_write(after_bytes=8)
    file.write(0, b"01234")
    with pytest.raises(OSError, match="No space left") as caught:
        file.write(5, b"56789")
    assert caught.value.errno == errno.ENOSPC
    assert content(disk, "a") == b"01234567"
    assert disk.bytes_written["a"] == 8
    file.write(8, b"89")


def test_a_fault_without_an_end_lasts_until_cleared_and_outlives_a_crash() -> None:
    disk = disk_with({"a": b"x"})
    disk.fail_write(count=None)
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            disk.open("a").write(1, b"y")
        disk.crash()
    disk.clear_faults()
    disk.open("a").write(1, b"y")


def test_a_full_disk_has_room_for_what_is_written_over_durable_bytes() -> None:
    disk = disk_with({"a": b"0123"})
    disk.fail_write(count=None)
    disk.open("a").write(1, b"abc")
    with pytest.raises(OSError, match="No space left"):
        disk.open("a").write(3, b"de")
    assert content(disk, "a") == b"0abd"


def test_a_read_fails_as_asked() -> None:
    disk = disk_with({"a": b"x"})
    disk.fail_read(lambda path: path == "a")
    with pytest.raises(OSError, match="Input/output error"):
        content(disk, "a")
    assert content(disk, "a") == b"x"


def test_a_flipped_bit_is_seen_at_once_and_after_a_crash() -> None:
    disk = disk_with({"a": b"\x00\x00"})
    disk.flip_bit("a", 1, 3)
    assert content(disk, "a") == b"\x00\x08"
    disk.open("a").write(0, b"\xff\xff")
    disk.crash(Keep.NOTHING)
    assert content(disk, "a") == b"\x00\x08"


def test_a_bit_beyond_the_end_cannot_be_flipped() -> None:
    disk = disk_with({"a": b"x"})
    with pytest.raises(ValueError, match="none at 1"):
        disk.flip_bit("a", 1, 0)


# Counting.


def test_bytes_and_syncs_are_counted_by_path() -> None:
    disk = SimulatedDisk()
    first, second = disk.open("a", create=True), disk.open("b", create=True)
    first.write(0, b"12345")
    first.read(3, 10)
    second.write(0, b"1")
    second.sync()
    disk.sync_dir("")
    assert disk.bytes_written == {"a": 5, "b": 1}
    assert disk.bytes_read == {"a": 2}
    assert disk.syncs == {"b": 1, "": 1}
    assert disk.bytes_written.total() == 6


def test_open_files_are_counted_until_their_last_reference_goes() -> None:
    disk = SimulatedDisk()
    first, second = disk.open("a", create=True), disk.open("a")
    assert disk.open_files == 2
    del first
    second.close()
    second.close()
    assert disk.open_files == 0
    assert disk.max_open_files == 2
    with pytest.raises(OSError, match="Bad file descriptor"):
        second.read(0, 1)


def test_handles_of_before_a_crash_do_not_count_after_it() -> None:
    disk = disk_with({"a": b"x"})
    before = disk.open("a")
    disk.crash()
    assert disk.open_files == 0
    after = disk.open("a")
    del before
    assert disk.open_files == 1
    assert after.size() == 1


# Determinism.


def messy_run(disk: SimulatedDisk) -> list[tuple[str, bytes]]:
    for round_ in range(20):
        file = disk.open(f"f{round_ % 3}", create=True)
        file.write(round_ * 300, bytes([round_]) * 2000)
        if round_ % 4 == 0:
            file.sync()
            disk.sync_dir("")
        if round_ % 7 == 6:
            disk.rename(file.path, "renamed")
            disk.crash()
    disk.crash()
    return [(name, content(disk, name)) for name in disk.list_dir("")]


def test_the_same_seed_gives_the_same_disk_and_the_same_fingerprint() -> None:
    first, second = SimulatedDisk(7), SimulatedDisk(Random(7))
    assert messy_run(first) == messy_run(second)
    assert first.fingerprint == second.fingerprint
    assert first.trace == second.trace


def test_seeds_differ() -> None:
    assert len({str(messy_run(SimulatedDisk(seed))) for seed in range(20)}) > 15


def test_the_fingerprint_knows_every_byte_written() -> None:
    first, second = disk_with({"a": b"x"}), disk_with({"a": b"y"})
    assert first.fingerprint != second.fingerprint
