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
    """A small file with one owner, who decides on its content, and several threads that may write it.

    `copies` are paths that get the same content, first. Contents are numbered in the order in which the owner began
    them: a late one never replaces a newer one, and counts as written, since the newer one includes it.
    """

    __slots__ = ("_disk", "_durable", "_lock", "_paths", "_version")

    def __init__(self, disk: Disk, path: str, *, copies: tuple[str, ...] = ()) -> None:
        self._disk = disk
        self._paths = (*copies, path)
        self._lock = Lock()
        self._version = self._durable = 0

    @property
    def is_durable(self) -> bool:
        """Whether the file on disk has the latest content."""
        return self._durable == self._version

    def note_change(self) -> None:
        """The content has changed. Called by the owner."""
        self._version += 1

    def begin(self, encode: Callable[[], bytes]) -> Callable[[], None]:
        """The function that writes the current content, on any thread.

        Called by the owner. `encode` is called on that thread, too: it must not depend on what the owner changes later.
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
