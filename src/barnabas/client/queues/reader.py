"""Fetches jobs from the leaders of the assigned partitions, and tells them what became of those: a thread of its own.

Owns the connections, a share session and the locks for each leader, and the buffer of jobs that nobody has taken yet.
One request is under way per leader. A lost connection ends its session, and the locks with it: jobs that were not taken
are dropped, those that were are marked as lost. All that other threads touch is guarded by one condition.
"""

import logging
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from barnabas.client.brokers import Address, Brokers
from barnabas.client.connection import BrokerConnection
from barnabas.client.errors import Passing, Unreachable, is_passing, refusal_of, words_of
from barnabas.client.queues.arriving import acquired_offsets, acquired_records
from barnabas.client.queues.job import AckInDoubt, Job, LockLost
from barnabas.client.queues.leaders import find_leaders
from barnabas.client.queues.locks import MAX_ACKS, Ack, Lock, Locks, Place
from barnabas.client.queues.pace import Pace
from barnabas.client.queues.session import ShareSession
from barnabas.core.errors import BarnabasError, CorruptRecord
from barnabas.wire.apis import SHARE_ACKNOWLEDGE, SHARE_FETCH

_log = logging.getLogger("barnabas.client.queue")

_IDLE_WAIT_MS: Final = 500
_BUSY_WAIT_MS: Final = 50  # while jobs are out: what is said of them must not wait long for the fetch before it
_TICK_S: Final = 0.5
_RETRY_S: Final = 0.1
_SILENCE_S: Final = 30.0
_CLOSE_S: Final = 10.0
_SYNC_S: Final = 60.0
_MAX_FETCHED: Final = 500
_CAN_RENEW: Final = 2  # the version of ShareAcknowledge
# Another broker leads, or the topic is gone: what the member had there is not its own any more.
_NOT_HERE: Final = frozenset({3, 6, 9, 56, 74, 75, 76, 100})
_SURELY_REFUSED: Final = frozenset({42, 121})  # INVALID_REQUEST, INVALID_RECORD_STATE: nothing of it was written
_SESSION_GONE: Final = frozenset({122, 123, 133})


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """How a queue reads."""

    linger_s: float
    prefetch: int
    max_hold_s: float
    is_sync: bool


@dataclass(slots=True)
class _Request:
    sent_at: float
    is_fetch: bool = False
    locks: list[Lock] = field(default_factory=list)
    is_renewal: bool = False


@dataclass(slots=True, eq=False)
class _Leader:
    address: Address
    connection: BrokerConnection
    session: ShareSession
    locks: Locks
    places: frozenset[Place] = frozenset()
    under_way: _Request | None = None


class JobReader:
    """The jobs of one member."""

    def __init__(
        self, brokers: Brokers, topics: Iterable[str], group: str, member_id: str, options: ReaderOptions
    ) -> None:
        self._brokers = brokers
        self._asking = brokers.another()  # for metadata, while the others are busy fetching
        self._topics = sorted(topics)
        self._group = group
        self._member_id = member_id
        self._options = options
        self._changed = threading.Condition()
        self._buffer: deque[tuple[Job, Lock]] = deque()
        self._locks_of: dict[Lock, Locks] = {}
        self._pace = Pace(options.prefetch)
        self._waiting_count = 0
        self._assigned: frozenset[Place] = frozenset()
        self._is_known = True  # who leads what is assigned
        self._look_up_at = 0.0
        self._leaders: dict[Address, _Leader] = {}
        self._names: Mapping[UUID, str] = {}
        self._failure: BaseException | None = None
        self._is_stopped = False  # nobody gets another job
        self._is_closing = False
        self._woken, self._waking = socket.socketpair()
        self._waking.setblocking(False)
        self._woken.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="barnabas-queue", daemon=True)
        self._ended = threading.Event()  # not a join, which a signal may end too early (`queue`)
        self.lost_count = 0

    # What other threads call

    def start(self) -> None:
        self._thread.start()

    def assign(self, places: frozenset[Place]) -> None:
        """The partitions to fetch from now on."""
        with self._changed:
            self._assigned, self._is_known = places, False
        self._wake()

    def fail(self, error: BaseException) -> None:
        """Nothing more comes: whoever waits gets this."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()
        self._wake()

    def take(self, timeout_s: float | None) -> Job | None:
        """The next job; None if none came in time, or the queue was closed."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            self._waiting_count += 1
            self._wake()
            try:
                while True:
                    if self._is_stopped:
                        return None
                    if (job := self._next_job()) is not None:
                        return job
                    if self._failure is not None:
                        raise self._failure
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        return None
                    self._changed.wait(_TICK_S if left is None else min(left, _TICK_S))
            finally:
                self._waiting_count -= 1

    def _next_job(self) -> Job | None:
        """The first that is still this member's: this process may have been held up."""
        while self._buffer:
            job, lock = self._buffer.popleft()
            if not lock.is_over and time.monotonic() < lock.expires_at:
                return job
        return None

    def stop(self) -> None:
        """Hand out no more jobs; those that are out can be answered."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def answer(self, job: Job, lock: Lock, answer: Ack) -> None:
        """Note what became of a job; in sync mode, wait until the broker has it."""
        with self._changed:
            now = time.monotonic()
            self._pace.note_finished(now)
            locks = self._locks_of.get(lock)
            if locks is not None and locks.finish(lock, answer, now=now, is_urgent=self._options.is_sync):
                self._wake()
            if self._options.is_sync:
                self._wait_settled(job, lock)

    def close(self) -> None:
        """Release what is not finished, send all acknowledgements and end the sessions."""
        with self._changed:
            self._is_stopped = self._is_closing = True
            self._changed.notify_all()
        self._wake()
        if threading.current_thread() is not self._thread:
            self._ended.wait(2 * _CLOSE_S)

    def _wait_settled(self, job: Job, lock: Lock) -> None:
        deadline = time.monotonic() + _SYNC_S
        while not lock.is_over:
            if time.monotonic() >= deadline or self._ended.is_set():
                raise Unreachable(f"the acknowledgement of {job} was not answered")
            self._changed.wait(_TICK_S)
        if lock.is_lost and lock.is_in_doubt:
            raise AckInDoubt(f"{job} may be acknowledged, of which the answer was lost. If it is not, it comes again")
        if lock.is_lost:
            raise LockLost(f"{job} is not acknowledged: its lock was lost. It is delivered again")

    def _wake(self) -> None:
        try:
            self._waking.send(b"\0")
        except OSError:  # full: it wakes anyway; or closed: nobody is there
            return

    # The thread

    def _run(self) -> None:
        try:
            while not self._is_closing and self._failure is None:
                self._step()
            self._finish()
        except BaseException as error:  # also a bug: it is the caller's, and nobody waits for ever
            is_unseen = self._is_closing  # no caller waits for jobs any more
            self.fail(error)
            if is_unseen and not isinstance(error, BarnabasError):
                raise
        finally:
            self._end()

    def _end(self) -> None:
        try:
            for leader in list(self._leaders.values()):
                self._drop(leader)
            self._brokers.close()
            self._asking.close()
            self._woken.close()
            self._waking.close()
        finally:
            self._ended.set()

    def _step(self) -> None:
        self._find_leaders()
        for leader in list(self._leaders.values()):
            with self._changed:
                self._forget(leader.locks.expire(time.monotonic()))
            if leader.under_way is None:
                self._try(leader, self._send_next)
        self._receive(self._wait_s())

    def _find_leaders(self) -> None:
        """Look up who leads what is assigned, if that may have changed, and connect to them."""
        if self._is_known or time.monotonic() < self._look_up_at:
            return
        self._look_up_at = time.monotonic() + _RETRY_S
        with self._changed:
            assigned, self._is_known = self._assigned, True
        try:
            found = find_leaders(self._asking, self._topics, assigned)
        except (Unreachable, Passing) as error:
            _log.debug("group %s cannot find its leaders: %s", self._group, error)
            self._asking.close()
            self._is_known = False
            return
        self._is_known = self._is_known and found.is_whole
        self._names = {**self._names, **found.names}
        for address in found.places:
            if address not in self._leaders:
                self._begin(address)
        for address, leader in self._leaders.items():
            leader.places = found.places.get(address, frozenset())

    def _begin(self, address: Address) -> None:
        """Connect to a leader; one that is away keeps nobody from the others."""
        try:
            self._leaders[address] = self._connect(address)
        except (Unreachable, Passing) as error:
            _log.debug("group %s cannot reach a leader: %s", self._group, error)
            self._is_known = False

    def _connect(self, address: Address) -> _Leader:
        connection = self._brokers.at(address)
        locks = Locks(
            linger_s=self._options.linger_s,
            max_hold_s=self._options.max_hold_s,
            can_renew=connection.version(SHARE_ACKNOWLEDGE.key) >= _CAN_RENEW,
        )
        return _Leader(address, connection, ShareSession(self._group, self._member_id), locks)

    def _send_next(self, leader: _Leader) -> None:
        """Acknowledge, renew or fetch: the first of these that is due."""
        with self._changed:
            now = time.monotonic()
            room = self._pace.room(now, waiting_count=self._waiting_count, buffered_count=len(self._buffer))
            room = min(room, _MAX_FETCHED) if leader.locks.finished_count < MAX_ACKS else 0
            if acks := leader.locks.take_acks(now, flush=room > 0):
                self._send_said(leader, _Request(now, locks=acks))
            elif renewals := leader.locks.take_renewals(now):
                self._send_said(leader, _Request(now, locks=renewals, is_renewal=True))
            elif leader.connection.is_over and not len(leader.locks):
                raise Unreachable("the login expires")
            elif room and leader.places:
                wait_ms = _BUSY_WAIT_MS if len(self._locks_of) else _IDLE_WAIT_MS
                values = leader.session.fetch(leader.places, max_records=room, max_wait_ms=wait_ms)
                leader.connection.send(SHARE_FETCH.key, values)
                leader.under_way = _Request(now, is_fetch=True)

    def _send_said(self, leader: _Leader, request: _Request) -> None:
        say = leader.session.renew if request.is_renewal else leader.session.acknowledge
        leader.connection.send(SHARE_ACKNOWLEDGE.key, say(request.locks))
        leader.under_way = request

    def _wait_s(self) -> float:
        with self._changed:
            now = time.monotonic()
            due = [leader.locks.next_due() for leader in self._leaders.values() if leader.under_way is None]
            wait_s = min([_TICK_S, *(each - now for each in due)])
            if not self._is_known:
                wait_s = min(wait_s, self._look_up_at - now)
            return max(0.0, wait_s)

    def _receive(self, wait_s: float) -> None:
        """Wait for answers, or for a thread that has something to say, and handle what came."""
        busy = {each.connection.fileno(): each for each in self._leaders.values() if each.under_way is not None}
        ready = [leader for leader in busy.values() if leader.connection.has_buffered]
        if not ready:
            poller = select.poll()
            for fileno in (*busy, self._woken.fileno()):
                poller.register(fileno, select.POLLIN)
            ready = [busy[fileno] for fileno, _ in poller.poll(wait_s * 1000) if fileno in busy]
            self._clear_wakes()
        for leader in ready:
            self._try(leader, self._handle)
        silent_since = time.monotonic() - _SILENCE_S
        for leader in busy.values():
            if leader.under_way is not None and leader.under_way.sent_at < silent_since:
                self._lose(leader, Unreachable(f"no answer within {_SILENCE_S:.0f} s"))

    def _clear_wakes(self) -> None:
        try:
            self._woken.recv(4096)
        except BlockingIOError:
            return

    def _try(self, leader: _Leader, act: Any) -> None:
        """A failure of one leader's connection or session ends that session alone."""
        try:
            act(leader)
        except (Unreachable, Passing, CorruptRecord) as error:
            self._lose(leader, error)

    def _handle(self, leader: _Leader) -> None:
        request, leader.under_way = leader.under_way, None
        assert request is not None
        answer = leader.connection.receive()
        code = int(answer.error_code)
        if code in _SESSION_GONE or is_passing(code):
            raise Passing(words_of(code))
        if code:
            raise refusal_of(code, f"cannot read the queue of group {self._group!r}: {words_of(code)}")
        lock_s = float(answer.acquisition_lock_timeout.total_seconds())
        with self._changed:
            if request.is_fetch:
                self._take_over(leader, answer, request.sent_at, lock_s)
            else:
                self._settle(leader, request, answer, lock_s)
            self._changed.notify_all()

    def _settle(self, leader: _Leader, request: _Request, answer: Any, lock_s: float) -> None:
        codes = {
            Place(topic.topic_id, int(each.partition_index)): int(each.error_code)
            for topic in answer.responses
            for each in topic.partitions
        }
        refused = frozenset(place for place, code in codes.items() if code)
        moved = refused & {place for place, code in codes.items() if code in _NOT_HERE}
        retried = frozenset(place for place in refused - moved if is_passing(codes[place]))
        if request.is_renewal:
            leader.locks.settle_renewals(request.locks, since=request.sent_at, lock_s=lock_s, refused=refused - retried)
        else:
            leader.locks.settle_acks(
                request.locks,
                now=time.monotonic(),
                refused=refused - retried,
                retried=retried - moved,
                unknown=refused - {place for place, code in codes.items() if code in _SURELY_REFUSED},
            )
        self._note_moved(leader, moved)
        self._forget(lock for lock in request.locks if lock.is_over)

    def _take_over(self, leader: _Leader, answer: Any, sent_at: float, lock_s: float) -> None:
        moved: set[Place] = set()
        for topic in answer.responses:
            for partition in topic.partitions:
                place = Place(topic.topic_id, int(partition.partition_index))
                code = int(partition.error_code)
                if code in _NOT_HERE:
                    moved.add(place)
                elif is_passing(code):
                    self._leave_out(leader, {place})
                elif code:
                    name = self._names.get(place.topic_id, str(place.topic_id))
                    raise refusal_of(code, f"cannot read {name}-{place.partition}: {words_of(code)}")
                elif partition.acquired_records:
                    self._add_jobs(leader, place, partition, sent_at, lock_s)
        self._note_moved(leader, moved)

    def _add_jobs(self, leader: _Leader, place: Place, partition: Any, sent_at: float, lock_s: float) -> None:
        name = self._names.get(place.topic_id, str(place.topic_id))
        try:
            acquired = list(acquired_records(name, partition))
        except CorruptRecord as error:
            _log.warning("%s-%d: a damaged batch was released: %s", name, place.partition, error)
            for offset in acquired_offsets(partition):
                damaged = leader.locks.add(place, offset, since=sent_at, lock_s=lock_s)
                leader.locks.finish(damaged, Ack.RELEASE, now=sent_at)
            return
        for each in acquired:
            lock = leader.locks.add(place, each.offset, since=sent_at, lock_s=lock_s)
            if each.message is None:
                leader.locks.finish(lock, Ack.GAP, now=sent_at)
            else:
                self._locks_of[lock] = leader.locks
                self._buffer.append((Job(each.message, each.delivery_count, lock, self), lock))

    def _note_moved(self, leader: _Leader, places: Iterable[Place]) -> None:
        gone = frozenset(places)
        if gone:
            self._forget(leader.locks.lose_all(gone))
            self._leave_out(leader, gone)

    def _leave_out(self, leader: _Leader, places: Iterable[Place]) -> None:
        """Fetch nothing of these until their leaders have been looked up again, which is not at once."""
        leader.places -= frozenset(places)
        self._is_known = False

    def _forget(self, locks: Iterable[Lock]) -> None:
        """Locks that are over; a job that nobody has taken is dropped with its lock."""
        lost = set()
        for lock in locks:
            self._locks_of.pop(lock, None)
            if lock.is_lost:
                lost.add(lock)
        if lost:
            kept = [each for each in self._buffer if each[1] not in lost]
            self.lost_count += len(lost) - (len(self._buffer) - len(kept))
            self._buffer = deque(kept)
            self._changed.notify_all()

    def _lose(self, leader: _Leader, error: BarnabasError) -> None:
        _log.debug("group %s lost its session with %s:%d: %s", self._group, *leader.address, error)
        self._drop(leader)
        self._is_known = False

    def _drop(self, leader: _Leader) -> None:
        with self._changed:
            self._forget(leader.locks.lose_all())
            self._changed.notify_all()
        self._brokers.drop(leader.address)
        self._leaders.pop(leader.address, None)

    # The end

    def _finish(self) -> None:
        """Say what is left to say, release the rest, and end each session."""
        deadline = time.monotonic() + _CLOSE_S
        while any(leader.under_way for leader in self._leaders.values()) and time.monotonic() < deadline:
            self._receive(_TICK_S)
        for leader in list(self._leaders.values()):
            if leader.session.is_open and leader.under_way is None:
                self._try(leader, self._end_session)

    def _end_session(self, leader: _Leader) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                for lock in leader.locks.unfinished:
                    leader.locks.finish(lock, Ack.RELEASE, now=now)
                locks = leader.locks.take_acks(now, flush=True)
                is_last = leader.locks.finished_count == len(locks)
                if not is_last:
                    self._send_said(leader, _Request(now, locks=locks))
            if is_last:
                break
            self._handle(leader)
        leader.connection.send(SHARE_ACKNOWLEDGE.key, leader.session.close(locks))
        leader.under_way = _Request(time.monotonic(), locks=locks)
        self._handle(leader)
