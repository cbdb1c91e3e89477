"""The disk as the log sees it: what storage asks for, and what a crash may do to it.

Two implementations: `runtime.disk.OsDisk` on the operating system, and `testing.disk.SimulatedDisk`, which
loses, tears and flips. Calls block; a caller that must not block uses a thread.

What a caller may rely on:
- a write is visible to every later read at once, and durable only after `sync` of that file;
- a created, renamed or removed name is durable only after `sync_dir` of its directory;
- `rename` replaces its target in one step: after a crash a name leads to the old file or the new one;
- after a failed `sync` or `sync_dir`, which is `SyncFailed`, nothing is known about unsynced bytes. It is never
  retried. An error from opening the file to be synced does not count: no sync was tried.

Paths are strings with ``/`` between names. A `File` closes when its last reference goes, so a reader of a file that was
dropped from a cache or removed from its directory can read on.
"""

from typing import Protocol

from barnabas.core.records.batch import Buffer


class SyncFailed(OSError):
    """A sync failed: what was to be durable may be lost, and a later sync would not report it."""


class File(Protocol):
    """An open file. Positions are explicit; there is no shared cursor."""

    @property
    def path(self) -> str: ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def read_nowait(self, position: int, size: int) -> Buffer | None:
        """`size` bytes that are already in memory; None if the disk is needed, or the file is shorter."""
        ...

    def write(self, position: int, data: Buffer) -> None:
        """Write all of `data` at `position`, extending the file as needed."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes; durable after `sync`."""
        ...

    def sync(self) -> None:
        """Make the file's bytes and length durable; `SyncFailed` when they are not."""
        ...

    def fileno(self) -> int:
        """The descriptor, for `sendfile`."""
        ...


class OpenDirectory(Protocol):
    """An open directory. Its names can be made durable even when nothing more can be opened."""

    def sync(self) -> None:
        """Make the names in the directory durable; `SyncFailed` when they are not."""
        ...


class Disk(Protocol):
    """A tree of directories and files."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` makes a missing file. FileNotFoundError otherwise."""
        ...

    def open_dir(self, path: str) -> OpenDirectory:
        """Open a directory, which closes with its last reference. FileNotFoundError when there is none."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def free_bytes(self, path: str) -> int | None:
        """The free space of the file system of a path; None if it does not report any."""
        ...

    def exists(self, path: str) -> bool:
        """Whether the path is a file or a directory. OSError if that cannot be determined."""
        ...

    def file_size(self, path: str) -> int:
        """The length of a file that need not be open."""
        ...

    def make_dir(self, path: str) -> None:
        """Make a directory; its parent must exist, it may exist already."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file's name; open files go on."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        ...

    def sync_all(self) -> None:
        """Make everything on this disk durable. Does not report failures: only for data that can be rebuilt."""
        ...
