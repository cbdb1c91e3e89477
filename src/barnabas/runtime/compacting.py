"""Compaction of the logs of a node: picks the log that needs it most, and compacts it.

One log at a time, so of the threads of the node one at most is busy with it. The reading and writing is done there;
planning, and putting the cleaned segments in place, on the loop. The latter syncs a few small files and the
directory of the log, a dozen syncs for each log compacted: readers and appends must not come in between.

A log that cannot be compacted, because it is damaged or has a batch with more keys than the memory set aside for them,
is left alone until the node starts again; the others go on.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.core.errors import BarnabasError, CorruptLog, StorageError
from barnabas.runtime.clock import Clock
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.logs import Logs
from barnabas.runtime.offload import Offload
from barnabas.storage.log import Log

if TYPE_CHECKING:
    from barnabas.storage.compaction import CompactionPlan

log = get_logger("barnabas.compaction", is_limited=False)


class Stopped(Exception):
    """The node stops: the compaction in progress is abandoned."""


class Compacting:
    """Compacts one log after another. One task owns it; `stop` may be called from any."""

    def __init__(self, logs: Logs, offload: Offload, clock: Clock, *, hash_key: bytes) -> None:
        self._logs = logs
        self._offload = offload
        self._clock = clock
        self._hash_key = hash_key
        self._is_stopped = False
        self._left_alone: dict[Log, None] = {}

    @property
    def uncleanable(self) -> int:
        """How many logs are not compacted."""
        return len(self._left_alone)

    def stop(self) -> None:
        """Abandon the compaction in progress, at the next batch."""
        self._is_stopped = True

    async def compact_one(self) -> bool:
        """Compact the log that is most due; False when none is, or the log changed under the work."""
        async with self._logs.rewriting:
            for each in self._by_need():
                plan = self._plan(each)
                if plan is not None:
                    return await self._carry_out(each, plan)
        return False

    def note_mended(self, each: Log) -> None:
        """A damaged log was repaired: it is compacted again."""
        self._left_alone.pop(each, None)

    def _by_need(self) -> list[Log]:
        """The compacted logs, the dirtiest first."""
        partitions, now_ms = self._logs.partitions, self._clock.now_ms()
        self._left_alone = {each: None for each in self._left_alone if each in partitions}
        compacted = [each for each in partitions if each.config.is_compacted and each not in self._left_alone]
        if not compacted:
            return []
        from barnabas.storage.compaction import cleanable  # noqa: PLC0415 - a node is ready sooner without

        ratios = {}
        for each in compacted:
            try:
                found = cleanable(each, now_ms=now_ms, high_watermark=partitions[each].high_watermark)
            except CorruptLog as error:
                self._leave_alone(each, error)
            else:
                ratios[each] = found.dirty_ratio
        return sorted(ratios, key=lambda each: ratios[each], reverse=True)

    def _plan(self, each: Log) -> CompactionPlan | None:
        from barnabas.storage.compaction import plan_compaction  # noqa: PLC0415 - as above

        try:
            return plan_compaction(
                each,
                now_ms=self._clock.now_ms(),
                hash_key=self._hash_key,
                high_watermark=self._logs.partitions[each].high_watermark,
            )
        except BarnabasError as error:
            if isinstance(error, StorageError) and not isinstance(error, CorruptLog):
                raise  # of the directory, not of this log
            self._leave_alone(each, error)
            return None
        finally:
            if each.has_closed_files:  # planning closed the active segment, which nobody appended to
                self._logs.flusher.note_append(each)

    async def _carry_out(self, each: Log, plan: CompactionPlan) -> bool:
        from barnabas.storage.compaction import LogChanged, apply, discard, is_current  # noqa: PLC0415 - as above

        try:
            result = await self._offload.run(lambda: plan.run(self._pace))
        except (LogChanged, Stopped):
            return False
        except OSError as error:
            raise each.context.health.fail(error) from error
        except BarnabasError as error:
            if each in self._logs.partitions and is_current(each, plan):
                self._leave_alone(each, error)
            return True
        if each not in self._logs.partitions:
            with suppress(FileNotFoundError):  # its directory is being removed
                discard(result)
            return False
        freed_bytes = result.freed_bytes
        if not apply(each, result):
            return False
        log.info("compacted %s up to offset %d: freed %d bytes", each.partition, result.cleaned_to, freed_bytes)
        return True

    def _pace(self, _size: int) -> None:
        if self._is_stopped:
            raise Stopped

    def _leave_alone(self, each: Log, error: BarnabasError) -> None:
        self._left_alone[each] = None
        log.error("%s is no longer compacted: %s", each.partition, error)
