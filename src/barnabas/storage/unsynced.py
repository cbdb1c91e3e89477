"""What a crash may still lose of a log besides the end of its active segment: files and names that are not synced.

The log's owner notes them and asks for a plan; the plan runs in any thread; the owner notes that it ended. Plans may
overlap, so what a plan covers stays noted until it has ended, and entries are distinguished by a count: a file or a
name noted after a plan was made is not of that plan, even if it is the same file again.
"""

from typing import NamedTuple

from barnabas.storage.disk import Disk, File
from barnabas.storage.names import parent_of


class FlushPlan(NamedTuple):
    """What must be synced so that everything below `end_offset` is durable."""

    disk: Disk
    files: tuple[File, ...]
    directories: tuple[str, ...]
    end_offset: int
    closed_files: int
    name_changes: int
    cuts: int

    def run(self, synced: set[str] | None = None) -> None:
        """Sync; an OSError means the data directory must go offline.

        `synced` are directories that were synced since this plan was made, by others that run with it.
        """
        for file in self.files:
            file.sync()
        for directory in self.directories:
            if synced is None:
                self.disk.sync_dir(directory)
            elif directory not in synced:
                self.disk.sync_dir(directory)
                synced.add(directory)


class Unsynced:
    """The closed files of a log and the names in its directory that wait for a sync."""

    def __init__(self, disk: Disk, directory: str, *, is_new: bool) -> None:
        self._disk = disk
        self._directory = directory
        self.files: list[File] = []  # completely written; read by others, changed here alone
        self._synced_files = 0  # how many have left that list
        self._name_changes = 1 if is_new else 0
        self._synced_names = 0  # how many of those changes are durable
        self._is_new = is_new
        self._made_first: str | None = None  # a file that is synced with the first records; not kept open until then

    @property
    def has_files(self) -> bool:
        return bool(self.files)

    @property
    def has_names(self) -> bool:
        return self._synced_names != self._name_changes

    @property
    def is_new(self) -> bool:
        """Whether the directory itself may be lost."""
        return self._is_new

    def add(self, *files: File) -> None:
        """Add files that are completely written."""
        self.files += files

    def make_first(self, path: str) -> None:
        """A file was written in a new directory: it is to be durable with the first records, and not before them."""
        self._made_first = path

    def note_names(self) -> None:
        """A file was made in the directory or removed from it."""
        self._name_changes += 1

    def plan(self, active: File, *, end_offset: int, cuts: int) -> FlushPlan:
        """What to sync for everything so far, including the file of the active segment."""
        directories: tuple[str, ...] = ()
        if self._is_new:
            directories = (self._directory, parent_of(self._directory))
        elif self.has_names:
            directories = (self._directory,)
        closed = self._synced_files + len(self.files)
        files = (*self.files, active)
        if self._is_new and self._made_first is not None:
            files = (self._disk.open(self._made_first), *files)
        return FlushPlan(self._disk, files, directories, end_offset, closed, self._name_changes, cuts)

    def end(self, plan: FlushPlan) -> None:
        """The plan ran."""
        count = max(plan.closed_files - self._synced_files, 0)
        del self.files[:count]
        self._synced_files += count
        self._synced_names = max(self._synced_names, plan.name_changes)
        self._is_new = False

    def forget_files(self) -> None:
        """The waiting files are already synced, or removed."""
        self._synced_files += len(self.files)
        self.files.clear()
