"""Open files and loaded indexes are kept within a bound."""

import pytest

from barnabas.storage.cache import BoundedCache, OpenFiles
from barnabas.storage.offset_index import OffsetIndex
from barnabas.testing.disk import SimulatedDisk


def disk_with(*names: str) -> SimulatedDisk:
    disk = SimulatedDisk()
    for name in names:
        disk.open(name, create=True)
    return disk


def test_a_value_is_loaded_once() -> None:
    cache: BoundedCache[str] = BoundedCache(10)
    loads: list[str] = []

    def load(path: str) -> tuple[str, int]:
        loads.append(path)
        return path.upper(), 1

    assert [cache.get("a", load), cache.get("a", load)] == ["A", "A"]
    assert loads == ["a"]


def test_the_least_recently_used_value_goes_first() -> None:
    cache: BoundedCache[str] = BoundedCache(2)
    for path in ("a", "b", "a", "c"):
        cache.get(path, lambda path: (path, 1))
    assert [cache.get(path, lambda _path: ("loaded again", 1)) for path in ("a", "c", "b")] == [
        "a",
        "c",
        "loaded again",
    ]


def test_weights_are_what_counts() -> None:
    cache: BoundedCache[str] = BoundedCache(100)
    for path in ("a", "b", "c"):
        cache.get(path, lambda path: (path, 40))
    assert len(cache) == 2


def test_one_value_beyond_the_bound_is_kept_all_the_same() -> None:
    cache: BoundedCache[str] = BoundedCache(1)
    cache.get("huge", lambda path: (path, 1000))
    assert len(cache) == 1
    cache.get("small", lambda path: (path, 1))
    assert len(cache) == 1


def test_a_dropped_value_is_loaded_again_and_its_weight_is_free() -> None:
    cache: BoundedCache[str] = BoundedCache(2)
    cache.get("a", lambda _path: ("old", 2))
    cache.drop("a")
    cache.drop("never there")
    assert cache.get("a", lambda _path: ("new", 1)) == "new"
    cache.get("b", lambda _path: ("b", 1))
    assert len(cache) == 2


def test_a_load_that_fails_leaves_nothing_behind() -> None:
    cache: BoundedCache[str] = BoundedCache(2)

    def fail(path: str) -> tuple[str, int]:
        raise FileNotFoundError(path)

    with pytest.raises(FileNotFoundError):
        cache.get("a", fail)
    assert len(cache) == 0


def test_no_more_files_are_open_than_allowed() -> None:
    names = [f"f{n}" for n in range(50)]
    disk = disk_with(*names)
    files = OpenFiles(disk, max_files=10)
    for name in names:
        files.file(name)
    assert disk.open_files <= 10


def test_a_reader_keeps_a_file_that_the_cache_let_go() -> None:
    disk = disk_with("a", "b", "c")
    disk.open("a").write(0, b"kept")
    files = OpenFiles(disk, max_files=2)
    held = files.file("a")
    files.file("b")
    files.file("c")
    assert held.read(0, 4) == b"kept"


def test_a_forgotten_file_is_opened_anew() -> None:
    disk = disk_with("a")
    files = OpenFiles(disk)
    old = files.file("a")
    disk.remove("a")
    disk.open("a", create=True).write(0, b"new")
    files.forget("a")
    assert files.file("a").read(0, 3) == b"new"
    assert old.read(0, 3) == b""


def test_everything_in_a_directory_is_forgotten_with_it_and_nothing_else() -> None:
    disk = SimulatedDisk()
    for directory in ("t-1", "t-10"):
        disk.make_dir(directory)
        disk.open(f"{directory}/0.log", create=True)
    files = OpenFiles(disk)
    kept = files.file("t-10/0.log")
    gone = files.file("t-1/0.log")
    files.offset_indexes.get("t-1/0.index", lambda _path: (OffsetIndex(), 1))
    files.forget_directory("t-1")
    assert files.file("t-10/0.log") is kept
    assert files.file("t-1/0.log") is not gone
    assert len(files.offset_indexes) == 0


def test_what_is_dropped_while_it_is_loaded_is_not_kept() -> None:
    cache: BoundedCache[str] = BoundedCache(10)

    def load(path: str) -> tuple[str, int]:
        cache.drop(path)  # another thread: the file is renamed over just now
        return "old", 1

    assert cache.get("a", load) == "old"
    assert cache.get("a", lambda _: ("new", 1)) == "new"
