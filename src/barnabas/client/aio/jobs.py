"""Queues: jobs to loop over, in as many tasks as there shall be."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Final, Self

from barnabas.client.aio.calling import Lane
from barnabas.client.message import Message
from barnabas.client.queues import job as synchronous
from barnabas.client.queues.job import LockLost
from barnabas.client.queues.queue import Queue as SynchronousQueue

_TICK_S: Final = 0.5  # how long a thread waits at most: one that nobody ends would keep the process from ending
_TAKERS: Final = 16  # tasks that may wait for a job at once; others wait for their turn to
_ANSWERS: Final = 16  # acknowledgements that may be waited for at once, where they are


class Job:
    """One record of a queue. In an `async with`, it is accepted at the end of the block, and released if that raises.

    It may be worked on by any task; its lock is renewed meanwhile.
    """

    def __init__(self, job: synchronous.Job, waiting: Lane | None) -> None:
        self._job = job
        self._waiting = waiting  # where the answer is waited for, if it is

    def __repr__(self) -> str:
        return repr(self._job)

    @property
    def message(self) -> Message:
        return self._job.message

    @property
    def value(self) -> bytes | None:
        return self._job.value

    @property
    def key(self) -> bytes | None:
        return self._job.key

    @property
    def delivery_count(self) -> int:
        return self._job.delivery_count

    @property
    def is_lost(self) -> bool:
        """Whether another worker may have it by now. Long work may look, and stop."""
        return self._job.is_lost

    async def accept(self) -> None:
        """It is done."""
        await self._answer(self._job.accept)

    async def release(self) -> None:
        """Let any worker try it again, up to the delivery limit of the group."""
        await self._answer(self._job.release)

    async def reject(self) -> None:
        """It can never be done: it is not delivered again."""
        await self._answer(self._job.reject)

    async def _answer(self, answer: Callable[[], None]) -> None:
        if self._waiting is None:
            answer()  # it is only noted
        else:
            await self._waiting.call(answer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.accept()
            return
        try:
            await self.release()
        except LockLost:  # it comes back anyway, and the error of the block is the one to see
            return


class Queue(AsyncIterator[Job]):
    """The jobs of some topics for one member of a group: `async for job in queue: async with job: ...`.

    Several tasks may loop over it at once. `aclose`, the end of an `async with` block or closing the bus leaves the
    group; what is not finished then is released.
    """

    def __init__(self, open_queue: Callable[[], SynchronousQueue], *, timeout_s: float | None, is_sync: bool) -> None:
        self._open_queue = open_queue
        self._timeout_s = timeout_s
        self._taking = Lane("barnabas-queue-jobs", _TAKERS)
        self._waiting = Lane("barnabas-queue-answers", _ANSWERS) if is_sync else None
        self._opening = threading.Lock()
        self._queue: SynchronousQueue | None = None
        self._left: deque[asyncio.Future[synchronous.Job | None]] = deque()  # by tasks that were cancelled
        self._is_entered = False
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self._is_entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def __anext__(self) -> Job:
        loop = asyncio.get_running_loop()
        ends_at = float("inf") if self._timeout_s is None else loop.time() + self._timeout_s
        while not self._is_closed:
            left_s = ends_at - loop.time()
            job = await self._taken(min(max(left_s, 0.0), _TICK_S))
            if job is not None and not self._is_closed:
                return Job(job, self._waiting)
            if left_s <= 0:
                break
        if not self._is_entered:
            await self.aclose()
        raise StopAsyncIteration

    async def _taken(self, wait_s: float) -> synchronous.Job | None:
        """The next job, if one comes soon."""
        taking = self._left.popleft() if self._left else self._taking.begin(self._take, wait_s)
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            self._left.append(taking)  # its job is for whoever asks next
            raise
        except BaseException:
            await self.aclose()
            raise

    def _take(self, wait_s: float) -> synchronous.Job | None:
        """In a thread of the lane."""
        with self._opening:
            if self._is_closed:
                return None
            if self._queue is None:
                self._queue = self._open_queue()
        return self._queue.take(wait_s)

    async def aclose(self) -> None:
        """Hand out no more jobs, release those that are not finished, and leave the group."""
        if self._is_closed:
            return
        self._is_closed = True
        closing = Lane("barnabas-queue-end")
        try:
            await closing.call(self._close)
        finally:
            for lane in (closing, self._taking, self._waiting):
                if lane is not None:
                    lane.end()

    def _close(self) -> None:
        with self._opening:
            queue = self._queue
        if queue is not None:
            queue.close()
