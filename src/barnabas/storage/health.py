"""Whether a data directory can be written to, and what an error of the operating system means for it.

Three kinds of errors:

- The process has run out of something (descriptors, memory), or a name is too long: that one piece of work is refused,
  and the next may succeed. Nothing is wrong with the disk.
- There is no space left: as above, and clients' writes are refused until there is space again (`note_room`). The
  broker's own writes are still tried: otherwise retention could free nothing.
- Anything else, a failed sync always, takes the directory offline for good: nothing is known about what is on disk, and
  trying again could report as durable what is not. What was synced before can be read on.

Work that is refused because of the first two must leave no trace; work that cannot be undone is `guarded`
with `is_final`, and then any error takes the directory offline.

May be called on any thread.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from barnabas.core.errors import StorageError, StorageExhausted
from barnabas.storage.disk import SyncFailed

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOT_THE_DISK: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENAMETOOLONG})

Listener = Callable[[StorageError], None]


class DirectoryHealth:
    """One data directory: online, full, or offline with the reason."""

    __slots__ = ("directory", "is_full", "listener", "offline_reason")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.offline_reason: str | None = None
        self.is_full = False
        self.listener: Listener | None = None  # hears of every error that is not the caller's fault

    def check(self) -> None:
        """Refuse to write when offline."""
        if self.offline_reason is not None:
            raise StorageError(f"{self.directory} is offline: {self.offline_reason}")

    def check_room(self) -> None:
        """Refuse a client's write if there is no space for it."""
        if self.is_full:
            raise StorageExhausted(f"{self.directory} is full; retry the write once there is space")

    def note_room(self, *, is_full: bool) -> None:
        """The free space was checked."""
        was_full, self.is_full = self.is_full, is_full
        if is_full and not was_full:
            self._tell(
                StorageExhausted(f"{self.directory} is full, except for the space reserved for the broker itself")
            )

    def fail(self, error: OSError) -> StorageError:
        """Handle an error of the directory; returns the refusal to raise."""
        reason = str(error) or type(error).__name__
        if isinstance(error, SyncFailed) or error.errno not in NO_ROOM | _NOT_THE_DISK:
            return self.fail_for_good(error)
        if error.errno in _NOT_THE_DISK:
            refusal = StorageExhausted(f"nothing can be opened or read in {self.directory} at the moment: {reason}")
            self._tell(refusal)
            return refusal
        refusal = StorageExhausted(f"{self.directory} is full: {reason}")
        was_full, self.is_full = self.is_full, True
        if not was_full:
            self._tell(refusal)
        return refusal

    def fail_for_good(self, error: OSError) -> StorageError:
        """Take the directory offline, whatever the error; returns the refusal to raise."""
        was_online = self.offline_reason is None
        if was_online:
            self.offline_reason = str(error) or type(error).__name__
        refusal = StorageError(f"{self.directory} is taken offline: {self.offline_reason}")
        if was_online:
            self._tell(refusal)
        return refusal

    @contextmanager
    def guarded(self, *, is_final: bool = False) -> Iterator[None]:
        """Around whatever writes to the directory's files. `is_final`: what fails half way cannot be done again."""
        self.check()
        try:
            yield
        except StorageExhausted as refusal:
            if is_final:
                raise self.fail_for_good(OSError(str(refusal))) from refusal
            raise
        except OSError as error:
            raise (self.fail_for_good(error) if is_final else self.fail(error)) from error

    @contextmanager
    def sparing(self) -> Iterator[None]:
        """Around work that only saves work later: lack of space, or of descriptors, is not a failure."""
        with suppress(StorageExhausted), self.guarded():
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Around reads, which continue when nothing can be written any more."""
        try:
            yield
        except OSError as error:
            raise self.fail(error) from error

    def _tell(self, refusal: StorageError) -> None:
        if self.listener is not None:
            self.listener(refusal)
