"""The visible half of the disk port, the same on the operating system and in the simulation."""

import errno
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.runtime.disk import OsDisk
from barnabas.storage.disk import Disk
from barnabas.testing.disk import SimulatedDisk
from tests.support.examples import examples


@dataclass(frozen=True)
class Place:
    """A disk, and an empty directory on it."""

    disk: Disk
    root: str

    def at(self, name: str) -> str:
        return f"{self.root}/{name}"

    def put(self, name: str, data: bytes) -> None:
        self.disk.open(self.at(name), create=True).write(0, data)

    def get(self, name: str) -> bytes:
        return self.disk.open(self.at(name)).read(0, 1 << 20)


@pytest.fixture(params=["os", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "os":
        return Place(OsDisk(), str(tmp_path))
    return simulated_place()


def simulated_place() -> Place:
    disk = SimulatedDisk()
    disk.make_dir("/data")
    return Place(disk, "/data")


def test_a_write_is_visible_to_every_opener_at_once(place: Place) -> None:
    writer = place.disk.open(place.at("a"), create=True)
    reader = place.disk.open(place.at("a"))
    writer.write(0, b"hello")
    assert reader.read(0, 5) == b"hello"
    assert reader.size() == 5
    assert place.disk.file_size(place.at("a")) == 5


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_written(place: Place, kind: Callable[[bytes], bytes | bytearray | memoryview]) -> None:
    file = place.disk.open(place.at("a"), create=True)
    file.write(0, kind(b"hello"))
    assert file.read(0, 5) == b"hello"


def test_a_buffer_may_be_reused_after_the_write(place: Place) -> None:
    file = place.disk.open(place.at("a"), create=True)
    buffer = bytearray(b"first")
    file.write(0, buffer)
    buffer[:] = b"other"
    assert file.read(0, 5) == b"first"


def test_a_read_is_short_only_at_the_end_of_the_file(place: Place) -> None:
    place.put("a", b"0123456789")
    file = place.disk.open(place.at("a"))
    assert file.read(3, 4) == b"3456"
    assert file.read(8, 4) == b"89"
    assert file.read(10, 4) == b""
    assert file.read(100, 4) == b""


def test_a_write_beyond_the_end_leaves_a_hole_of_zeros(place: Place) -> None:
    file = place.disk.open(place.at("a"), create=True)
    file.write(4, b"x")
    assert file.read(0, 10) == b"\0\0\0\0x"


def test_an_empty_write_beyond_the_end_changes_nothing(place: Place) -> None:
    file = place.disk.open(place.at("a"), create=True)
    file.write(4, b"")
    assert file.size() == 0


def test_a_write_in_the_middle_replaces_and_keeps_the_length(place: Place) -> None:
    place.put("a", b"0123456789")
    place.disk.open(place.at("a")).write(2, b"xyz")
    assert place.get("a") == b"01xyz56789"


def test_truncating_cuts_and_extends(place: Place) -> None:
    place.put("a", b"0123456789")
    file = place.disk.open(place.at("a"))
    file.truncate(3)
    assert file.read(0, 10) == b"012"
    file.truncate(5)
    assert file.read(0, 10) == b"012\0\0"


def test_positions_before_the_beginning_are_refused(place: Place) -> None:
    file = place.disk.open(place.at("a"), create=True)
    for refused in (lambda: file.read(-1, 1), lambda: file.write(-1, b"x"), lambda: file.truncate(-1)):
        with pytest.raises(OSError, match="Invalid argument"):
            refused()


def test_syncing_succeeds_and_shows_nothing(place: Place) -> None:
    file = place.disk.open(place.at("a"), create=True)
    file.write(0, b"x")
    file.sync()
    place.disk.sync_dir(place.root)
    assert place.get("a") == b"x"


def test_opening_creates_only_when_asked(place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        place.disk.open(place.at("a"))
    place.disk.open(place.at("a"), create=True)
    assert place.disk.exists(place.at("a"))


def test_opening_for_creation_keeps_what_is_there_even_if_empty(place: Place) -> None:
    first = place.disk.open(place.at("a"), create=True)
    second = place.disk.open(place.at("a"), create=True)
    first.write(0, b"x")
    assert second.read(0, 1) == b"x"


def test_names_are_listed_in_order(place: Place) -> None:
    for name in ("b", "a", "c"):
        place.put(name, b"")
    place.disk.make_dir(place.at("aa"))
    assert place.disk.list_dir(place.root) == ["a", "aa", "b", "c"]


def test_making_a_directory_again_is_fine(place: Place) -> None:
    place.disk.make_dir(place.at("d"))
    place.put("d/x", b"kept")
    place.disk.make_dir(place.at("d"))
    assert place.get("d/x") == b"kept"


def test_a_rename_replaces_its_target(place: Place) -> None:
    place.put("new", b"new")
    place.put("old", b"old")
    place.disk.rename(place.at("new"), place.at("old"))
    assert place.get("old") == b"new"
    assert not place.disk.exists(place.at("new"))


def test_a_reader_of_a_replaced_file_reads_on(place: Place) -> None:
    place.put("new", b"new")
    place.put("old", b"old")
    reader = place.disk.open(place.at("old"))
    place.disk.rename(place.at("new"), place.at("old"))
    assert reader.read(0, 3) == b"old"


def test_a_directory_is_renamed_with_all_it_holds(place: Place) -> None:
    place.disk.make_dir(place.at("d"))
    place.put("d/x", b"kept")
    place.disk.rename(place.at("d"), place.at("e"))
    assert place.get("e/x") == b"kept"
    assert place.disk.list_dir(place.root) == ["e"]


def test_a_removed_file_reads_on_for_who_has_it_open(place: Place) -> None:
    place.put("a", b"hello")
    file = place.disk.open(place.at("a"))
    place.disk.remove(place.at("a"))
    file.write(5, b"!")
    assert file.read(0, 6) == b"hello!"
    assert not place.disk.exists(place.at("a"))


def test_a_new_file_of_a_removed_name_is_another_file(place: Place) -> None:
    place.put("a", b"old")
    old = place.disk.open(place.at("a"))
    place.disk.remove(place.at("a"))
    place.put("a", b"new")
    assert old.read(0, 3) == b"old"


def test_a_handle_keeps_the_path_it_was_opened_by(place: Place) -> None:
    file = place.disk.open(place.at("a"), create=True)
    place.disk.rename(place.at("a"), place.at("b"))
    assert file.path == place.at("a")


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (lambda p: p.disk.open(p.at("dir")), errno.EISDIR),
        (lambda p: p.disk.open(p.at("dir"), create=True), errno.EISDIR),
        (lambda p: p.disk.open(p.at("none/x"), create=True), errno.ENOENT),
        (lambda p: p.disk.open(p.at("file/x"), create=True), errno.ENOTDIR),
        (lambda p: p.disk.open(p.at("x" * 256), create=True), errno.ENAMETOOLONG),
        (lambda p: p.disk.list_dir(p.at("none")), errno.ENOENT),
        (lambda p: p.disk.list_dir(p.at("file")), errno.ENOTDIR),
        (lambda p: p.disk.file_size(p.at("none")), errno.ENOENT),
        (lambda p: p.disk.make_dir(p.at("none/x")), errno.ENOENT),
        (lambda p: p.disk.make_dir(p.at("file")), errno.EEXIST),
        (lambda p: p.disk.rename(p.at("none"), p.at("x")), errno.ENOENT),
        (lambda p: p.disk.rename(p.at("file"), p.at("dir")), errno.EISDIR),
        (lambda p: p.disk.rename(p.at("dir"), p.at("file")), errno.ENOTDIR),
        (lambda p: p.disk.rename(p.at("dir"), p.at("full")), errno.ENOTEMPTY),
        (lambda p: p.disk.remove(p.at("none")), errno.ENOENT),
        (lambda p: p.disk.remove(p.at("dir")), errno.EISDIR),
        (lambda p: p.disk.remove_dir(p.at("none")), errno.ENOENT),
        (lambda p: p.disk.remove_dir(p.at("file")), errno.ENOTDIR),
        (lambda p: p.disk.remove_dir(p.at("full")), errno.ENOTEMPTY),
        (lambda p: p.disk.sync_dir(p.at("none")), errno.ENOENT),
        (lambda p: p.disk.sync_dir(p.at("file")), errno.ENOTDIR),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_same_error(
    place: Place, refused: Callable[[Place], object], code: int
) -> None:
    place.put("file", b"x")
    place.disk.make_dir(place.at("dir"))
    place.disk.make_dir(place.at("full"))
    place.put("full/x", b"x")
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the code says which
        refused(place)
    assert caught.value.errno == code


Step = Callable[[Place], object]

NAMES = st.sampled_from(["a", "b", "d"])
PATHS = st.sampled_from(["a", "b", "d", "d/a", "d/b"])
SIZES = st.integers(0, 1500)


def write(name: str, position: int, data: bytes) -> Step:
    return lambda place: place.disk.open(place.at(name)).write(position, data)


STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(lambda n: lambda p: p.disk.open(p.at(n), create=True).size(), PATHS),
    st.builds(write, PATHS, SIZES, st.binary(max_size=600)),
    st.builds(lambda n, size: lambda p: p.disk.open(p.at(n)).truncate(size), PATHS, SIZES),
    st.builds(lambda n: lambda p: p.disk.open(p.at(n)).sync(), PATHS),
    st.builds(lambda n: lambda p: p.disk.make_dir(p.at(n)), PATHS),
    st.builds(lambda a, b: lambda p: p.disk.rename(p.at(a), p.at(b)), NAMES, NAMES),
    st.builds(lambda n: lambda p: p.disk.remove(p.at(n)), PATHS),
    st.builds(lambda n: lambda p: p.disk.remove_dir(p.at(n)), PATHS),
    st.builds(lambda n: lambda p: p.disk.list_dir(p.at(n)), PATHS),
    st.builds(lambda n: lambda p: p.disk.exists(p.at(n)), PATHS),
    st.builds(lambda n: lambda p: p.get(n), PATHS),
)


def outcome(step: Step, place: Place) -> object:
    try:
        return step(place)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


@given(st.lists(STEPS, max_size=25))
@settings(deadline=None, max_examples=examples(250))
def test_any_sequence_of_calls_looks_the_same_on_both(steps: list[Step]) -> None:
    simulated = simulated_place()
    with tempfile.TemporaryDirectory() as root:
        real = Place(OsDisk(), root)
        for step in steps:
            assert outcome(step, simulated) == outcome(step, real)
