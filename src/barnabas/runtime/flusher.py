"""Group commit: one task makes the appends of many logs durable, and wakes whoever waits for that.

While a round of syncs runs, new appends gather for the next one, so the busier the broker the more appends one sync
covers. The files of a round are synced by a few threads at once: the file system then commits them together.

With `flush.policy=fsync` every append is flushed in the next round. With ``os`` a log is flushed after
`flush.messages` records, when one has waited for `flush.ms`, and when a segment is closed.

A failed sync takes the data directory offline and fails every waiter of its logs. It is not tried again. Where nothing
was synced because the process has run out of descriptors, or there is no room, waiters wait on and it is.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from barnabas.core.errors import BarnabasError, StorageExhausted
from barnabas.runtime.offload import Offload
from barnabas.runtime.turns import pieces
from barnabas.storage.config import FOREVER, FlushPolicy
from barnabas.storage.log import Log
from barnabas.storage.unsynced import FlushPlan

PARALLEL_SYNCS: Final = 4
RETRY_S: Final = 0.1
LOGS_PER_TURN: Final = 256


class _Waiter(NamedTuple):
    end_offset: int
    future: asyncio.Future[None]


class FlushListener(Protocol):
    """Hears of every log whose durable end may have moved, or whose disk failed."""

    def note_flushed(self, log: Log) -> None: ...

    def note_failed(self, log: Log, error: BarnabasError) -> None: ...


class Flusher:
    """Flushes logs in rounds; `run` is a task of the node."""

    def __init__(
        self, offload: Offload, *, parallel: int = PARALLEL_SYNCS, listener: FlushListener | None = None
    ) -> None:
        self._offload = offload
        self._listener = listener
        self._parallel = parallel
        self._due: dict[Log, None] = {}  # a set in order
        self._wake = asyncio.Event()
        self._waiters: dict[Log, list[_Waiter]] = {}
        self._timers: dict[Log, asyncio.TimerHandle] = {}
        self.rounds = 0
        self.syncs = 0

    def note_append(self, log: Log) -> None:
        """`log` has new records: see to it that they are flushed when its policy says so."""
        config = log.config
        if (
            config.flush_policy is FlushPolicy.FSYNC
            or log.has_closed_files
            or log.end_offset - log.flushed_offset >= config.flush_messages
        ):
            self.flush_soon(log)
        elif config.flush_ms != FOREVER and log not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[log] = loop.call_later(config.flush_ms / 1000, self.flush_soon, log)

    def flush_soon(self, log: Log) -> None:
        """Flush `log` in the next round whatever its policy."""
        timer = self._timers.pop(log, None)
        if timer is not None:
            timer.cancel()
        self._due[log] = None
        self._wake.set()

    async def wait_flushed(self, log: Log, end_offset: int) -> None:
        """Return when everything below `end_offset` is durable; raises when its directory went offline.

        Give up on it with a deadline of your own: a timeout means unknown, not unwritten.
        """
        log.context.health.check()
        if log.flushed_offset >= end_offset:
            return
        waiter = _Waiter(end_offset, asyncio.get_running_loop().create_future())
        self._waiters.setdefault(log, []).append(waiter)
        self.flush_soon(log)
        await waiter.future

    def forget(self, log: Log, error: BarnabasError) -> None:
        """`log` was cut or closed: whoever waits hears `error`."""
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
        """Flush in rounds until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            logs, self._due = list(self._due), {}
            async for some in pieces(logs, per_turn=LOGS_PER_TURN):
                await self._flush(some)
            self.rounds += 1

    async def _flush(self, logs: Sequence[Log]) -> None:
        plans: list[tuple[Log, FlushPlan]] = []
        for log in logs:
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
                plans.append((log, plan))
        if len(plans) == 1:
            await self._run_lane(plans)  # here: a task for it would begin a turn of the loop later
            return
        lanes = [plans[lane :: self._parallel] for lane in range(min(self._parallel, len(plans)))]
        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(self._run_lane(lane))

    async def _run_lane(self, lane: list[tuple[Log, FlushPlan]]) -> None:
        errors = await self._offload.run(_syncing([plan for _, plan in lane]))
        for (log, plan), error in zip(lane, errors, strict=True):
            if isinstance(error, FileNotFoundError) and log.is_deleted:
                continue
            if error is not None:
                refusal = log.context.health.fail(error)
                if isinstance(refusal, StorageExhausted):
                    self._flush_later(log)
                else:
                    self.forget(log, refusal)
                continue
            self.syncs += len(plan.files)
            log.end_flush(plan)
            self._notify(log)
            if log in self._waiters:
                self.flush_soon(log)  # appended to, or cut, while the sync ran

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
        for plan in plans:
            try:
                plan.run()
            except OSError as error:
                errors.append(error)
            else:
                errors.append(None)
        return errors

    return sync_all
