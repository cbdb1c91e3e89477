"""The disk of the operating system: `storage.disk` over descriptors and positional system calls.

Owns descriptors, and the memory that large reads use in turn (`read_buffers`): no cache, no cursor. Every read and
write names its position, so any number of threads may use one file at a time.

Invariants: a descriptor belongs to exactly one `OsFile` and is not inherited by child processes; a write or a
read is whole, or it raises. An `OSError` passes through: the caller knows what it means (`storage.health`).

Must not know: what the bytes mean, when to sync, how many files may be open.
"""

import errno
import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from barnabas.core.records.batch import Buffer
from barnabas.runtime.read_buffers import ReadBuffers
from barnabas.storage.disk import SyncFailed

T = TypeVar("T")

_OPEN: Final = os.O_RDWR | os.O_CLOEXEC
_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MODE: Final = 0o600  # records are for their owner alone, whatever the umask
_DIRECTORY_MODE: Final = 0o700
_CLOSED: Final = -1
_pwrite: Final = os.pwrite
_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)

if sys.platform == "darwin":

    def _sync(descriptor: int) -> None:
        # fsync of macOS stops at the drive's volatile cache; only this reaches the platter.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)

    _sync_data = _sync
else:
    _sync = os.fsync
    # The length travels with the data, as reading it back needs it; only the times of the file stay behind.
    _sync_data = os.fdatasync


class OsFile:
    """An open file, closed with its last reference.

    A reader that found this file in a cache must be able to finish after the cache dropped it, on whatever
    thread it runs. An explicit close would have to know that there are no readers left: a descriptor closed too
    early is handed out again at the next open, and the reader reads another file. Counting references is what
    Python does anyway, so the last one closes.
    """

    __slots__ = ("_buffers", "_descriptor", "_path")

    def __init__(self, path: str, descriptor: int, buffers: ReadBuffers) -> None:
        self._path = path
        self._descriptor = descriptor
        self._buffers = buffers

    @property
    def path(self) -> str:
        """The path it was opened by; a later rename does not show here."""
        return self._path

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""
        data = os.pread(self._descriptor, size, position)
        if len(data) == size:
            return data
        return self._read_on(position, size, data)

    def read_nowait(self, position: int, size: int) -> Buffer | None:
        """`size` bytes that are already in memory; None if the disk is needed, or the file is shorter."""
        if _NOWAIT is None:
            return self.read(position, size)
        buffer = self._buffers.take(size)
        try:
            count = os.preadv(self._descriptor, [buffer], position, _NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            return None  # a file system that cannot say: it is read in a thread
        return buffer if count == size else None

    def write(self, position: int, data: Buffer) -> None:
        """Write all of `data`, which is bytes or a view of bytes, at `position`."""
        written = _pwrite(self._descriptor, data, position)
        if written != len(data):
            self._write_on(position, data, written)

    def size(self) -> int:
        """The length now, as every other opener sees it."""
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or extend it by zeros."""
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """Make bytes and length durable. Never retried after a failure: see `storage.disk`."""
        try:
            _sync_data(self._descriptor)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, self._path) from error

    def fileno(self) -> int:
        """The descriptor, valid for as long as the caller holds this file."""
        return self._descriptor

    def close(self) -> None:
        """Close now rather than with the last reference. Only for a caller that knows it is the last."""
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OsFile({self._path!r})"

    def _read_on(self, position: int, size: int, data: bytes) -> bytes:
        # A short read is the end of the file, a signal, or more than one call may carry (2 GiB on Linux):
        # only an empty one tells.
        pieces = [data]
        done = len(data)
        while done < size and pieces[-1]:
            pieces.append(os.pread(self._descriptor, size - done, position + done))
            done += len(pieces[-1])
        return b"".join(pieces)

    def _write_on(self, position: int, data: Buffer, done: int) -> None:
        # The disk is nearly full, or the write is larger than one call may carry. In the first case the next
        # call says so by an error.
        rest = memoryview(data)
        while done < len(rest):
            done += os.pwrite(self._descriptor, rest[done:], position + done)


class OsDirectory:
    """An open directory, closed with its last reference."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def sync(self) -> None:
        """Make the names in it durable. Never retried after a failure: see `storage.disk`."""
        _sync_names(self._descriptor, self._path)

    def __del__(self) -> None:
        os.close(self._descriptor)


class OsDisk:
    """The file system of this machine. Paths are used as given.

    Listing a directory and syncing it needs a descriptor for a moment. One is reserved for that: a process that has
    used up all others must still be able to finish what it has begun.
    """

    __slots__ = ("_buffers", "_lock", "_spare")

    def __init__(self) -> None:
        self._buffers = ReadBuffers()
        self._lock = threading.Lock()
        self._spare: int | None = None
        self._set_aside()

    def open(self, path: str, *, create: bool = False) -> OsFile:
        """Open for reading and writing; `create` creates a missing file."""
        return OsFile(path, os.open(path, _OPEN | os.O_CREAT if create else _OPEN, _MODE), self._buffers)

    def open_dir(self, path: str) -> OsDirectory:
        """Open a directory, to sync it later. Not in the place of the spare descriptor: that is for a moment only."""
        return OsDirectory(path, os.open(path, _OPEN_DIRECTORY))

    def list_dir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        return sorted(self._with_spare(lambda: os.listdir(path)))  # by path: of a descriptor it would take a second

    def free_bytes(self, path: str) -> int | None:
        """The free space of the file system of a path; None if it does not report any."""
        try:
            stat = os.statvfs(path)
        except OSError:
            return None
        return stat.f_bavail * stat.f_frsize if stat.f_blocks else None

    def exists(self, path: str) -> bool:
        """Whether the path is a file or a directory; OSError if that cannot be determined."""
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def file_size(self, path: str) -> int:
        """The length of a file, which need not be open."""
        return os.stat(path).st_size

    def make_dir(self, path: str) -> None:
        """Create a directory; its parent must exist, the directory itself may exist already."""
        Path(path).mkdir(mode=_DIRECTORY_MODE, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory within its directory, replacing what had that name."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file's name; open files go on."""
        os.unlink(path)

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        self._with_spare(lambda: _sync_dir(path))

    def sync_all(self) -> None:
        """Make everything in the caches of this machine durable."""
        os.sync()

    def _with_spare(self, work: Callable[[], T]) -> T:
        """Do something that needs one descriptor for a moment: with the spare one if there is no other."""
        try:
            return work()
        except OSError as error:
            if isinstance(error, SyncFailed) or error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        with self._lock:
            self._give_up_spare()
            try:
                return work()
            finally:
                self._set_aside()

    def _set_aside(self) -> None:
        if self._spare is None:
            with suppress(OSError):  # somebody was quicker: there is none until the next time
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _give_up_spare(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            os.close(spare)

    def __del__(self) -> None:
        self._give_up_spare()


def _sync_dir(path: str) -> None:
    with _closing(os.open(path, _OPEN_DIRECTORY)) as descriptor:
        _sync_names(descriptor, path)


def _sync_names(descriptor: int, path: str) -> None:
    try:
        _sync(descriptor)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror, path) from error


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_private(path: str, data: bytes) -> None:
    """Write `data` durably to a new file that only its owner may read."""
    with _closing(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)) as descriptor:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        _sync(descriptor)
