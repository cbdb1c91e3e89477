"""Whether a data directory can still be trusted.

The first error from the operating system takes the directory offline for good: after a failed write or sync
nothing is known about what is on disk, and trying again could report as durable what is not.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.core.errors import StorageError


class DirectoryHealth:
    """One data directory: online, or offline with the reason."""

    __slots__ = ("directory", "offline_reason")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.offline_reason: str | None = None

    def check(self) -> None:
        """Refuse when offline."""
        if self.offline_reason is not None:
            raise StorageError(f"{self.directory} is offline: {self.offline_reason}")

    def fail(self, error: OSError) -> StorageError:
        """Take the directory offline; returns the refusal to raise."""
        if self.offline_reason is None:
            self.offline_reason = str(error) or type(error).__name__
        return StorageError(f"{self.directory} is taken offline: {self.offline_reason}")

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Around whatever touches the directory's files."""
        self.check()
        try:
            yield
        except OSError as error:
            raise self.fail(error) from error
