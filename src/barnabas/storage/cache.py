"""A bounded cache of open file descriptors and loaded indexes of segments.

A broker has far more segments than the process may have descriptors, so files are opened on first use and the least
recently used are evicted. Eviction drops the cache's reference: a reader keeps its own, and the file closes with the
last one (see `disk`).

Thread-safe: appends, reads and compaction come from different threads.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final, Generic, TypeVar

from barnabas.storage.disk import Disk, File
from barnabas.storage.offset_index import OffsetIndex
from barnabas.storage.time_index import TimeIndex

DEFAULT_MAX_FILES: Final = 1024
DEFAULT_MAX_INDEX_BYTES: Final = 64 * 1024 * 1024

V = TypeVar("V")


class BoundedCache(Generic[V]):
    """Values by path, the least recently used dropped once their weights pass the bound."""

    def __init__(self, max_weight: int) -> None:
        assert max_weight > 0
        self._max_weight = max_weight
        self._weight = 0
        self._values: OrderedDict[str, tuple[V, int]] = OrderedDict()
        self._drops = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, path: str, load: Callable[[str], tuple[V, int]]) -> V:
        """The value at `path`; `load` returns it with its weight if it is not cached."""
        with self._lock:
            found = self._values.get(path)
            if found is not None:
                self._values.move_to_end(path)
                return found[0]
            drops = self._drops
        value, weight = load(path)  # outside the lock: it reads from disk
        with self._lock:
            raced = self._values.get(path)
            if raced is not None:
                return raced[0]
            if drops != self._drops:
                return value  # not kept: it may be what was dropped, and another file has that name by now
            self._values[path] = (value, weight)
            self._weight += weight
            while self._weight > self._max_weight and len(self._values) > 1:
                _, (_, dropped) = self._values.popitem(last=False)
                self._weight -= dropped
        return value

    def drop(self, path: str) -> None:
        with self._lock:
            self._drops += 1
            found = self._values.pop(path, None)
            if found is not None:
                self._weight -= found[1]

    def drop_below(self, prefix: str) -> None:
        with self._lock:
            self._drops += 1
            paths = [path for path in self._values if path.startswith(prefix)]
        for path in paths:
            self.drop(path)


class OpenFiles:
    """The open files and loaded indexes of all segments of a node."""

    def __init__(
        self,
        disk: Disk,
        *,
        max_files: int = DEFAULT_MAX_FILES,
        max_index_bytes: int = DEFAULT_MAX_INDEX_BYTES,
    ) -> None:
        assert max_files >= 2
        self.disk = disk
        # Half for files that their segments hold open until they are synced, half for the rest.
        self.max_held = max_files // 2
        self.held = 0
        self.offset_indexes: BoundedCache[OffsetIndex] = BoundedCache(max_index_bytes)
        self.time_indexes: BoundedCache[TimeIndex] = BoundedCache(max_index_bytes)
        self._files: BoundedCache[File] = BoundedCache(max_files - self.max_held)

    def file(self, path: str) -> File:
        """The open file at `path`, which must exist."""
        return self._files.get(path, self._open)

    def create(self, path: str) -> File:
        """A new, or at least opened, file at `path`."""
        self.disk.open(path, create=True)
        return self.file(path)

    def forget(self, path: str) -> None:
        """Drop everything cached for `path`: its file was removed, renamed over or rewritten."""
        self._files.drop(path)
        self.offset_indexes.drop(path)
        self.time_indexes.drop(path)

    def remove(self, path: str) -> None:
        """Remove the file at `path`, if there is one; its readers can read on."""
        self.forget(path)
        if self.disk.exists(path):
            self.disk.remove(path)

    def forget_directory(self, directory: str) -> None:
        """Drop everything cached for files in a removed directory."""
        for cache in (self._files, self.offset_indexes, self.time_indexes):
            cache.drop_below(directory + "/")

    def _open(self, path: str) -> tuple[File, int]:
        return self.disk.open(path), 1
