"""Watches a data directory: whether there is space for clients' writes, and whether the directory exists.

Looks now and then, on a thread, so that an append need not. Some room is kept for the broker itself
(`log.dir.reserve.bytes`): metadata, checkpoints and offsets are still written when clients' records are refused, and
retention can make room. A client's write that finds the disk full nevertheless, because another process was quicker, is
refused by `storage.health`; here the free space is checked again, so no restart is needed.

A node that started without space may have something to write before it accepts clients' records (`before_room`).
`HealthLog` logs the state of the directory: once when it is full and once when there is space again, once when it goes
offline.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from barnabas.core.errors import DataDirLost, StorageError, StorageExhausted
from barnabas.runtime.clock import Clock
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.offload import Offload
from barnabas.storage.disk import Disk
from barnabas.storage.health import DirectoryHealth

log = get_logger("barnabas.storage")

INTERVAL_S: Final = 1.0
CLOSE_INTERVAL_S: Final = 0.1  # when little more than the reserve is left
QUIET_MS: Final = 60_000  # between two lines about descriptors
ROOM_MS: Final = 10_000  # how long there must have been room before it is said


class HealthLog:
    """Logs the state of a data directory. May be called on any thread."""

    def __init__(self, health: DirectoryHealth, clock: Clock) -> None:
        self._health = health
        self._clock = clock
        self._is_full = False
        self._full_at_ms = 0
        self._said_at_ms: int | None = None

    def note(self, refusal: StorageError) -> None:
        """A refusal caused by the directory, or by the process."""
        if not isinstance(refusal, StorageExhausted):
            log.error(
                "%s; nothing is written there any more, what is on disk can still be read. "
                "Check the disk and its file system, then start the node again",
                refusal,
            )
        elif self._health.is_full:
            self._full_at_ms = self._clock.now_ms()
            if not self._is_full:
                self._is_full = True
                log.error(
                    "%s; clients' writes are refused until there is space: delete something or add space", refusal
                )
        elif self._said_at_ms is None or self._clock.now_ms() - self._said_at_ms >= QUIET_MS:
            self._said_at_ms = self._clock.now_ms()
            log.error("%s; some requests are refused. Allow the process more open files (ulimit -n)", refusal)

    def note_room(self) -> None:
        """There is space, and nothing was refused for lack of it since the last check."""
        if self._is_full and self._clock.now_ms() - self._full_at_ms >= ROOM_MS:
            self._is_full = False
            log.warning("%s has space again; clients' writes are accepted", self._health.directory)


class DiskWatch:
    """Checks a data directory regularly; `run` is a task of the node, and ends with `DataDirLost`."""

    def __init__(
        self, disk: Disk, health: DirectoryHealth, offload: Offload, clock: Clock, *, present: str, reserve_bytes: int
    ) -> None:
        self._disk = disk
        self._health = health
        self._offload = offload
        self._present = present  # a path that is there as long as the directory is
        self._reserve_bytes = reserve_bytes
        self._interval_s = INTERVAL_S
        self.before_room: Callable[[], Awaitable[bool]] = _nothing_to_do
        """What has to be done before clients' writes are accepted; returns whether it is done."""
        self.on_offline: Callable[[], None] = lambda: None
        """Called when the directory goes offline, on any thread."""
        self._log = HealthLog(health, clock)
        health.listener = self._note_refusal

    def _note_refusal(self, refusal: StorageError) -> None:
        self._log.note(refusal)
        if self._health.offline_reason is not None:
            self.on_offline()

    async def run(self) -> None:
        """Check until cancelled, or until the directory is gone."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.look()

    async def look(self) -> None:
        """Look once."""
        await self._note(*await self._offload.run(self._measure))

    async def look_now(self) -> None:
        """Check once, without a thread: for a node that starts, and serves no clients yet."""
        await self._note(*self._measure())

    async def _note(self, is_present: bool, free_bytes: int | None) -> None:
        if not is_present:
            raise DataDirLost(f"the data directory {self._health.directory} is gone: {self._present} does not exist")
        is_full = free_bytes is not None and free_bytes < self._reserve_bytes
        is_full = is_full or not await self.before_room()
        self._health.note_room(is_full=is_full)
        if not is_full:
            self._log.note_room()
        is_close = free_bytes is not None and free_bytes < 4 * self._reserve_bytes
        self._interval_s = CLOSE_INTERVAL_S if is_close else INTERVAL_S

    def _measure(self) -> tuple[bool, int | None]:
        try:
            is_present = self._disk.exists(self._present)
        except OSError as error:
            self._health.fail(error)
            return True, None
        return is_present, self._disk.free_bytes(self._health.directory) if is_present else None


async def _nothing_to_do() -> bool:
    return True
