"""The bytes of one simulated file: what reads see, what is durable, and what a power cut makes of the rest.

Owns the rules of data durability, at the grain of a sector:
- a sector is written whole or not at all, so after a cut it holds its durable content or any content it had
  since, whatever became of its neighbours and of the order of writing. Beyond the durable length, a sector
  that was not saved reads as zeros;
- the length ends anywhere between the shortest and the longest the file had since its last sync;
- a truncation is no barrier: bytes written after it may survive beside old bytes it was meant to cut off.
  Journaling file systems are kinder; POSIX promises no more;
- a sync that fails drops what was unsynced: reads still see it, a later sync has nothing left to write and
  reports success, and a power cut takes it. A sector written again is whole in the cache, and is saved whole.

Invariant: without a failed sync, `_durable` with `_pending` applied is `_visible`.

Must not know: names, handles, injected faults.
"""

from enum import Enum, auto
from random import Random
from typing import Final, NamedTuple

SECTOR: Final = 512

# How likely a sector survives, for writes before and after a random moment. One coin for all sectors would
# almost never leave a clean prefix, a lost beginning or a single hole, and recovery must tell these apart.
_ODDS: Final = ((1.0, 0.0), (1.0, 0.5), (0.5, 0.0), (0.0, 1.0), (0.5, 0.5), (0.9, 0.9), (0.1, 0.1))


class Keep(Enum):
    """How much of what was not synced outlives a power cut or a failed sync."""

    NOTHING = auto()
    RANDOM = auto()
    EVERYTHING = auto()


class _Write(NamedTuple):
    position: int
    end: int
    data: bytes

    def size_after(self, size: int) -> int:
        return max(size, self.end)

    def apply(self, image: bytearray) -> None:
        _extend(image, self.position)
        image[self.position : self.end] = self.data


class _Truncation(NamedTuple):
    position: int  # the new length
    end: int  # the length before: up to here bytes change, if only by ending

    def size_after(self, _size: int) -> int:
        return self.position

    def apply(self, image: bytearray) -> None:
        del image[self.position :]
        _extend(image, self.position)


class CachedFile:
    """A file's bytes, in the page cache and on the platter."""

    __slots__ = ("_cached", "_durable", "_pending", "_visible")

    def __init__(self) -> None:
        self._visible = bytearray()
        self._durable = bytearray()
        self._pending: list[_Write | _Truncation] = []
        # What was visible at the last sync, once a sync failed; before that it is `_durable`, and not copied.
        self._cached: bytearray | None = None

    def size(self) -> int:
        return len(self._visible)

    def read(self, position: int, size: int) -> bytes:
        return memoryview(self._visible)[position : position + size].tobytes()

    def durable_bytes(self) -> bytes:
        """What would be left if everything unsynced were lost."""
        return bytes(self._durable)

    def room_at(self, position: int) -> int:
        """How many bytes have a place on the platter from `position` on."""
        return max(len(self._durable) - position, 0)

    def write(self, position: int, data: bytes) -> None:
        if data:
            change = _Write(position, position + len(data), data)
            change.apply(self._visible)
            self._pending.append(change)

    def truncate(self, size: int) -> None:
        change = _Truncation(size, len(self._visible))
        change.apply(self._visible)
        self._pending.append(change)

    def sync(self) -> None:
        """Make durable what is pending, and only that: what a failed sync dropped is not pending."""
        durable = self._durable
        size = len(durable)
        for change in self._pending:
            size = change.size_after(size)
        for change in self._pending:
            _copy_sectors(self._visible, durable, *_sectors(change))
        _resize(durable, size)
        self._pending.clear()
        if self._cached is not None:
            self._cached = bytearray(self._visible)

    def fail_sync(self, keep: Keep, random: Random) -> None:
        """Drop what is pending, as Linux does: the pages stay in the cache and count as clean."""
        self._settle(keep, random)
        self._cached = bytearray(self._visible)

    def lose_power(self, keep: Keep, random: Random) -> None:
        """Go on with what is durable and what chance kept of the rest."""
        if self._pending:
            self._settle(keep, random)
        elif self._cached is None:
            return
        self._visible = bytearray(self._durable)
        self._cached = None

    def flip_bit(self, position: int, bit: int) -> None:
        """Decay of a stored byte. Where the byte is not durable yet, only the cache decays."""
        for image in (self._visible, self._durable, self._cached):
            if image is not None and position < len(image):
                image[position] ^= 1 << bit

    def _settle(self, keep: Keep, random: Random) -> None:
        if keep is Keep.EVERYTHING:
            self.sync()
        elif keep is Keep.RANDOM and self._pending:
            self._keep_some(random)
        self._pending.clear()

    def _keep_some(self, random: Random) -> None:
        """Replay the pending changes through the cache, writing back each changed sector or not."""
        image = bytearray(self._durable if self._cached is None else self._cached)
        durable = self._durable
        sizes = [len(durable)]
        early, late = random.choice(_ODDS)
        moment = random.randrange(len(self._pending) + 1)
        for index, change in enumerate(self._pending):
            change.apply(image)
            sizes.append(change.size_after(sizes[-1]))
            _copy_some_sectors(image, durable, _sectors(change), early if index < moment else late, random)
        _resize(durable, _some_size(sizes, moment, random))


def _sectors(change: _Write | _Truncation) -> tuple[int, int]:
    """The bytes of the sectors that a change touches, from and to."""
    start, end = sorted((change.position, change.end))
    return start // SECTOR * SECTOR, -(-end // SECTOR) * SECTOR


def _some_size(sizes: list[int], moment: int, random: Random) -> int:
    """Any length is possible. That of the moment makes clean cuts common, the longest holes and old tails."""
    anywhere = random.randint(min(sizes), max(sizes))
    return random.choice((sizes[moment], sizes[-1], max(sizes), anywhere))


def _copy_some_sectors(
    source: bytearray, target: bytearray, sectors: tuple[int, int], odds: float, random: Random
) -> None:
    start, end = sectors
    if odds == 1.0:
        _copy_sectors(source, target, start, end)
    elif odds > 0.0:
        for sector in range(start, end, SECTOR):
            if random.random() < odds:
                _copy_sectors(source, target, sector, sector + SECTOR)


def _copy_sectors(source: bytearray, target: bytearray, start: int, end: int) -> None:
    """Copy whole sectors; past the end of the source they hold zeros."""
    _extend(target, end)
    target[start:end] = source[start:end].ljust(end - start, b"\0")


def _extend(image: bytearray, size: int) -> None:
    if len(image) < size:
        image.extend(bytes(size - len(image)))


def _resize(image: bytearray, size: int) -> None:
    del image[size:]
    _extend(image, size)
