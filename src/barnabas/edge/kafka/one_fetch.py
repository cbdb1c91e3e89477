"""One fetch on its way to an answer: what it wants, what was found, what its session has to be told.

`look` finds and `answer` tells it, both at once. Who has many partitions does the same one by one, in turns with
everything else (`fetching_in_turns`).
"""

from typing import Final, TypeGuard
from uuid import UUID

from barnabas.core.errors import BarnabasError, UnknownTopicId, UnknownTopicOrPartition
from barnabas.runtime.connections import Answer, Connection, Work
from barnabas.runtime.partition import Partition
from barnabas.services.broker import Broker
from barnabas.services.fetch import Found, Wanted, check_replica
from barnabas.services.fetch_sessions import NO_SESSION, PartitionKey, Session
from barnabas.services.syncing import Unsynced
from barnabas.wire.fetch import FetchedPartition, FetchedTopic, write_fetch
from barnabas.wire.fetch_request import FetchRequest
from barnabas.wire.frame import RequestHeader, answer_head

READ_COMMITTED: Final = 1
_ALL_SYNCED: Final = Unsynced(())


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
        self.wanted = wanted
        self._session = session
        self._is_incremental = is_incremental
        self._min_bytes = request.min_bytes
        self._max_wait_ms = request.max_wait_ms
        self._max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._is_committed = request.isolation_level == READ_COMMITTED
        self._replica_id = request.replica_id
        self.partitions: dict[PartitionKey, Partition] = {}
        self.found: dict[PartitionKey, Found | BarnabasError] = {}
        self.told: dict[str | UUID, list[FetchedPartition]] = {}
        self._refusals: dict[int, BarnabasError] = {}
        self._size = 0
        self._is_urgent = False  # an error or a divergence is told at once
        self._unsynced = _ALL_SYNCED

    @property
    def must_wait(self) -> bool:
        """Whether there is too little to answer yet."""
        return self._size < self._min_bytes and self._max_wait_ms > 0 and not self._is_urgent and bool(self.wanted)

    @property
    def has_nothing(self) -> bool:
        """Whether nothing was found that a client would want to hear of."""
        return not self._size and not self._is_urgent

    def note_unsynced(self) -> bool:
        """Whether nothing was found, and there will be something when the sync that is under way is done."""
        if self._size or self._is_urgent:
            return False
        self._unsynced = Unsynced(each.partition for each in self.found.values() if is_ahead(each))
        return self.awaits_sync

    @property
    def awaits_sync(self) -> bool:
        """Whether there is still nothing, and what was noted is not synced."""
        return self.has_nothing and bool(self._unsynced)

    def look(self) -> None:
        """Find what there is now."""
        self.found.clear()
        self._size = 0
        for key, wanted in self.wanted.items():
            self._look_at(key, wanted)

    def look_at(self, key: PartitionKey) -> Found | BarnabasError:
        """Find what one partition has now, beside what was found in the others."""
        known = self.found.get(key)
        if isinstance(known, Found):
            self._size -= known.size
        self._look_at(key, self.wanted[key])
        return self.found[key]

    def _look_at(self, key: PartitionKey, wanted: Wanted) -> None:
        try:
            found = self._broker.fetch.look(
                self._partition(key),
                wanted,
                is_committed=self._is_committed,
                max_bytes=self._max_bytes - self._size,
                is_first=self._size == 0,
            )
        except BarnabasError as error:
            # One for all that are refused alike, without its frames, which know this fetch: many are dear to collect.
            self.found[key] = self._refusals.setdefault(error.kafka_code, error.with_traceback(None))
            self._is_urgent = True
            return
        self.found[key] = found
        self._size += found.size
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
        found = [each for each in self.found.values() if isinstance(each, Found)]
        max_bytes = self._connection.max_read_bytes
        if self._broker.fetch.read_now(found, max_bytes=max_bytes):
            return self._encode()
        return self._read_and_encode(found)

    async def _read_and_encode(self, found: list[Found]) -> Answer:
        with self._connection.reading() as max_bytes:
            await self._broker.fetch.read(found, max_bytes=max_bytes)
        return self._encode()

    def _encode(self) -> Answer:
        for key, found in self.found.items():
            self.tell(key, found)
        topics = [as_topic(name, each) for name, each in self.told.items()]
        return encode(self._header, topics, session_id=self.session_id)

    def tell(self, key: PartitionKey, found: Found | BarnabasError) -> None:
        """Put a partition into the answer, if it belongs there."""
        fetched = _fetched(key.partition, found)
        if self._is_worth_telling(key, fetched):
            self.told.setdefault(key.topic, []).append(fetched)
        if fetched.records and self._session is not None:
            self._session.move_last(key)

    @property
    def session_id(self) -> int:
        return NO_SESSION if self._session is None else self._session.session_id

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


def is_ahead(found: Found | BarnabasError) -> TypeGuard[Found]:
    """Whether the client is where the watermark is, and the log has more."""
    if not isinstance(found, Found) or not found.partition.is_behind:
        return False
    return found.high_watermark <= found.offset < found.partition.end_offset


def as_topic(name: str | UUID, partitions: list[FetchedPartition]) -> FetchedTopic:
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


def encode(
    header: RequestHeader, topics: list[FetchedTopic], *, error_code: int = 0, session_id: int = NO_SESSION
) -> Answer:
    """The whole answer."""
    body = write_fetch(header.version, topics, error_code=error_code, session_id=session_id)
    return [answer_head(header, sum(map(len, body))), *body]
