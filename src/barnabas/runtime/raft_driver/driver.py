"""One task that drives one node of the quorum; see the package."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from barnabas.core.errors import (
    BarnabasError,
    ControllerBusy,
    CorruptLog,
    NotController,
    StorageError,
    StorageExhausted,
)
from barnabas.core.raft.messages import FetchSnapshotRequest, Request
from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.output import FinishSnapshot, Operation, OutgoingRequest, Output
from barnabas.core.raft.state import Leader
from barnabas.core.records.batch import Buffer
from barnabas.runtime.clock import Clock
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.offload import Offload
from barnabas.runtime.raft_driver.disk_work import DiskWork, Flushed
from barnabas.runtime.raft_driver.exchange import Exchange, end, refuse
from barnabas.runtime.raft_driver.ports import Answer, LogFollower, Proposal, QuorumPeers
from barnabas.runtime.raft_driver.strangers import tell_stranger
from barnabas.storage.quorum_log import QuorumLog

log = get_logger("barnabas.quorum")

CLOSE_GRACE_S: Final = 1.0
MAX_WAITING: Final = 1000
"""Requests of others that wait for their step; one more is refused."""
_STEPS_IN_A_ROW: Final = 16  # before everybody else has a turn
_TURNS_BEFORE_SYNC: Final = 3


class _Work(NamedTuple):
    """One step that waits in line; `data` is what came with an answer, `refuse` hears if the step is refused."""

    step: Callable[[int], Output]
    data: Buffer = b""
    refuse: Callable[[BarnabasError], None] | None = None
    proposal: Proposal | None = None


class RaftDriver:
    """Drives one node; `run` is its task."""

    def __init__(
        self,
        node: RaftNode,
        quorum_log: QuorumLog,
        follower: LogFollower,
        peers: QuorumPeers,
        *,
        offload: Offload,
        clock: Clock,
    ) -> None:
        self._node = node
        self._log = quorum_log
        self._follower = follower
        self._clock = clock
        self._exchange = Exchange(quorum_log, peers, offload=offload, begin=self._begin)
        self._disk = DiskWork(quorum_log, follower, offload=offload, clock=clock)
        self._disk.on_no_room = self._hold_up
        self._loop: asyncio.AbstractEventLoop | None = None
        self._line: deque[_Work] = deque()
        self._wakeup: asyncio.Future[None] | None = None
        self._children: dict[asyncio.Task[None], None] = {}
        self._is_flushing = self._is_closed = False
        self._waiting = self._steps = 0
        self._leading: int | None = None
        self._failure: StorageError | None = None
        self._is_started = asyncio.Event()
        self._is_over = asyncio.Event()

    @property
    def node(self) -> RaftNode:
        """The state of Raft: to look at."""
        return self._node

    @property
    def leading_epoch(self) -> int | None:
        """The epoch that this node leads, None if it leads none."""
        return self._node.quorum.epoch if isinstance(self._node.role, Leader) else None

    @property
    def no_room(self) -> StorageExhausted | None:
        """Why the next step waits, if it waits for room on the disk."""
        return self._disk.no_room

    @property
    def time_ms(self) -> int:
        """The time that Raft is told. A leader that stood still must know it at once, not in the loop's next turn."""
        return 0 if self._loop is None else self._clock.elapsed_ms()

    def use_peers(self, peers: QuorumPeers) -> None:
        """Reach the others so; before `run`."""
        self._exchange.peers = peers

    # What others ask

    async def run(self) -> None:
        """Take part in the quorum until `close`, or until the disk fails."""
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                try:
                    await self._take(_Work(self._node.start))
                    self._is_started.set()
                    while not self._is_closed or self._line:
                        await self._take(await self._next())
                except StorageError as error:
                    self._fail(error)
                await self._end_children()
        finally:
            if not self._is_closed and self._failure is None:
                self._fail(StorageError("the task of the quorum has ended"))
            self._is_started.set()
            self._is_over.set()

    async def wait_started(self) -> None:
        """Until the first step is done, or cannot be done for now: there is no room, or the disk has failed."""
        await self._is_started.wait()

    async def handle(self, request: Request) -> Answer:
        """Answer a request of another node."""
        self._check()
        if self._waiting >= MAX_WAITING:
            raise ControllerBusy(f"{self._waiting} requests of the quorum are waiting already; try again")
        token: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def receive(now_ms: int) -> Output:
            size = self._log.snapshots.size(request.snapshot) if isinstance(request, FetchSnapshotRequest) else 0
            return self._node.receive(request, token, now_ms=now_ms, snapshot_size_bytes=size)

        self._waiting += 1
        try:
            self._put(_Work(receive, refuse=lambda refusal: refuse(token, refusal)))
            return await token
        finally:
            self._waiting -= 1

    def propose(self, proposal: Proposal) -> None:
        """Have batches appended under the epoch that this node leads; `proposal.appended` says when, or why not."""
        self._check()
        if self._disk.no_room is not None:
            raise self._disk.no_room

        def append(now_ms: int) -> Output:
            self._node.check_leads(proposal.epoch)
            proposal.base_offset = self._log.end_offset
            end_offset = self._log.append(proposal.data, epoch=proposal.epoch, now_ms=self._clock.now_ms())
            proposal.end_offset = end_offset
            self._follower.note_proposal(proposal)
            if not proposal.appended.done():
                proposal.appended.set_result(None)
            return self._node.appended(end_offset, epoch=proposal.epoch, now_ms=now_ms)

        self._put(_Work(append, refuse=proposal.refuse, proposal=proposal))

    async def change_voters(
        self, change: Callable[[RaftNode, object, int], Output], *, is_awaited: bool = True
    ) -> None:
        """Have the voters changed by `change(node, token, now_ms)`; returns when that is committed, or appended."""
        self._check()
        token: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def step(now_ms: int) -> Output:
            output = change(self._node, token, now_ms)
            if not is_awaited:
                end(token, None)
            return output

        self._put(_Work(step, refuse=lambda refusal: refuse(token, refusal)))
        await token

    async def forget_history(self) -> None:
        """A snapshot was taken: what came before the one before it may go. Returns when it has gone, or cannot."""
        token: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def forget(now_ms: int) -> Output:
            kept, start_offset = self._log.forget_history()
            end(token, None)
            return self._node.snapshots_kept(kept, log_start_offset=start_offset, now_ms=now_ms)

        def refuse(refusal: BarnabasError) -> None:
            log.warning("the metadata log stays as long as it is: %s", refusal)
            end(token, None)

        if self._failure is None and not self._is_closed:
            self._put(_Work(forget, refuse=refuse))
            await token

    async def close(self) -> None:
        """Stop; if this node leads, the others hear of it. Does nothing if `run` has not begun."""
        if self._is_closed or not self._is_started.is_set():
            return
        if self._failure is None:
            self._put(_Work(lambda now_ms: self._node.resign(now_ms=now_ms)))
        self._is_closed = True
        self._wake()
        await self._is_over.wait()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_closed:
            raise NotController("this node is shutting down")

    # The line

    def _put(self, work: _Work) -> None:
        self._line.append(work)
        self._wake()

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def _next(self) -> _Work:
        """What is next in line; a tick of the clock when nothing has come until then."""
        self._steps += 1
        if not self._line and not self._is_flushing and self._has_uncounted:
            await _let_others_join()
        if not self._line or self._steps >= _STEPS_IN_A_ROW:
            self._steps = 0
            self._begin_flush()
            await (asyncio.sleep(0) if self._line else self._wait())
        return self._line.popleft() if self._line else _Work(self._node.tick)

    async def _wait(self) -> None:
        """Until something comes, or Raft has something to do by itself."""
        if self._is_closed:
            return
        loop, deadline_ms = asyncio.get_running_loop(), self._node.deadline_ms
        self._wakeup = loop.create_future()
        # Half a millisecond late: the clock of the loop, in whole milliseconds, must have reached it.
        timer = None if deadline_ms is None else loop.call_at((deadline_ms + 0.5) / 1000, self._wake)
        try:
            await self._wakeup
        finally:
            self._wakeup = None
            if timer is not None:
                timer.cancel()

    async def _take(self, work: _Work) -> None:
        try:
            output = work.step(self.time_ms)
        except BarnabasError as refusal:
            if work.refuse is None:
                raise
            work.refuse(refusal)
            return
        except BaseException:
            self._line.appendleft(work)  # to hear of the end with all others
            raise
        await self._perform(output, work.data)

    async def _perform(self, output: Output, data: Buffer) -> None:
        """Do what a step asks for, in its order."""
        if output.persist is not None:
            await self._disk.persist(output.persist)
        for operation in output.operations:
            await self._operate(operation, data)
        for reply in output.replies:
            self._exchange.reply(reply)
        self._exchange.note_voters(self._node.voters.current)
        for request in output.requests:
            self._begin(self._ask(request))
        for stranger in output.strangers:
            self._begin(tell_stranger(stranger, self._exchange.peers, cluster_id=self._node.cluster_id))
        for note in output.notes:
            log.warning("%s", note)
        if output.high_watermark is not None:
            self._follower.commit_to(output.high_watermark)
        self._note_leading()
        for change in output.changes:
            assert isinstance(change.token, asyncio.Future)
            end(change.token, change.error)

    def _note_leading(self) -> None:
        before, self._leading = self._leading, self.leading_epoch
        if self._leading == before:
            return
        if before is not None:
            self._follower.lead_no_more()
        role = self._node.role
        if isinstance(role, Leader):
            assert self._leading is not None
            log.info("node %d leads the quorum in epoch %d", self._node.quorum.leader_id, self._leading)
            self._follower.lead(self._leading, role.epoch_start_offset)

    # The disk

    async def _operate(self, operation: Operation, data: Buffer) -> None:
        if isinstance(operation, FinishSnapshot):
            self._begin(self._finish_snapshot(operation))
        else:
            await self._disk.operate(operation, data)

    def _hold_up(self, refusal: StorageExhausted) -> None:
        """There is no room to go on: refuse the proposals that wait, too."""
        self._is_started.set()
        waiting = [work for work in self._line if work.proposal is not None]
        for work in waiting:
            self._line.remove(work)
            assert work.proposal is not None
            work.proposal.refuse(refusal)

    @property
    def _has_uncounted(self) -> bool:
        """Whether there are records that Raft does not know to be durable. Rolling and cutting a log sync them, too."""
        return self._node.log.durable_end < self._log.end_offset

    def _begin_flush(self) -> None:
        if not self._is_flushing and self._has_uncounted:
            self._is_flushing = True
            self._begin(self._flush())

    async def _flush(self) -> None:
        step: Callable[[int], Output]
        try:
            flushed = await self._disk.flush(self._node.log)
            step = lambda now_ms: self._end_flush(flushed, now_ms)  # noqa: E731 - either of two
        except StorageError as error:
            failure = error  # outlives the name `error`
            step = lambda _now_ms: _raise(failure)  # noqa: E731
        self._put(_Work(step))

    def _end_flush(self, flushed: Flushed, now_ms: int) -> Output:
        self._is_flushing = False
        if not self._disk.end_flush(flushed) or flushed.epoch is None:
            return self._node.tick(now_ms)
        return self._node.flushed(flushed.end_offset, epoch=flushed.epoch, now_ms=now_ms)

    async def _finish_snapshot(self, operation: FinishSnapshot) -> None:
        snapshot = operation.snapshot
        try:
            contents = await self._disk.finish_snapshot(operation)
        except (CorruptLog, OSError) as error:
            log.warning("a snapshot of the metadata was not received whole: %s", error)
            self._put(_Work(lambda now_ms: self._node.snapshot_failed(snapshot, now_ms=now_ms)))
        else:
            self._put(_Work(lambda now_ms: self._node.snapshot_ready(snapshot, contents.voters, now_ms=now_ms)))

    def _fail(self, error: StorageError) -> None:
        """The disk has failed: take no more part, and say so to all who wait."""
        self._failure = error
        self._leading = None
        self._follower.fail(error)
        while self._line:
            refuse = self._line.popleft().refuse
            if refuse is not None:
                refuse(error)

    # Other nodes

    async def _ask(self, outgoing: OutgoingRequest) -> None:
        to, request_id = outgoing.to, outgoing.request_id
        try:
            answer = await self._exchange.ask(outgoing)
        except BarnabasError as error:
            log.info("node %d does not answer the quorum: %s", to, error)
            self._put(_Work(lambda now_ms: self._node.request_failed(to, request_id, now_ms=now_ms)))
            return
        self._put(
            _Work(
                lambda now_ms: self._node.receive_response(to, request_id, answer.response, now_ms=now_ms),
                data=answer.data,
            )
        )

    # What goes on beside the line

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks.create_task(work)
        self._children[task] = None
        task.add_done_callback(lambda done: self._children.pop(done, None))

    async def _end_children(self) -> None:
        """Give those a moment who tell others that this node leaves; then end all."""
        if self._children and self._failure is None:
            await asyncio.wait(list(self._children), timeout=CLOSE_GRACE_S)
        for task in list(self._children):
            task.cancel()


async def _let_others_join() -> None:
    """Before a sync begins: whoever was told just now that something is appended may have more for it."""
    for _ in range(_TURNS_BEFORE_SYNC):
        await asyncio.sleep(0)


def _raise(error: StorageError) -> Output:
    raise error
