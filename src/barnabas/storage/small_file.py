"""Small files that are replaced whole: written beside, synced, renamed over, the directory synced."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from threading import Lock

from barnabas.storage.disk import Disk
from barnabas.storage.names import TEMPORARY, parent_of


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Put `data` at `path`, durably: after a crash the file is whole, old or new."""
    _place(disk, path, data)
    disk.sync_dir(parent_of(path))


def _place(disk: Disk, path: str, data: bytes) -> None:
    """Put `data` at `path`; durable once its directory is synced."""
    temporary = path + TEMPORARY
    try:
        file = disk.open(temporary, create=True)
        file.truncate(0)
        file.write(0, data)
        file.sync()
    except OSError:
        with suppress(OSError):
            disk.remove(temporary)  # on a full disk its bytes are wanted elsewhere
        raise
    disk.rename(temporary, path)


def read_file(disk: Disk, path: str) -> bytes | None:
    """The whole of a small file, or None when there is none."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    return file.read(0, file.size())


class ReplacedFile:
    """A small file with one owner, who decides on its content, and several threads that may write it.

    `copies` are paths that get the same content, first. Contents are numbered in the order in which the owner began
    them: a late one never replaces a newer one, and counts as written, since the newer one includes it.
    """

    __slots__ = ("_version", "disk", "durable", "lock", "paths")

    def __init__(self, disk: Disk, path: str, *, copies: tuple[str, ...] = ()) -> None:
        self.disk = disk
        self.paths = (*copies, path)
        self.lock = Lock()  # of those who write it
        self.durable = 0  # the number of the content on disk
        self._version = 0

    @property
    def is_durable(self) -> bool:
        """Whether the file on disk has the latest content."""
        return self.durable == self._version

    def note_change(self) -> None:
        """The content has changed. Called by the owner."""
        self._version += 1

    def begin(self, encode: Callable[[], bytes]) -> "Replacement":
        """What writes the current content, on any thread.

        Called by the owner. `encode` is called on that thread, too: it must not depend on what the owner changes later.
        """
        return Replacement(self, self._version, encode)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A content of a file, which a call makes durable."""

    file: ReplacedFile
    version: int
    encode: Callable[[], bytes]

    def __call__(self) -> None:
        replace_together([self])


def replace_together(replacements: Sequence[Replacement]) -> None:
    """Make the contents of files durable, with one sync of a directory for all that it holds, and one more for those
    that have a copy: no copy may be older than its file.

    The files must always be in the same order: each is locked until all are durable.
    """
    with ExitStack() as locked:
        for each in replacements:
            locked.enter_context(each.file.lock)
        due = [each for each in replacements if each.version > each.file.durable]
        left = [(each.file, list(each.file.paths), each.encode()) for each in due]
        while left:
            directories: dict[str, Disk] = {}
            for file, paths, data in left:
                path = paths.pop(0)
                _place(file.disk, path, data)
                directories[parent_of(path)] = file.disk
            for directory, disk in directories.items():
                disk.sync_dir(directory)
            left = [each for each in left if each[1]]
        for each in due:
            each.file.durable = each.version
