"""A lock on a data directory: two nodes on the same files would ruin them."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from barnabas.core.errors import StorageError


class DirLock:
    """Held from `take` until `release`, or until the process ends in any way."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/.lock"
        self._descriptor: int | None = None

    def take(self) -> None:
        """Lock the directory, creating it if necessary; refused if another process has it."""
        directory = Path(self._path).parent
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except (FileExistsError, NotADirectoryError) as error:
            raise StorageError(
                f"{directory} cannot be used as a data directory: {error.filename} is not a directory"
            ) from error
        except OSError as error:
            raise StorageError(
                f"{directory} cannot be used as a data directory: {error.strerror} ({error.filename})"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise StorageError(
                f"{Path(self._path).parent} is in use by another node (process {owner or 'unknown'}); "
                "stop it, or name another --data-dir"
            ) from None
        with suppress(OSError):  # no room: then nobody is told whose it is
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def others_may_enter(self) -> bool:
        """Whether other users may read the directory, which another user or an earlier version has created."""
        return bool(Path(self._path).parent.stat().st_mode & 0o077)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
