"""A disk in memory that forgets, tears, flips and fails: `storage.disk` for tests, all from one seed.

Owns the open handles, the crash points, and the counters and trace a test checks. What a power cut may do to
bytes is in `disk_pages`, to names in `disk_names`: both as harsh as POSIX allows.

    disk = SimulatedDisk(seed)
    disk.crash_after(n)             # n mutations complete, the next one is cut off
    with contextlib.suppress(SimulatedCrash):
        workload(disk)
    disk.crash()                    # power: unsynced changes survive by chance
    check(recover(disk))

Two ways to die: `crash` is a power cut; `restart` is the death of the process alone, which loses no byte and
makes none durable. Recovery that takes all it reads for durable is caught by a `restart` and then a `crash`.

Invariants: the same seed and the same calls give the same disk and the same `fingerprint`; a handle opened
before a crash or restart never touches what came after it.

Must not know: segments, batches, threads; it is for one thread. Not simulated: permissions, links that a
caller makes, renames from one directory to another (refused: EXDEV), stale blocks showing up in a hole.
"""

import errno
import hashlib
import zlib
from collections import Counter, deque
from contextlib import suppress
from random import Random
from typing import Final, TypeAlias

from barnabas.storage.disk import SyncFailed
from barnabas.testing.disk_faults import Fault, Faults, Matching, any_path, find_fault
from barnabas.testing.disk_handles import SimulatedCrash, SimulatedDirectory, SimulatedFile
from barnabas.testing.disk_names import Directory, Node
from barnabas.testing.disk_pages import SECTOR, CachedFile, Keep
from barnabas.testing.disk_tree import Tree, check_replaceable, os_error

__all__ = ["SECTOR", "Keep", "Matching", "SimulatedCrash", "SimulatedDisk", "SimulatedFile", "any_path"]

Event: TypeAlias = tuple[str | int, ...]

_TRACE_LENGTH: Final = 1000


class SimulatedDisk:
    """A tree of directories and files in memory. It starts with an empty root; a leading ``/`` means nothing.

    Counters by path: `bytes_read`, `bytes_written`, `syncs` (of files and directories); `total()` sums up.
    `mutations` counts the calls that change the disk or sync it, which are the points `crash_after` can cut.
    `trace` holds the last calls, `fingerprint` stands for all of them.
    """

    def __init__(self, seed: int | Random = 0) -> None:
        self._random = seed if isinstance(seed, Random) else Random(seed)
        self._tree = Tree()
        self._faults = Faults()
        self._boot = 0  # handles of an earlier boot are dead
        self._is_down = False
        self._mutations_left: int | None = None
        self._digest = hashlib.blake2b(digest_size=16)
        self.trace: deque[Event] = deque(maxlen=_TRACE_LENGTH)
        self.mutations = 0
        self.bytes_read: Counter[str] = Counter()
        self.bytes_written: Counter[str] = Counter()
        self.syncs: Counter[str] = Counter()
        self.open_files = 0
        self.max_open_files = 0
        self.room: int | None = None  # bytes that are free, as a test says

    # The port.

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        """Open for reading and writing; `create` makes a missing file."""
        tree = self._running_tree()
        self._check_opens(path)
        if create and tree.find(path) is None:
            fault = find_fault(self._faults.creates, path)
            if fault:
                raise fault.on(path)
            content = CachedFile()
            self._add(path, content, "create")
        else:
            content = tree.file(path)
            self._note(("open", path))
        self.open_files += 1
        self.max_open_files = max(self.max_open_files, self.open_files)
        return SimulatedFile(self, path, content, self._boot)

    def list_dir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        tree = self._running_tree()
        self._check_opens(path)
        return sorted(tree.directory(path).entries)

    def open_dir(self, path: str) -> SimulatedDirectory:
        """Open a directory, to sync it later."""
        tree = self._running_tree()
        self._check_opens(path)
        return SimulatedDirectory(self, path, tree.directory(path), self._boot)

    def free_bytes(self, path: str) -> int | None:
        """What a test has put into `room`; without that nothing is said."""
        self._running_tree().directory(path)
        return self.room

    def exists(self, path: str) -> bool:
        """Whether the path leads to a file or a directory."""
        return self._running_tree().find(path) is not None

    def file_size(self, path: str) -> int:
        """The length of a file that need not be open."""
        return self._running_tree().file(path).size()

    def make_dir(self, path: str) -> None:
        """Make a directory; its parent must exist, it may exist already."""
        found = self._running_tree().find(path)
        if isinstance(found, CachedFile):
            raise os_error(errno.EEXIST, path)
        if found is None:
            self._add(path, Directory(), "make_dir")

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name in its directory, replacing what had that name."""
        tree = self._running_tree()
        directory, old = tree.parent(source)
        target_directory, new = tree.parent(target)
        node = directory.entries.get(old)
        if node is None:
            raise os_error(errno.ENOENT, source)
        if target_directory is not directory:
            raise os_error(errno.EXDEV, target)
        replaced = directory.entries.get(new)
        if replaced is node:
            return  # one file by two names: POSIX leaves both
        check_replaceable(node, replaced, target)
        fault = find_fault(self._faults.renames, target)
        if fault:
            raise fault.on(target)
        self._begin(("rename", source, target))
        directory.rename(old, new)
        self._end()

    def remove(self, path: str) -> None:
        """Remove a file's name; open files go on."""
        self._running_tree().file(path)
        self._remove(path, "remove")

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory."""
        if self._running_tree().directory(path).entries:
            raise os_error(errno.ENOTEMPTY, path)
        self._remove(path, "remove_dir")

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        tree = self._running_tree()
        self._check_opens(path)
        self._sync(path, tree.directory(path))

    def sync_all(self) -> None:
        """Make everything durable, files before the names that lead to them; each is a point to crash at.

        As on the real disk, failures are not reported.
        """
        for path, node in list(self._running_tree().walk()):
            with suppress(OSError):
                self._sync(path, node)

    # Dying.

    def crash_after(self, mutations: int) -> None:
        """Let so many mutations complete, and raise `SimulatedCrash` out of the next one.

        That one is unsynced work like any other: a write cut off may survive in part, a sync cut off may have
        saved anything or nothing. Then every call raises, until `crash` or `restart`.
        """
        self._mutations_left = mutations

    def crash(self, keep: Keep = Keep.RANDOM) -> None:
        """Cut the power and bring it back. What was synced is there; of the rest, what `keep` says."""
        self._reboot(("crash", keep.name))
        lost_power: set[Node] = set()
        standing: list[Node] = [self._tree.root]
        while standing:
            node = standing.pop()
            if node in lost_power:
                continue  # a file may have two names
            lost_power.add(node)
            node.lose_power(keep, self._random)
            if isinstance(node, Directory):
                standing.extend(node.entries.values())

    def restart(self) -> None:
        """End the process, not the machine: handles die, every byte and name stays as visible as it was."""
        self._reboot(("restart",))

    # Faults.

    def fail_sync(self, matching: Matching = any_path, *, count: int | None = 1, keep: Keep = Keep.NOTHING) -> None:
        """Syncs of files and directories fail with EIO, and what was unsynced is dropped, but for `keep`.

        Dropped as Linux drops it: still visible, no longer to be saved. The next sync succeeds and saves
        none of it, so that retrying a sync is seen to be wrong at the next `crash`.
        """
        self._faults.syncs.append(Fault(matching, count, errno.EIO, keep=keep))

    def fail_write(
        self,
        matching: Matching = any_path,
        *,
        after_bytes: int = 0,
        count: int | None = 1,
        error: int = errno.ENOSPC,
    ) -> None:
        """Matching files take `after_bytes` more in all; the first write beyond stops short and fails.

        Where it is lack of space, what is written over durable bytes has their place.
        """
        self._faults.writes.append(Fault(matching, count, error, room=after_bytes))

    def fail_read(self, matching: Matching = any_path, *, count: int | None = 1) -> None:
        """Reads fail with EIO."""
        self._faults.reads.append(Fault(matching, count, errno.EIO))

    def fail_open(self, matching: Matching = any_path, *, count: int | None = 1, error: int = errno.EMFILE) -> None:
        """Nothing can be opened, not even to be listed or synced: too many files are open."""
        self._faults.opens.append(Fault(matching, count, error))

    def fail_create(self, matching: Matching = any_path, *, count: int | None = 1, error: int = errno.ENOSPC) -> None:
        """No file can be created: a name needs space, too."""
        self._faults.creates.append(Fault(matching, count, error))

    def fail_rename(self, matching: Matching = any_path, *, count: int | None = 1, error: int = errno.ENOSPC) -> None:
        """Nothing can be renamed to a matching path: a directory, too, may need room."""
        self._faults.renames.append(Fault(matching, count, error))

    def clear_faults(self) -> None:
        """Disarm what the `fail_` methods armed. A crash alone does not repair a disk."""
        self._faults.clear()

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Corrupt one bit of a file, in the cache and on the platter. Bit 0 is the lowest."""
        file = self._running_tree().file(path)
        if not 0 <= position < file.size():
            raise ValueError(f"{path} has {file.size()} bytes, none at {position}")
        self._note(("flip_bit", path, position, bit))
        file.flip_bit(position, bit)

    # What a test may ask.

    def durable_bytes(self, path: str) -> bytes | None:
        """The content of the file if a power cut now lost everything unsynced; None if there is no file."""
        node = self._tree.find_durable(path)
        return node.durable_bytes() if isinstance(node, CachedFile) else None

    @property
    def fingerprint(self) -> str:
        """A hash of every call so far, crashes included: equal for runs that did the same."""
        return self._digest.hexdigest()

    def _check_opens(self, path: str) -> None:
        fault = find_fault(self._faults.opens, path)
        if fault:
            raise fault.on(path)

    # What files call.

    def _note_read(self, path: str, position: int, data: bytes) -> None:
        fault = find_fault(self._faults.reads, path)
        self._note(("read", path, position, len(data)))
        if fault:
            raise fault.on(path)
        self.bytes_read[path] += len(data)

    def _write(self, path: str, content: CachedFile, position: int, data: bytes) -> None:
        self._begin(("write", path, position, len(data), zlib.crc32(data)))
        fault = find_fault(self._faults.writes, path)
        in_place = 0 if fault is None or fault.error != errno.ENOSPC else content.room_at(position)
        written = data if fault is None else data[: in_place + fault.room]
        content.write(position, written)
        self.bytes_written[path] += len(written)
        self._end()
        if fault:
            fault.room -= max(len(written) - in_place, 0)
            if len(written) < len(data):
                raise fault.on(path)

    def _truncate(self, path: str, content: CachedFile, size: int) -> None:
        self._begin(("truncate", path, size))
        content.truncate(size)
        self._end()

    def _sync(self, path: str, node: Node) -> None:
        self._begin(("sync", path))
        self._end()  # before the effect, so that a sync cut off leaves all to chance, like one half done
        self.syncs[path] += 1
        fault = find_fault(self._faults.syncs, path)
        if fault:
            node.fail_sync(fault.keep, self._random)
            raise SyncFailed(*fault.on(path).args, path)
        node.sync()

    def _note_close(self, boot: int) -> None:
        # Not in the trace: when a last reference goes is up to the collector.
        if boot == self._boot:
            self.open_files -= 1

    def _running_tree(self) -> Tree:
        if self._is_down:
            raise SimulatedCrash("the simulated disk is down until crash() or restart()")
        return self._tree

    # Mutations: `_begin` counts one, `_end` is where it is cut off.

    def _begin(self, event: Event) -> None:
        self._note(event)
        self.mutations += 1
        if self._mutations_left is not None:
            self._mutations_left -= 1

    def _end(self) -> None:
        if self._mutations_left is not None and self._mutations_left < 0:
            self._is_down = True
            raise SimulatedCrash(f"at mutation {self.mutations}: {self.trace[-1]}")

    def _add(self, path: str, node: Node, call: str) -> None:
        directory, name = self._tree.parent(path)
        self._begin((call, path))
        directory.add(name, node)
        self._end()

    def _remove(self, path: str, call: str) -> None:
        directory, name = self._tree.parent(path)
        self._begin((call, path))
        directory.remove(name)
        self._end()

    def _reboot(self, event: Event) -> None:
        self._is_down = False
        self._mutations_left = None
        self._note(event)
        self._boot += 1
        self.open_files = 0

    def _note(self, event: Event) -> None:
        self.trace.append(event)
        self._digest.update(repr(event).encode())
