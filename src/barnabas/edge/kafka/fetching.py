"""Fetch, versions 4 to 18: long polls, sessions, and records that go to the socket as they lie on disk.

A request is looked at at once. When there is enough to give, or nothing to wait for, it is answered; else it parks on
its partitions and is looked at again when one of them grows, until `max_wait` is over. Only sizes are looked at until
then: nothing is read twice.

Differs from Kafka: no followers and no preferred read replicas yet; a fetch by a replica id is refused.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeGuard
from uuid import UUID

from barnabas.core.errors import BarnabasError, UnknownTopicId, UnknownTopicOrPartition
from barnabas.runtime.connections import Answer, Connection, Slot, Work
from barnabas.runtime.partition import Partition
from barnabas.services.broker import Broker
from barnabas.services.fetch import Found, Wanted, check_replica
from barnabas.services.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, PartitionKey, Session
from barnabas.services.syncing import SYNC_WAIT_S, Unsynced
from barnabas.wire.fetch import TOPIC_IDS_FROM, FetchedPartition, FetchedTopic, write_fetch
from barnabas.wire.fetch_request import FetchRequest, read_fetch
from barnabas.wire.frame import RequestHeader, answer_head

READ_COMMITTED: Final = 1
_ALL_SYNCED: Final = Unsynced(())


class Fetching:
    """Handles Fetch requests."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def handle(
        self, header: RequestHeader, frame: memoryview, connection: Connection
    ) -> "Answer | Work | Callable[[Slot], None]":
        """An answer, the work of reading one, or a poll that parks."""
        request = read_fetch(frame, header.body_at, len(frame), header.version)
        try:
            fetch = self._begin(header, request, connection)
        except BarnabasError as error:
            return _encode(header, [], error_code=error.kafka_code)
        fetch.look()
        if fetch.must_wait or fetch.note_unsynced():
            return LongPoll(fetch, max_wait_s=request.max_wait_ms / 1000)
        return fetch.answer()

    def _begin(self, header: RequestHeader, request: FetchRequest, connection: Connection) -> "OneFetch":
        wanted = _read_wanted(request)
        session, is_incremental = self._session(header, request, wanted)
        if is_incremental:
            assert session is not None
            wanted = {key: each.wanted for key, each in session.partitions.items()}
        return OneFetch(self.broker, header, request, wanted, session, connection, is_incremental=is_incremental)

    def _session(
        self, header: RequestHeader, request: FetchRequest, wanted: dict[PartitionKey, Wanted]
    ) -> tuple[Session | None, bool]:
        """The session of a request, and whether it is one that goes on."""
        session_id, epoch = request.session_id, request.session_epoch
        sessions = self.broker.fetch_sessions
        now_s = asyncio.get_running_loop().time()
        uses_ids = header.version >= TOPIC_IDS_FROM
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            sessions.end(session_id)
            if epoch == FINAL_EPOCH:
                return None, False
            return sessions.begin(wanted, uses_topic_ids=uses_ids, now_s=now_s), False
        forgotten = [
            PartitionKey(topic, partition) for topic, partitions in request.forgotten for partition in partitions
        ]
        session = sessions.go_on(session_id, epoch, wanted, forgotten, uses_topic_ids=uses_ids, now_s=now_s)
        return session, True


class OneFetch:
    """One request on its way to an answer."""

    def __init__(
        self,
        broker: Broker,
        header: RequestHeader,
        request: FetchRequest,
        wanted: dict[PartitionKey, Wanted],
        session: Session | None,
        connection: Connection,
        *,
        is_incremental: bool,
    ) -> None:
        self._broker = broker
        self._connection = connection
        self._header = header
        self._wanted = wanted
        self._session = session
        self._is_incremental = is_incremental
        self._min_bytes = request.min_bytes
        self._max_wait_ms = request.max_wait_ms
        self._max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._is_committed = request.isolation_level == READ_COMMITTED
        self._replica_id = request.replica_id
        self.partitions: dict[PartitionKey, Partition] = {}
        self._found: dict[PartitionKey, Found | BarnabasError] = {}
        self._size = 0
        self._is_urgent = False  # an error or a divergence is told at once
        self._unsynced = _ALL_SYNCED

    @property
    def must_wait(self) -> bool:
        """Whether there is too little to answer yet."""
        return self._size < self._min_bytes and self._max_wait_ms > 0 and not self._is_urgent and bool(self._wanted)

    def note_unsynced(self) -> bool:
        """Whether nothing was found, and there will be something when the sync that is under way is done."""
        if self._size or self._is_urgent:
            return False
        self._unsynced = Unsynced(each.partition for each in self._found.values() if _is_ahead(each))
        return self.awaits_sync

    @property
    def awaits_sync(self) -> bool:
        """Whether there is still nothing, and what was noted is not synced."""
        return not self._size and not self._is_urgent and bool(self._unsynced)

    def look(self) -> None:
        """Find what there is now."""
        self._found.clear()
        self._size = 0
        left = self._max_bytes
        for key, wanted in self._wanted.items():
            try:
                partition = self._partition(key)
                found = self._broker.fetch.look(
                    partition,
                    wanted,
                    is_committed=self._is_committed,
                    max_bytes=left,
                    is_first=self._size == 0,
                )
            except BarnabasError as error:
                self._found[key] = error
                self._is_urgent = True
                continue
            self._found[key] = found
            self._size += found.size
            left -= found.size
            if found.diverging is not None:
                self._is_urgent = True

    def _partition(self, key: PartitionKey) -> Partition:
        check_replica(self._replica_id)
        served = self._broker.served
        topic = served.by_name.get(key.topic) if isinstance(key.topic, str) else served.by_id.get(key.topic)
        if topic is None:
            if isinstance(key.topic, str):
                raise UnknownTopicOrPartition(f"topic '{key.topic}' does not exist")
            raise UnknownTopicId(f"no topic has the id {key.topic}")
        partition = topic.get(key.partition)
        self.partitions[key] = partition
        return partition

    def answer(self) -> "Answer | Work":
        """The answer, or the work of reading it from the disk."""
        found = [each for each in self._found.values() if isinstance(each, Found)]
        max_bytes = self._connection.max_read_bytes
        if self._broker.fetch.read_now(found, max_bytes=max_bytes):
            return self._encode()
        return self._read_and_encode(found)

    async def _read_and_encode(self, found: list[Found]) -> Answer:
        with self._connection.reading() as max_bytes:
            await self._broker.fetch.read(found, max_bytes=max_bytes)
        return self._encode()

    def _encode(self) -> Answer:
        topics: dict[str | UUID, list[FetchedPartition]] = {}
        served: list[PartitionKey] = []
        for key, found in self._found.items():
            fetched = _fetched(key.partition, found)
            if self._is_worth_telling(key, fetched):
                topics.setdefault(key.topic, []).append(fetched)
            if fetched.records:
                served.append(key)
        if self._session is not None:
            # Who was served goes to the end of the line, so that a busy partition does not starve the others.
            for key in served:
                known = self._session.partitions.pop(key, None)
                if known is not None:
                    self._session.partitions[key] = known
        session_id = NO_SESSION if self._session is None else self._session.session_id
        return _encode(self._header, [_topic(name, each) for name, each in topics.items()], session_id=session_id)

    def _is_worth_telling(self, key: PartitionKey, fetched: FetchedPartition) -> bool:
        """Whether a partition belongs into the answer: in a session only if there is news of it."""
        known = None if self._session is None else self._session.partitions.get(key)
        if known is None:
            return True
        is_news = bool(
            fetched.records
            or fetched.error_code
            or fetched.diverging_epoch
            or known.high_watermark != fetched.high_watermark
            or known.log_start_offset != fetched.log_start_offset
        )
        known.high_watermark, known.log_start_offset = fetched.high_watermark, fetched.log_start_offset
        if fetched.error_code:
            known.high_watermark = -1  # so that it is told again when it is well
        return is_news or not self._is_incremental


class LongPoll:
    """A fetch that waits for its partitions to grow. Called with its slot, it answers into it.

    One whose time is over with nothing found waits a little longer when its partitions have records that are being
    synced (`services.syncing`): whoever was told that they are written is to find them, however little it waits.
    """

    __slots__ = ("_deadline", "_fetch", "_is_done", "_is_overdue", "_is_scheduled", "_slot", "_timer")

    def __init__(self, fetch: OneFetch, *, max_wait_s: float) -> None:
        self._fetch = fetch
        self._slot: Slot | None = None
        self._is_done = self._is_scheduled = self._is_overdue = False
        self._deadline = asyncio.get_running_loop().time() + max_wait_s
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, slot: Slot) -> None:
        loop = asyncio.get_running_loop()
        self._slot = slot
        self._timer = loop.call_at(self._deadline, self._on_time)
        slot.on_close, slot.on_hurry = self.cancel, self._finish
        self._park()

    def _park(self) -> None:
        for partition in self._fetch.partitions.values():
            partition.wait_for_growth(self)

    def note_growth(self) -> None:
        """A partition has more; look once for all that grew in this turn of the loop."""
        if not self._is_scheduled and not self._is_done:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        self._is_scheduled = False
        if self._is_done:
            return
        self._fetch.look()
        if self._fetch.awaits_sync if self._is_overdue else self._fetch.must_wait:
            self._park()
        else:
            self._finish()

    def _on_time(self) -> None:
        """What the client wanted to wait is over."""
        if self._is_overdue or not self._fetch.note_unsynced():
            self._finish()
            return
        self._is_overdue = True
        self._timer = asyncio.get_running_loop().call_later(SYNC_WAIT_S, self._on_time)

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        self._is_done = True
        if self._timer is not None:
            self._timer.cancel()
        for partition in self._fetch.partitions.values():
            partition.stop_waiting(self)

    def _finish(self) -> None:
        if self._is_done:
            return
        self.cancel()
        assert self._slot is not None
        self._slot.continue_with(self._fetch.answer())


def _is_ahead(found: Found | BarnabasError) -> TypeGuard[Found]:
    """Whether the client is where the watermark is, and the log has more."""
    if not isinstance(found, Found) or not found.partition.is_behind:
        return False
    return found.high_watermark <= found.offset < found.partition.end_offset


def _read_wanted(request: FetchRequest) -> dict[PartitionKey, Wanted]:
    return {
        PartitionKey(topic, partition): Wanted(offset, max_bytes, epoch, last_epoch)
        for topic, partitions in request.topics
        for partition, epoch, offset, last_epoch, max_bytes in partitions
    }


def _topic(name: str | UUID, partitions: list[FetchedPartition]) -> FetchedTopic:
    return FetchedTopic(name, None, partitions) if isinstance(name, str) else FetchedTopic(None, name, partitions)


def _fetched(partition: int, found: Found | BarnabasError) -> FetchedPartition:
    error = found if isinstance(found, BarnabasError) else found.error
    if error is not None:
        return FetchedPartition(partition, error.kafka_code)
    assert isinstance(found, Found)
    return FetchedPartition(
        partition,
        0,
        found.high_watermark,
        found.last_stable_offset,
        found.log_start_offset,
        aborted=found.aborted,
        records=found.records,
        diverging_epoch=found.diverging,
    )


def _encode(
    header: RequestHeader, topics: list[FetchedTopic], *, error_code: int = 0, session_id: int = NO_SESSION
) -> Answer:
    body = write_fetch(header.version, topics, error_code=error_code, session_id=session_id)
    return [answer_head(header, sum(map(len, body))), *body]
