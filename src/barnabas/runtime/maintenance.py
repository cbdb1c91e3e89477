"""The regular maintenance of a node's logs: retention, checkpoints, and expiring old producers.

Owns the tasks that do so, including those of compaction (`runtime.compacting`) and scrubbing (`runtime.scrubbing`).
Handles the logs a few at a time and yields to the loop in between. Whatever syncs or removes files runs on a thread,
and while it does a log may grow, be deleted or be reconfigured: its state is checked again after every wait.

An active segment is not closed for its age alone: as in Kafka the first append after `segment.ms` does that, and
retention does it when all of the log has expired.

A directory that goes offline ends all of it. What cannot be done for lack of space or of descriptors is left for the
next time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from barnabas.core.errors import CorruptLog, StorageError, StorageExhausted
from barnabas.runtime.clock import Clock
from barnabas.runtime.compacting import Compacting
from barnabas.runtime.dice import Dice
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.logs import Logs
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.offload import Offload
from barnabas.runtime.replica import Replica
from barnabas.runtime.scrubbing import Scrubbing
from barnabas.storage.log import Log
from barnabas.storage.retention import Removal, begin_retention, close_expired, is_all_due
from barnabas.storage.segment import Segment

if TYPE_CHECKING:
    from barnabas.storage.mending import Gap

log = get_logger("barnabas.maintenance", is_limited=False)

LOGS_PER_BREATH: Final = 50
SCRUB_PAUSE_MS: Final = 60_000
MIN_SCRUB_PAUSE_MS: Final = 10
PRODUCER_CHECK_INTERVAL_MS: Final = 600_000  # Kafka's producer.id.expiration.check.interval.ms


class MaintenanceConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of maintenance; the broker's configuration documents them."""

    retention_check_interval_ms: int = 300_000
    checkpoint_interval_ms: int = 60_000
    cleaner_enable: bool = True
    cleaner_backoff_ms: int = 15_000
    producer_id_expiration_ms: int = 86_400_000
    scrub_bytes_per_second: int = 4 * 1024 * 1024
    scrub_interval_ms: int = 86_400_000


Interval = Callable[[MaintenanceConfig], int]


class Maintenance:
    """Maintains the logs of a data directory; `run` is a task of the node."""

    def __init__(self, logs: Logs, offload: Offload, clock: Clock, dice: Dice, config: MaintenanceConfig) -> None:
        self._logs = logs
        self._data_dir = logs.data_dir
        self._offload = offload
        self._clock = clock
        self._config = config
        self._is_stopped = False
        self._woken = asyncio.Event()  # by a stop or by other settings; each has one of its own
        self._compacting = Compacting(logs, offload, clock, hash_key=dice.token_bytes(16))
        self._scrubbing = Scrubbing(logs.data_dir, offload, logs.note_damage)
        self._unretained: dict[Log, None] = {}
        self._removals: list[tuple[Log, Removal]] = []  # what is cut off, and its files could not be removed

    @property
    def damaged(self) -> int:
        """How many damaged places were found in the logs."""
        return self._scrubbing.damaged

    def note_found(self, each: Log, segment: Segment, gap: Gap) -> None:
        """A reader came upon damage, and it was found."""
        self._scrubbing.note_found(each, segment, gap.position, gap.first_offset, "a reader came upon it")

    def note_mended(self, each: Log, segment: Segment) -> None:
        """A segment was repaired: the log is maintained as any other again."""
        self._scrubbing.note_mended(segment)
        self._compacting.note_mended(each)
        self._unretained.pop(each, None)

    @property
    def uncleanable(self) -> int:
        """How many partitions are no longer compacted because compaction failed."""
        return self._compacting.uncleanable

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.counter("damaged_places_total", "Damaged places found in the logs.", lambda: self.damaged)
        metrics.gauge(
            "uncleanable_partitions",
            "Partitions that are no longer compacted because compaction failed.",
            lambda: self.uncleanable,
        )

    def stop(self) -> None:
        """Stop `run`; a compaction in progress is abandoned."""
        self._is_stopped = True
        self._woken.set()
        self._compacting.stop()

    def configure(self, config: MaintenanceConfig) -> None:
        """Apply these settings from now on, also to pauses that have begun.

        Whether there is compaction at all is decided when `run` begins.
        """
        self._config = config
        woken, self._woken = self._woken, asyncio.Event()
        woken.set()

    async def run(self) -> None:
        """Maintain the logs until `stop`, or until their directory goes offline."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._every(lambda config: config.retention_check_interval_ms, self.apply_retention))
                tasks.create_task(self._every(lambda config: config.checkpoint_interval_ms, self.checkpoint))
                tasks.create_task(self._every(_expiry_interval_ms, self.expire_producers))
                tasks.create_task(self._scrub())
                if self._config.cleaner_enable:
                    tasks.create_task(self._compact())
        except* StorageError as errors:
            # Whoever took the directory offline has said so, as an error.
            log.info("maintenance of the logs in %s has stopped: %s", self._data_dir.path, errors.exceptions[0])

    async def _every(self, interval_ms: Interval, work: Callable[[], Awaitable[None]]) -> None:
        while not await self._rests(interval_ms):
            try:
                await work()
            except StorageExhausted as refusal:
                log.warning("maintenance of the logs is postponed: %s", refusal)

    async def _compact(self) -> None:
        while not self._is_stopped:
            try:
                rests = not await self._compacting.compact_one()
            except StorageExhausted as refusal:
                log.warning("compaction is postponed: %s", refusal)
                rests = True
            if rests and await self._rests(lambda config: config.cleaner_backoff_ms):
                return

    async def _scrub(self) -> None:
        """Read through all logs, and pause until it is time to do so again."""
        rests_ms = SCRUB_PAUSE_MS  # a node that has just started has other things to read
        while not await self._rests(lambda _: rests_ms):  # noqa: B023 - called before it changes
            began_ms = saved_ms = self._clock.now_ms()
            while (work := await self._scrub_piece()) is not None:
                if await self._rests(lambda config: _pace_ms(config, work)):
                    return
                if self._clock.now_ms() - saved_ms >= SCRUB_PAUSE_MS:
                    saved_ms = self._clock.now_ms()
                    await self._save_scrubbed()
            await self._save_scrubbed()
            rests_ms = max(self._config.scrub_interval_ms - (self._clock.now_ms() - began_ms), SCRUB_PAUSE_MS)

    async def _scrub_piece(self) -> int | None:
        try:
            return 0 if self._config.scrub_bytes_per_second == 0 else await self._scrubbing.check_piece()
        except StorageExhausted:
            return None  # the rest is left to the next round

    async def _save_scrubbed(self) -> None:
        with suppress(StorageExhausted):  # a round over the same logs does no harm
            await self._scrubbing.save()

    async def _rests(self, interval_ms: Interval) -> bool:
        """Pause for as long as the settings say; True if everything is to stop."""
        began_s = asyncio.get_running_loop().time()
        try:
            while not self._is_stopped:
                async with asyncio.timeout_at(began_s + interval_ms(self._config) / 1000):
                    await self._woken.wait()
        except TimeoutError:
            return self._is_stopped
        return True

    # One round of each.

    async def apply_retention(self) -> None:
        """Apply retention by time and size to every log."""
        self._unretained = {each: None for each in self._unretained if each in self._logs.partitions}
        while self._removals:
            await self._remove_files(*self._removals[0])
            del self._removals[0]
        async for each, partition in self._each_partition():
            await self._retain(each, partition)

    async def _retain(self, each: Log, partition: Replica) -> None:
        try:
            await self._remove_expired(each, partition)
        except CorruptLog as error:
            # Of this log alone: the directory is in order, and the other logs must not fill it.
            if each not in self._unretained:
                self._unretained[each] = None
                log.error("retention no longer applies to %s: %s", each.partition, error)

    async def _remove_expired(self, each: Log, partition: Replica) -> None:
        if is_all_due(each, now_ms=self._clock.now_ms(), end_offset=partition.high_watermark):
            await self._flush(each)  # a log that was never flushed would be now, on the loop, before it is closed
            if each not in self._logs.partitions:
                return
        if not close_expired(each, now_ms=self._clock.now_ms(), end_offset=partition.high_watermark):
            return
        await self._flush(each)
        if each not in self._logs.partitions:
            return
        removal = begin_retention(each, now_ms=self._clock.now_ms(), end_offset=partition.high_watermark)
        if removal is None:
            return
        await self._offload.run(self._data_dir.while_present(each, removal.note_start))
        if each in self._logs.partitions:
            retained = removal.cut()
            self._logs.note_start(each)
            log.info(
                "%s starts at %d: %d segments expired", each.partition, retained.log_start_offset, retained.segments
            )
            try:
                await self._remove_files(each, removal)
            except StorageExhausted:
                self._removals.append((each, removal))  # nobody else knows of those files until the next start
                raise

    async def _remove_files(self, each: Log, removal: Removal) -> None:
        await self._offload.run(self._data_dir.while_present(each, removal.remove_files))

    async def _flush(self, each: Log) -> None:
        """Flush a log on a thread, so that the next step does not have to wait for that."""
        plan = each.begin_flush()
        if plan is not None:
            await self._offload.run(self._data_dir.while_present(each, plan.run))
            if each in self._logs.partitions:
                each.end_flush(plan)
                self._logs.note_flushed(each)

    async def checkpoint(self) -> None:
        """Write the recovery points of the logs, including the metadata log."""
        logs = list(self._data_dir.logs.values())
        for first in range(0, len(logs), LOGS_PER_BREATH):
            present = [each for each in logs[first : first + LOGS_PER_BREATH] if self._is_present(each)]
            writes = [write for each in present if (write := self._data_dir.prepare_checkpoint(each)) is not None]
            await (self._offload.run(_in_turn(writes)) if writes else asyncio.sleep(0))
        await self._offload.run(self._data_dir.begin_checkpoint())

    def _is_present(self, each: Log) -> bool:
        return self._data_dir.logs.get(each.partition) is each

    async def expire_producers(self) -> None:
        """Expire producers that have written nothing for long."""
        async for each, _ in self._each_partition():
            each.producers.expire(now_ms=self._clock.now_ms(), idle_ms=self._config.producer_id_expiration_ms)

    async def _each_partition(self) -> AsyncIterator[tuple[Log, Replica]]:
        """Every partition that has a log, and still has it when its turn comes."""
        partitions = self._logs.partitions
        for number, each in enumerate(list(partitions), start=1):
            partition = partitions.get(each)
            if partition is not None:
                yield each, partition
            if number % LOGS_PER_BREATH == 0:
                await asyncio.sleep(0)


def _expiry_interval_ms(config: MaintenanceConfig) -> int:
    return min(PRODUCER_CHECK_INTERVAL_MS, config.producer_id_expiration_ms)


def _pace_ms(config: MaintenanceConfig, work: int) -> int:
    """How long to pause after a piece that was so much work, in bytes."""
    rate = config.scrub_bytes_per_second
    return SCRUB_PAUSE_MS if rate == 0 else max(work * 1000 // rate, MIN_SCRUB_PAUSE_MS)


def _in_turn(writes: list[Callable[[], None]]) -> Callable[[], None]:
    def write_all() -> None:
        for write in writes:
            write()

    return write_all
