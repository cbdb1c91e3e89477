"""What the driver of Raft does on disk: whatever a step asks for is done before anybody hears of it.

A disk without room is waited for, because Raft cannot take a step back; whoever has to know hears of it. A disk that
fails is a `StorageError`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from barnabas.core.errors import StorageExhausted
from barnabas.core.raft.log_view import LogView, SnapshotId
from barnabas.core.raft.output import (
    AppendControl,
    AppendFetched,
    FinishSnapshot,
    Operation,
    QuorumState,
    ResetToSnapshot,
    Truncate,
    WriteSnapshotPart,
)
from barnabas.core.records.batch import Buffer
from barnabas.runtime.clock import Clock
from barnabas.runtime.offload import Offload
from barnabas.runtime.raft_driver.ports import LogFollower
from barnabas.storage.metadata_snapshot import SnapshotContents
from barnabas.storage.quorum_log import QuorumLog
from barnabas.storage.unsynced import FlushPlan

RETRY_S: Final = 0.1


class Flushed(NamedTuple):
    """A sync that ran, up to where and to the record of which epoch. Without a plan somebody else had synced all."""

    plan: FlushPlan | None
    end_offset: int
    epoch: int | None


class DiskWork:
    """The log of one node, and what is done to it."""

    def __init__(self, log: QuorumLog, follower: LogFollower, *, offload: Offload, clock: Clock) -> None:
        self.log = log
        self._follower = follower
        self._offload = offload
        self._clock = clock
        self._received: dict[SnapshotId, SnapshotContents] = {}
        self.no_room: StorageExhausted | None = None
        """Why Raft waits, if it does."""
        self.on_no_room: Callable[[StorageExhausted], None] = lambda _refusal: None

    async def persist(self, state: QuorumState) -> None:
        """Make the quorum-state durable."""
        await self._insist(lambda: self._offload.run(lambda: self.log.write_state(state)))

    async def operate(self, operation: Operation, data: Buffer) -> None:
        """Do one operation; `data` is what came with the answer that it is about."""
        if isinstance(operation, AppendControl):
            await self._append_control(operation)
        elif isinstance(operation, AppendFetched):
            await self._insist(lambda: _at_once(self.log.append_fetched, operation, data))
        elif isinstance(operation, Truncate):
            await self._insist(lambda: _at_once(self.log.truncate, operation.end_offset))
        elif isinstance(operation, WriteSnapshotPart):
            snapshot, position = operation.snapshot, operation.position
            await self._insist(
                lambda: self._offload.run(lambda: self.log.snapshots.write_piece(snapshot, position, data))
            )
        else:
            assert isinstance(operation, ResetToSnapshot), "a snapshot is finished beside the line"
            await self._insist(lambda: _at_once(self.log.take_snapshot, operation.snapshot))
            self._follower.begin_anew(operation.snapshot, self._received.pop(operation.snapshot, None))
            self._received.clear()

    async def _append_control(self, operation: AppendControl) -> None:
        def append() -> None:
            self.log.append_control(operation, now_ms=self._clock.now_ms())

        await self._insist(lambda: _at_once(append))
        self._follower.note_control(operation.base_offset, self.log.end_offset, operation.epoch)

    async def _insist(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do what Raft cannot go on without, however long there may be no room for it."""
        while True:
            try:
                with self.log.health.guarded():
                    await work()
            except StorageExhausted as refusal:
                self.no_room = refusal
                self.on_no_room(refusal)
            else:
                self.no_room = None
                return
            await asyncio.sleep(RETRY_S)

    async def flush(self, view: LogView) -> Flushed:
        """Sync what is appended, however long there may be no room or no descriptor for that; then `end_flush`."""
        while True:
            try:
                with self.log.health.guarded():
                    plan = self.log.begin_flush()
                    end_offset = self.log.flushed_offset if plan is None else plan.end_offset
                    flushed = Flushed(plan, end_offset, view.epoch_at(end_offset - 1))
                    if plan is not None:
                        await self._offload.run(plan.run)
                    return flushed
            except StorageExhausted:
                await asyncio.sleep(RETRY_S)

    def end_flush(self, flushed: Flushed) -> bool:
        """Note a sync that ran; whether it tells of what is in the log now, and no truncation came in between."""
        if flushed.plan is not None:
            self.log.end_flush(flushed.plan)
        return self.log.flushed_offset >= flushed.end_offset

    async def finish_snapshot(self, operation: FinishSnapshot) -> SnapshotContents:
        """Check a snapshot that was received; `CorruptLog` or an OSError when it is of no use."""
        contents = await self._offload.run(lambda: self.log.check_received(operation.snapshot))
        self._received[operation.snapshot] = contents
        return contents


async def _at_once(function: Callable[..., None], *arguments: Any) -> None:
    function(*arguments)
