"""Group commit: a few lanes make the appends of many logs durable, and wake the waiters.

While a log is being synced its new appends gather for its next sync, so the busier it is the more appends one sync
covers. Each lane is a thread at a time and takes its share of the logs that are due: a log that is written to without
end keeps one lane busy, and the others do not wait for it. The file system commits together what lanes sync at the same
time.

With `flush.policy=fsync` every append is flushed as soon as a lane is free. With ``os`` a log is flushed after
`flush.messages` records, when one has waited for `flush.ms`, and when a segment is closed.

A failed sync takes the data directory offline and fails every waiter of its logs. It is not retried. If nothing was
synced because the process has run out of descriptors, or there is no space, it is, and waiters wait on.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from barnabas.core.errors import BarnabasError, StorageExhausted
from barnabas.runtime.histogram import Histogram
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.offload import Offload
from barnabas.storage.config import FOREVER
from barnabas.storage.log import Log
from barnabas.storage.unsynced import FlushPlan

PARALLEL_SYNCS: Final = 4
GATHER_S: Final = 0.002  # that a lane waits for the others, at most
RETRY_S: Final = 0.1
LOGS_PER_SYNC: Final = 64  # of one lane in one go: what is done for each before and after holds the loop


class _Waiter(NamedTuple):
    end_offset: int
    future: asyncio.Future[None]


class FlushListener(Protocol):
    """Is called for every log whose durable end may have moved, or whose disk failed."""

    def note_flushed(self, log: Log) -> None: ...

    def note_failed(self, log: Log, error: BarnabasError) -> None: ...


class Flusher:
    """Flushes logs; `run` is a task of the node."""

    def __init__(
        self, offload: Offload, *, parallel: int = PARALLEL_SYNCS, listener: FlushListener | None = None
    ) -> None:
        self._offload = offload
        self._listener = listener
        self._parallel = parallel
        self._due: dict[Log, None] = {}  # a set in order
        self._syncing: dict[Log, bool] = {}  # the logs in lanes, and whether they are due again
        self._idle: deque[asyncio.Future[None]] = deque()  # lanes that have nothing to do
        self._gathering: asyncio.TimerHandle | None = None  # ends the wait of the lanes for one another
        self._waiters: dict[Log, list[_Waiter]] = {}
        self._timers: dict[Log, asyncio.TimerHandle] = {}
        self.goes = 0
        """How often a lane has synced, one log or more."""
        self.syncs = 0
        """How many files were synced."""
        self.seconds = Histogram()
        """How long each go took."""

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.counter("flushes_total", "Syncs, each of one or more logs.", lambda: self.goes)
        metrics.counter("file_syncs_total", "Files that were synced.", lambda: self.syncs)
        metrics.histogram("flush_seconds", "How long a sync of one or more logs took.", lambda: self.seconds)
        metrics.gauge("logs_unflushed", "Logs that wait for a sync or are being synced.", self._unflushed)

    def _unflushed(self) -> int:
        return len(self._due) + len(self._syncing)

    def note_append(self, log: Log) -> None:
        """`log` has new records: flush them when its policy says so."""
        if log.is_flush_due():
            self.flush_soon(log)
        elif log.flush_ms != FOREVER and log not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[log] = loop.call_later(log.flush_ms / 1000, self.flush_soon, log)

    def flush_soon(self, log: Log) -> None:
        """Flush `log` when a lane is free, whatever its policy."""
        timer = self._timers.pop(log, None) if self._timers else None
        if timer is not None:
            timer.cancel()
        if log in self._syncing:
            self._syncing[log] = True
            return
        self._due[log] = None
        if self._idle and self._gathering is None:
            self._idle.popleft().set_result(None)

    async def wait_flushed(self, log: Log, end_offset: int) -> None:
        """Return when everything below `end_offset` is durable; raises when its directory went offline.

        Use your own deadline: a timeout means unknown, not unwritten.
        """
        log.context.health.check()
        if log.flushed_offset >= end_offset:
            return
        waiter = _Waiter(end_offset, asyncio.get_running_loop().create_future())
        self._waiters.setdefault(log, []).append(waiter)
        self.flush_soon(log)
        await waiter.future

    def forget(self, log: Log, error: BarnabasError) -> None:
        """`log` was truncated or closed: fail its waiters with `error`."""
        self._due.pop(log, None)
        timer = self._timers.pop(log, None)
        if timer is not None:
            timer.cancel()
        for waiter in self._waiters.pop(log, ()):
            if not waiter.future.done():
                waiter.future.set_exception(error)
        if self._listener is not None:
            self._listener.note_failed(log, error)

    async def run(self) -> None:
        """Flush until cancelled."""
        try:
            async with asyncio.TaskGroup() as lanes:
                for _ in range(self._parallel):
                    lanes.create_task(self._run_lane())
        finally:
            self._idle.clear()
            self._stop_gathering()

    async def _run_lane(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._due or self._gathering is not None:
                idle = loop.create_future()
                self._idle.append(idle)
                await idle
            plans = self._plan()
            if plans:
                begun = time.perf_counter()
                errors = await self._offload.run(_syncing([plan for _, plan in plans]))
                self.seconds.observe(time.perf_counter() - begun)
                self.goes += 1
                for (log, plan), error in zip(plans, errors, strict=True):
                    self._end(log, plan, error)
                if not self._syncing:
                    self._stop_gathering()
                elif self._gathering is None:
                    self._gathering = loop.call_later(GATHER_S, self._stop_gathering)

    def _stop_gathering(self) -> None:
        """Send the lanes to the logs that have become due meanwhile."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        for _ in range(min(len(self._due), len(self._idle))):
            self._idle.popleft().set_result(None)

    def _plan(self) -> list[tuple[Log, FlushPlan]]:
        """What a lane flushes next: its share of the logs that are due, those that have waited longest."""
        share = -(-(len(self._due) + len(self._syncing)) // self._parallel)
        plans: list[tuple[Log, FlushPlan]] = []
        for log in list(itertools.islice(self._due, min(share, LOGS_PER_SYNC))):
            del self._due[log]
            if log.is_deleted:
                continue  # since it was put off, or since its turn was due
            try:
                plan = log.begin_flush()
            except StorageExhausted:
                self._flush_later(log)
                continue
            except BarnabasError as error:
                self.forget(log, error)
                continue
            if plan is None:
                self._notify(log)
            else:
                self._syncing[log] = False
                plans.append((log, plan))
        return plans

    def _end(self, log: Log, plan: FlushPlan, error: OSError | None) -> None:
        """A log was synced, or could not be."""
        is_due_again = self._syncing.pop(log)
        if isinstance(error, FileNotFoundError) and log.is_deleted:
            return
        if error is not None:
            refusal = log.context.health.fail(error)
            if isinstance(refusal, StorageExhausted):
                self._flush_later(log)
            else:
                self.forget(log, refusal)
            return
        self.syncs += len(plan.files)
        log.end_flush(plan)
        self._notify(log)
        if is_due_again or log in self._waiters:  # appended to, or cut, while the sync ran
            self.flush_soon(log)

    def _flush_later(self, log: Log) -> None:
        if not log.is_deleted and log not in self._timers:
            self._timers[log] = asyncio.get_running_loop().call_later(RETRY_S, self.flush_soon, log)

    def _notify(self, log: Log) -> None:
        waiting = []
        for waiter in self._waiters.pop(log, ()):
            if waiter.end_offset > log.flushed_offset:
                waiting.append(waiter)
            elif not waiter.future.done():
                waiter.future.set_result(None)
        if waiting:
            self._waiters[log] = waiting
        if self._listener is not None:
            self._listener.note_flushed(log)


def _syncing(plans: list[FlushPlan]) -> Callable[[], list[OSError | None]]:
    def sync_all() -> list[OSError | None]:
        errors: list[OSError | None] = []
        synced: set[str] = set()  # of new partitions the data directory is synced once for all
        for plan in plans:
            try:
                plan.run(synced)
            except OSError as error:
                errors.append(error)
            else:
                errors.append(None)
        return errors

    return sync_all
