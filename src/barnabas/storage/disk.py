"""The disk as the log sees it: what storage asks for, and what a crash may do to it.

Two implementations: `runtime.disk.OsDisk` on the operating system, and `testing.disk.SimulatedDisk`, which
loses, tears and flips. Calls block; whoever must not block calls from a thread.

What a caller may rely on:
- a write is visible to every later read at once, and durable only after `sync` of that file;
- a created, renamed or removed name is durable only after `sync_dir` of its directory;
- `rename` replaces its target in one step: after a crash a name leads to the old file or the new one;
- after a failed `sync` or `sync_dir`, which is `SyncFailed`, nothing is known about unsynced bytes. It is never tried
  again. An error from opening what is to be synced is none: nothing was tried.

Paths are strings with ``/`` between names. A `File` closes when its last reference goes, so whoever still
reads from a file that was dropped from a cache or removed from its directory reads on undisturbed.
"""

from typing import Protocol

from barnabas.core.records.batch import Buffer


class SyncFailed(OSError):
    """A sync failed, for whatever reason: what was to be durable may be lost, and a later sync would not say so."""


class File(Protocol):
    """An open file. Positions are explicit; there is no shared cursor."""

    @property
    def path(self) -> str: ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def read_nowait(self, position: int, size: int) -> Buffer | None:
        """`size` bytes that are in memory already; None when that takes the disk, or fewer are there."""
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
    """A directory that is open. Whoever has it can make names durable even when nothing more can be opened."""

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
        """How much more may be written to the file system of a path; None when it does not say."""
        ...

    def exists(self, path: str) -> bool:
        """Whether the path leads to a file or a directory. OSError when nobody can tell, which is not a no."""
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
        """Make everything on this disk durable. Says nothing of failures: only for what can be made again."""
        ...
