"""What is open on a simulated disk: files and directories, and the crash that ends all of them.

A handle opened before a crash or restart never touches what came after it.
"""

import errno
import io
from typing import TYPE_CHECKING, NoReturn

from barnabas.core.records.batch import Buffer
from barnabas.testing.disk_names import Directory
from barnabas.testing.disk_pages import CachedFile
from barnabas.testing.disk_tree import os_error

if TYPE_CHECKING:
    from barnabas.testing.disk import SimulatedDisk


class SimulatedCrash(BaseException):
    """The machine stopped in the middle of a call. Not an `Exception`: nothing on it may handle that."""


class SimulatedFile:
    """An open file of a simulated disk. It closes with its last reference, as a real one does."""

    __slots__ = ("_boot", "_content", "_disk", "_is_open", "_path")

    def __init__(self, disk: "SimulatedDisk", path: str, content: CachedFile, boot: int) -> None:
        self._disk = disk
        self._path = path
        self._content = content
        self._boot = boot
        self._is_open = True

    @property
    def path(self) -> str:
        """The path it was opened by; a later rename does not show here."""
        return self._path

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""
        self._check_usable(position)
        data = self._content.read(position, size)
        self._disk._note_read(self._path, position, data)
        return data

    def read_nowait(self, position: int, size: int) -> bytes | None:
        """As `read`: everything here is in memory."""
        data = self.read(position, size)
        return data if len(data) == size else None

    def write(self, position: int, data: Buffer) -> None:
        """Write all of `data` at `position`, extending the file as needed."""
        self._check_usable(position)
        self._disk._write(self._path, self._content, position, bytes(data))

    def size(self) -> int:
        """The length as every opener sees it."""
        self._check_usable(0)
        return self._content.size()

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or extend it by zeros."""
        self._check_usable(size)
        self._disk._truncate(self._path, self._content, size)

    def sync(self) -> None:
        """Make the file's bytes and length durable; not its name."""
        self._check_usable(0)
        self._disk._sync(self._path, self._content)

    def fileno(self) -> NoReturn:
        """There is no descriptor."""
        raise io.UnsupportedOperation("a simulated file has no descriptor")

    def close(self) -> None:
        """Close now rather than with the last reference."""
        if self._is_open:
            self._is_open = False
            self._disk._note_close(self._boot)

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SimulatedFile({self._path!r})"

    def _check_usable(self, position: int) -> None:
        self._disk._running_tree()
        if not self._is_open:
            raise os_error(errno.EBADF, self._path)
        if self._boot != self._disk._boot:
            raise os_error(errno.ESTALE, self._path)
        if position < 0:
            raise os_error(errno.EINVAL, self._path)


class SimulatedDirectory:
    """An open directory of a simulated disk."""

    __slots__ = ("_boot", "_directory", "_disk", "_path")

    def __init__(self, disk: "SimulatedDisk", path: str, directory: Directory, boot: int) -> None:
        self._disk = disk
        self._path = path
        self._directory = directory
        self._boot = boot

    def sync(self) -> None:
        """Make the names in it durable."""
        self._disk._running_tree()
        if self._boot != self._disk._boot:
            raise os_error(errno.ESTALE, self._path)
        self._disk._sync(self._path, self._directory)
