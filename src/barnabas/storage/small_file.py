"""Small files that are replaced whole: written beside, synced, renamed over, the directory synced."""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from barnabas.storage.disk import Disk
from barnabas.storage.names import TEMPORARY, parent_of


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Put `data` at `path`, durably: after a crash the file is whole, old or new."""
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
    disk.sync_dir(parent_of(path))


def read_file(disk: Disk, path: str) -> bytes | None:
    """The whole of a small file, or None when there is none."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    return file.read(0, file.size())


class ReplacedFile:
    """A small file with one owner, who says what it is to hold, and several threads that may put that there. `copies`
    are paths that get the same, before it.

    Contents are numbered in the order in which the owner began them: one that comes late never replaces a newer one,
    and counts as written, for the newer one has all that it said.
    """

    __slots__ = ("_disk", "_durable", "_lock", "_paths", "_version")

    def __init__(self, disk: Disk, path: str, *, copies: tuple[str, ...] = ()) -> None:
        self._disk = disk
        self._paths = (*copies, path)
        self._lock = Lock()
        self._version = self._durable = 0

    @property
    def is_durable(self) -> bool:
        """Whether the file is on disk as its owner last said."""
        return self._durable == self._version

    def note_change(self) -> None:
        """What the file is to hold has changed. Called by the owner."""
        self._version += 1

    def begin(self, encode: Callable[[], bytes]) -> Callable[[], None]:
        """The function that puts there what the file is to hold now, on whatever thread. Called by the owner.

        `encode` is called there, too: it must not depend on what the owner changes later.
        """
        version = self._version
        return lambda: self._put(version, encode)

    def _put(self, version: int, encode: Callable[[], bytes]) -> None:
        with self._lock:
            if version > self._durable:
                data = encode()
                for path in self._paths:
                    replace_file(self._disk, path, data)
                self._durable = version
