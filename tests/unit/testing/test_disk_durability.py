"""What a power cut may and may not do to the bytes and names of a simulated disk."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.testing.disk import SECTOR, Keep, SimulatedDisk
from tests.support.examples import examples
from tests.unit.testing.disk_support import content, disk_with

SEEDS = range(200)

OLD = b"o" * (4 * SECTOR)
NEW = b"n" * (4 * SECTOR)


def contents(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: content(disk, name) for name in disk.list_dir("")}


def outcomes(prepare: Callable[[int], SimulatedDisk]) -> list[dict[str, bytes]]:
    """What power cuts leave of one situation, by all seeds."""
    left = []
    for seed in SEEDS:
        disk = prepare(seed)
        disk.crash()
        left.append(contents(disk))
    return left


# Bytes.


@pytest.mark.parametrize("keep", Keep)
def test_synced_bytes_survive_every_crash(keep: Keep) -> None:
    for seed in SEEDS:
        disk = disk_with({"a": OLD}, seed=seed)
        disk.crash(keep)
        assert content(disk, "a") == OLD


def test_a_crash_that_keeps_nothing_goes_back_to_the_last_sync() -> None:
    disk = disk_with({"a": OLD})
    file = disk.open("a")
    file.write(0, NEW + NEW)
    file.truncate(10)
    disk.crash(Keep.NOTHING)
    assert content(disk, "a") == OLD


def test_a_crash_that_keeps_everything_shows_what_was_visible() -> None:
    disk = disk_with({"a": OLD})
    file = disk.open("a")
    file.truncate(10)
    file.write(100, NEW)
    visible = content(disk, "a")
    disk.crash(Keep.EVERYTHING)
    assert content(disk, "a") == visible


def test_what_survived_a_crash_is_durable() -> None:
    for seed in SEEDS:
        disk = disk_with({"a": OLD}, seed=seed)
        disk.open("a").write(0, NEW + NEW)
        disk.crash()
        survived = content(disk, "a")
        disk.crash()
        assert content(disk, "a") == survived


def test_an_overwrite_is_torn_at_sectors_and_nowhere_else() -> None:
    def overwrite(seed: int) -> SimulatedDisk:
        disk = disk_with({"a": OLD}, seed=seed)
        disk.open("a").write(0, NEW)
        return disk

    left = [outcome["a"] for outcome in outcomes(overwrite)]
    sectors = {tuple(data[at : at + SECTOR] for at in range(0, len(data), SECTOR)) for data in left}
    assert all(set(torn) <= {OLD[:SECTOR], NEW[:SECTOR]} for torn in sectors)
    assert len(sectors) > 8


def test_an_append_may_leave_nothing_all_a_part_or_a_hole() -> None:
    def append(seed: int) -> SimulatedDisk:
        disk = disk_with({"a": OLD}, seed=seed)
        disk.open("a").write(len(OLD), NEW)
        return disk

    tails = {outcome["a"][len(OLD) :] for outcome in outcomes(append)}
    assert b"" in tails
    assert NEW in tails
    assert any(tail and set(tail) == {0} for tail in tails)
    assert any(tail.startswith(bytes(SECTOR)) and b"n" in tail for tail in tails), "the beginning is lost"
    assert any(len(tail) % SECTOR for tail in tails), "the length is between"


def test_later_appends_may_survive_earlier_ones() -> None:
    def append_twice(seed: int) -> SimulatedDisk:
        disk = disk_with({"a": b""}, seed=seed)
        file = disk.open("a")
        file.write(0, OLD)
        file.write(len(OLD), NEW)
        return disk

    left = [outcome["a"] for outcome in outcomes(append_twice)]
    assert bytes(len(OLD)) + NEW in left
    assert OLD in left


def test_an_unsynced_truncation_may_be_undone_and_is_no_barrier_for_what_follows() -> None:
    def truncate_and_append(seed: int) -> SimulatedDisk:
        disk = disk_with({"a": OLD}, seed=seed)
        file = disk.open("a")
        file.truncate(SECTOR)
        file.write(SECTOR, NEW[:SECTOR])
        return disk

    left = [outcome["a"] for outcome in outcomes(truncate_and_append)]
    assert OLD in left
    assert OLD[:SECTOR] + NEW[:SECTOR] in left
    assert OLD[:SECTOR] + NEW[:SECTOR] + OLD[: 2 * SECTOR] in left, "old bytes behind new ones"


def test_a_synced_truncation_stays() -> None:
    for seed in SEEDS:
        disk = disk_with({"a": OLD}, seed=seed)
        file = disk.open("a")
        file.truncate(100)
        file.sync()
        file.write(100, b"n")
        disk.crash()
        assert content(disk, "a") in (OLD[:100], OLD[:100] + b"n", OLD[:100] + b"\0")


class FileHistory:
    """A second, slower account of one file: every content it had since its last sync."""

    def __init__(self) -> None:
        self.versions = [b""]

    def write(self, position: int, data: bytes) -> None:
        image = bytearray(self.versions[-1])
        if data:
            image.extend(bytes(max(0, position - len(image))))
            image[position : position + len(data)] = data
        self.versions.append(bytes(image))

    def truncate(self, size: int) -> None:
        self.versions.append(self.versions[-1][:size].ljust(size, b"\0"))

    def sync(self) -> None:
        del self.versions[:-1]

    def may_leave(self, survived: bytes) -> bool:
        sizes = [len(version) for version in self.versions]
        return min(sizes) <= len(survived) <= max(sizes) and all(
            self._may_leave_sector(survived[at : at + SECTOR], at) for at in range(0, len(survived), SECTOR)
        )

    def _may_leave_sector(self, sector: bytes, at: int) -> bool:
        return any(version[at : at + SECTOR].ljust(SECTOR, b"\0").startswith(sector) for version in self.versions)


POSITIONS = st.one_of(st.integers(0, 3000), st.sampled_from([0, SECTOR, 2 * SECTOR, 5 * SECTOR]))
LETTERS = st.builds(lambda letter, size: letter * size, st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 2000))
CHANGES = st.one_of(
    st.tuples(st.just("write"), POSITIONS, LETTERS),
    st.tuples(st.just("truncate"), POSITIONS),
    st.tuples(st.just("sync")),
)


@given(st.lists(CHANGES, max_size=20), st.integers(0, 1 << 30))
@settings(deadline=None, max_examples=examples(500))
def test_a_surviving_sector_holds_what_it_once_held_and_never_anything_else(
    changes: list[tuple[str, int, bytes]], seed: int
) -> None:
    disk = disk_with({"a": b""}, seed=seed)
    history = FileHistory()
    file = disk.open("a")
    for call, *arguments in changes:
        getattr(file, call)(*arguments)
        getattr(history, call)(*arguments)
    assert content(disk, "a") == history.versions[-1]
    assert disk.durable_bytes("a") == history.versions[0]
    disk.crash()
    assert history.may_leave(content(disk, "a"))


@given(st.lists(LETTERS, max_size=20), st.integers(0, 1 << 30))
@settings(deadline=None, max_examples=examples(200))
def test_a_synced_prefix_is_whole_after_any_appends(appends: list[bytes], seed: int) -> None:
    disk = disk_with({"a": OLD + b"odd end"}, seed=seed)
    file = disk.open("a")
    for data in appends:
        file.write(file.size(), data)
    disk.crash()
    assert content(disk, "a").startswith(OLD + b"odd end")


# Names.


def test_a_synced_file_without_a_synced_name_may_vanish() -> None:
    def create(seed: int) -> SimulatedDisk:
        disk = SimulatedDisk(seed)
        file = disk.open("a", create=True)
        file.write(0, b"x")
        file.sync()
        return disk

    left = outcomes(create)
    assert {} in left
    assert {"a": b"x"} in left
    assert all(outcome in ({}, {"a": b"x"}) for outcome in left)


def test_a_synced_name_of_an_unsynced_file_may_lead_to_an_empty_file() -> None:
    disk = SimulatedDisk()
    disk.open("a", create=True).write(0, b"x")
    disk.sync_dir("")
    disk.crash(Keep.NOTHING)
    assert content(disk, "a") == b""


def test_a_removed_name_may_come_back_until_its_directory_is_synced() -> None:
    def remove(seed: int) -> SimulatedDisk:
        disk = disk_with({"a": b"x"}, seed=seed)
        disk.remove("a")
        return disk

    left = outcomes(remove)
    assert {} in left
    assert {"a": b"x"} in left

    disk = remove(0)
    disk.sync_dir("")
    disk.crash(Keep.NOTHING)
    assert contents(disk) == {}


def test_a_replacing_rename_leaves_the_old_file_or_the_new_one_and_loses_neither_half() -> None:
    def replace(seed: int) -> SimulatedDisk:
        disk = disk_with({"a": b"old", "a.tmp": b"new"}, seed=seed)
        disk.rename("a.tmp", "a")
        return disk

    not_yet = {"a": b"old", "a.tmp": b"new"}
    done = {"a": b"new"}
    lingering = {"a": b"new", "a.tmp": b"new"}
    left = outcomes(replace)
    assert all(outcome in (not_yet, done, lingering) for outcome in left)
    assert all(outcome in left for outcome in (not_yet, done, lingering))


def test_a_lingering_source_is_the_same_file_as_its_target() -> None:
    for seed in SEEDS:
        disk = disk_with({"a.tmp": b"new"}, seed=seed)
        disk.rename("a.tmp", "a")
        disk.crash()
        if disk.list_dir("") == ["a", "a.tmp"]:
            disk.open("a.tmp").write(0, b"oops")
            assert content(disk, "a") == b"oops"
            disk.rename("a.tmp", "a")
            assert disk.list_dir("") == ["a", "a.tmp"], "POSIX: renaming a file to itself does nothing"
            return
    pytest.fail("no seed left the source behind")


def test_files_that_swap_their_names_are_both_there_at_every_point() -> None:
    def swap(seed: int) -> SimulatedDisk:
        disk = disk_with({"a": b"first", "b": b"second"}, seed=seed)
        disk.rename("a", "tmp")
        disk.rename("b", "a")
        disk.rename("tmp", "b")
        return disk

    left = outcomes(swap)
    assert all({b"first", b"second"} <= set(outcome.values()) for outcome in left)
    assert {"a": b"second", "b": b"first"} in left


def test_a_synced_rename_stays() -> None:
    disk = disk_with({"a": b"old", "a.tmp": b"new"})
    disk.rename("a.tmp", "a")
    disk.sync_dir("")
    for _ in SEEDS:
        disk.crash()
        assert contents(disk) == {"a": b"new"}


def test_a_directory_is_lost_with_all_it_holds_until_its_parent_is_synced() -> None:
    disk = SimulatedDisk()
    disk.make_dir("d")
    disk.open("d/a", create=True).sync()
    disk.sync_dir("d")
    disk.crash(Keep.NOTHING)
    assert disk.list_dir("") == []


def test_syncing_the_parent_does_not_save_the_names_inside() -> None:
    disk = SimulatedDisk()
    disk.make_dir("d")
    disk.open("d/a", create=True).sync()
    disk.sync_dir("")
    disk.crash(Keep.NOTHING)
    assert disk.list_dir("d") == []


def test_a_removed_directory_may_come_back() -> None:
    disk = SimulatedDisk()
    disk.make_dir("d")
    disk.sync_dir("")
    disk.remove_dir("d")
    disk.crash(Keep.NOTHING)
    assert disk.list_dir("") == ["d"]


def test_a_renamed_directory_has_one_of_its_two_names() -> None:
    found = set()
    for seed in SEEDS:
        disk = SimulatedDisk(seed)
        disk.make_dir("d")
        disk.sync_dir("")
        disk.rename("d", "e")
        disk.crash()
        found.add(tuple(disk.list_dir("")))
    assert found == {("d",), ("e",)}


class NameHistory:
    """A second account of one directory: all that each name led to since the last sync, by file number."""

    NAMES = ("a", "b", "c")

    def __init__(self) -> None:
        self.entries: dict[str, int] = {}
        self.led_to: dict[str, set[int | None]] = {}
        self.must_stay: set[int] = set()
        self.sync()

    def sync(self) -> None:
        self.led_to = {name: {self.entries.get(name)} for name in self.NAMES}
        self.must_stay = set(self.entries.values())

    def set_entry(self, name: str, number: int | None) -> None:
        replaced = self.entries.pop(name, None)
        if replaced is not None and replaced != number:
            self.must_stay.discard(replaced)
        if number is not None:
            self.entries[name] = number
        self.led_to[name].add(number)

    def move(self, source: str, target: str) -> None:
        number = self.entries[source]
        self.set_entry(target, number)
        del self.entries[source]
        self.led_to[source].add(None)


def change_names(disk: SimulatedDisk, history: NameHistory, call: str, first: str, second: str) -> None:
    entries = history.entries
    if call == "sync":
        disk.sync_dir("")
        history.sync()
    elif call == "create" and first not in entries:
        number = disk.mutations
        file = disk.open(first, create=True)
        file.write(0, b"%d" % number)
        file.sync()
        history.set_entry(first, number)
    elif call == "remove" and first in entries:
        disk.remove(first)
        history.set_entry(first, None)
    elif call == "rename" and first in entries and first != second:
        disk.rename(first, second)
        history.move(first, second)


NAMES = st.sampled_from(NameHistory.NAMES)


@given(
    st.lists(
        st.tuples(st.sampled_from(["create", "create", "remove", "rename", "rename", "sync"]), NAMES, NAMES),
        max_size=25,
    ),
    st.integers(0, 1 << 30),
)
@settings(deadline=None, max_examples=examples(500))
def test_a_name_leads_only_where_it_once_led_and_no_durable_file_goes_missing(
    calls: list[tuple[str, str, str]], seed: int
) -> None:
    disk = SimulatedDisk(seed)
    history = NameHistory()
    for call, first, second in [("create", "a", ""), ("create", "b", ""), ("sync", "", ""), *calls]:
        change_names(disk, history, call, first, second)
    disk.crash()
    survived = {name: int(data) for name, data in contents(disk).items()}
    for name in NameHistory.NAMES:
        assert survived.get(name) in history.led_to[name]
    assert history.must_stay <= set(survived.values())
