"""The history of leader epochs of one log on disk: written when it changed, and it changes rarely.

The owner of the log notes changes; any thread may write the file (`begin_write`).
"""

from collections.abc import Callable

from barnabas.core.replica.leader_epochs import LeaderEpochs
from barnabas.storage.checkpoints import encode_epochs
from barnabas.storage.disk import Disk
from barnabas.storage.names import EPOCH_CHECKPOINT
from barnabas.storage.small_file import ReplacedFile


class EpochFile:
    """The epoch checkpoint of a partition directory."""

    __slots__ = ("_epochs", "_file", "_is_changed")

    def __init__(self, disk: Disk, directory: str, epochs: LeaderEpochs) -> None:
        self._epochs = epochs
        self._file = ReplacedFile(disk, f"{directory}/{EPOCH_CHECKPOINT}")
        self._is_changed = False

    def note_if(self, is_changed: bool) -> None:
        """The history may have changed."""
        self._is_changed |= is_changed

    def write(self) -> None:
        """Make the history durable, if it changed."""
        write = self.begin_write()
        if write is not None:
            write()

    def begin_write(self) -> Callable[[], None] | None:
        """The function that does so, on any thread; None if nothing changed."""
        if self._is_changed:
            self._file.note_change()
            self._is_changed = False
        if self._file.is_durable:
            return None
        entries = self._epochs.entries
        return self._file.begin(lambda: encode_epochs(entries))
