"""A topic as a queue: jobs to loop over, or a handler for them in several threads.

Joins the group when the first job is asked for. May be used by several threads at once.
"""

import logging
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from barnabas.client.brokers import Brokers
from barnabas.client.queues.job import Job, LockLost
from barnabas.client.queues.membership import Member, Membership
from barnabas.client.queues.reader import JobReader, ReaderOptions
from barnabas.client.settings import Settings
from barnabas.core.errors import InvalidRequest

_log = logging.getLogger("barnabas.client.queue")

AckMode: TypeAlias = Literal["batched", "sync"]
Handler: TypeAlias = Callable[[Job], object]
OnError: TypeAlias = Callable[[Job, Exception], object]

ACK_MODES: Final = ("batched", "sync")
LINGER_MS: Final = 10.0
PREFETCH: Final = 100
MAX_HOLD_S: Final = 3600.0
CLOSE_S: Final = 30.0
_MAX_PREFETCH: Final = 2000
_MAX_WORKERS: Final = 1000
_TICK_S: Final = 0.5
# How long a broker may be silent: to look up leaders, which holds up what goes to the others, and to heartbeats.
_LOOK_UP_S: Final = 5.0
_HEARTBEAT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """How a queue is read; see `Bus.queue`."""

    ack: str = "batched"
    linger_ms: float = LINGER_MS
    prefetch: int = PREFETCH
    max_hold: float = MAX_HOLD_S
    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.ack not in ACK_MODES:
            raise InvalidRequest(f"ack is {self.ack!r}; it may be {' or '.join(ACK_MODES)}")
        if not 0 <= self.prefetch <= _MAX_PREFETCH:
            raise InvalidRequest(f"prefetch is {self.prefetch}; it must be from 0 to {_MAX_PREFETCH}")
        if not 0 <= self.linger_ms <= 1000:
            raise InvalidRequest(f"linger_ms is {self.linger_ms}; it must be from 0 to 1000")
        if self.max_hold <= 0:
            raise InvalidRequest(f"max_hold is {self.max_hold}; it must be more than 0")


class Queue:
    """The jobs of some topics for one member of a group.

    Looped over, it leaves the group when the loop ends; in a `with`, at the end of the block. What is not finished then
    is released at once.
    """

    def __init__(self, settings: Settings, topics: Iterable[str], group: str, options: QueueOptions) -> None:
        self._settings = settings
        self._topics = list(topics)
        self._group = group
        self._options = options
        self._guard = threading.Lock()
        self._reader: JobReader | None = None
        self._membership: Membership | None = None
        self._crew: _Crew | None = None
        self._is_closed = False
        self._is_entered = False

    def __enter__(self) -> Self:
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Job]:
        """Jobs as they come, until the queue is closed, or none came for `timeout` seconds."""
        try:
            while (job := self.take()) is not None:
                yield job
        finally:
            if not self._is_entered:
                self.close()

    @property
    def lost_count(self) -> int:
        """How many jobs were taken and then lost: their locks ran out, or their broker went away."""
        reader = self._reader
        return 0 if reader is None else reader.lost_count

    def take(self, timeout: float | None = None) -> Job | None:
        """The next job; None if there is none within `timeout` seconds (default: the queue's), or it was closed."""
        reader = self._open()
        return None if reader is None else reader.take(self._options.timeout if timeout is None else timeout)

    def run(self, handler: Handler, *, workers: int = 1, on_error: OnError | None = None) -> int:
        """Call `handler` with every job, in `workers` threads, until the queue is closed or `timeout` is over.

        A job is accepted when the handler returns, unless it said something else, and released if it raises; then
        `on_error` is called, or the error is logged. Returns how many jobs the handler returned from. Ctrl-C waits for
        the jobs that are being worked on.
        """
        if not 1 <= workers <= _MAX_WORKERS:
            raise InvalidRequest(f"workers is {workers}; it must be from 1 to {_MAX_WORKERS}")
        with self._guard:
            if self._crew is not None:
                raise InvalidRequest("this queue has a handler already")
            crew = self._crew = _Crew(self, handler, on_error or _log_error)
        try:
            return crew.run(workers)
        finally:
            self._crew = None
            if not self._is_entered:
                self.close()

    def stop(self) -> None:
        """Hand out no more jobs: loops and handlers end after the one that they have."""
        with self._guard:
            self._is_closed = True
            reader = self._reader
        if reader is not None:
            reader.stop()

    def close(self, timeout: float = CLOSE_S) -> None:
        """Stop, wait up to `timeout` seconds for handlers that are at work, release the rest and leave the group."""
        self.stop()
        crew = self._crew
        if crew is not None:
            if crew.is_current():
                return  # `run` closes when its handlers are done, of which this is one
            crew.ended.wait(timeout)
        if self._reader is not None and self._membership is not None:
            _end(self._reader, self._membership)

    def _open(self) -> JobReader | None:
        with self._guard:
            if self._is_closed:
                return None
            if self._reader is None:
                self._reader, self._membership = self._start()
                # Also of a queue that nobody closes, the jobs are released, at the latest when the process ends.
                weakref.finalize(self, _end, self._reader, self._membership)
            return self._reader

    def _start(self) -> tuple[JobReader, Membership]:
        brokers = Brokers(self._settings, answer_s=_LOOK_UP_S)
        options = ReaderOptions(
            linger_s=self._options.linger_ms / 1000,
            prefetch=self._options.prefetch,
            max_hold_s=self._options.max_hold,
            is_sync=self._options.ack == "sync",
        )
        member_id = str(uuid.uuid4())
        reader = JobReader(brokers, self._topics, self._group, member_id, options)
        membership = Membership(
            Brokers(self._settings, answer_s=_HEARTBEAT_S),
            Member(self._group, member_id, self._topics),
            on_assigned=reader.assign,
            on_failure=reader.fail,
        )
        reader.start()
        membership.start()
        return reader, membership


def _end(reader: JobReader, membership: Membership) -> None:
    reader.close()
    membership.close()


class _Crew:
    """Threads that share a handler; they end when there are no more jobs, or one of them fails."""

    def __init__(self, queue: Queue, handler: Handler, on_error: OnError) -> None:
        self._queue = queue
        self._handler = handler
        self._on_error = on_error
        self._guard = threading.Lock()
        self._done_count = 0
        self._failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._left = 0  # threads that may have a job
        self._may_begin = threading.Event()
        self._all_done = threading.Event()
        self.ended = threading.Event()

    def is_current(self) -> bool:
        """Whether one of these threads asks."""
        return threading.current_thread() in self._threads

    def run(self, workers: int) -> int:
        self._threads = [
            threading.Thread(target=self._work, name=f"barnabas-worker-{number}", daemon=True)
            for number in range(workers)
        ]
        try:
            for thread in self._threads:
                thread.start()
            self._left = workers
            self._may_begin.set()
            self._wait_done()
        except BaseException:  # Ctrl-C: nobody begins another job, and those under way are waited for
            self._queue.stop()
            self._may_begin.set()
            self._wait_done()
            raise
        finally:
            self.ended.set()
        for failure in self._failures:
            raise failure
        return self._done_count

    def _wait_done(self) -> None:
        # Not by joining the threads: a join that Ctrl-C interrupts takes a thread that is at work for one that has
        # ended (gh-90882 of Python 3.11), and the job that it works on would be released.
        while self._left > 0:
            self._all_done.wait(_TICK_S)  # in steps, so that a signal is heard

    def _work(self) -> None:
        try:
            self._may_begin.wait()
            while (job := self._queue.take()) is not None:
                self._do(job)
        except BaseException as failure:  # of the queue or of `on_error`: it is the caller's
            self._failures.append(failure)
            self._queue.stop()
        finally:
            with self._guard:
                self._left -= 1
                if not self._left:
                    self._all_done.set()

    def _do(self, job: Job) -> None:
        try:
            with job:
                self._handler(job)
        except LockLost as error:
            _log.warning("%s", error)
        except Exception as error:  # whatever a handler raises, its job is released and the others go on
            self._on_error(job, error)
        else:
            with self._guard:
                self._done_count += 1


def _log_error(job: Job, error: Exception) -> None:
    _log.error("the handler failed, and %s was released: %s: %s", job, type(error).__name__, error, exc_info=error)
