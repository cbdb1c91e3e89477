"""Transactions: the verbs. Finds the coordinator of a transactional id, puts requests to it, and sees every transaction
that was decided to its end: markers in all of its partitions, then the fact that they are there.

The end of a transaction is a fact once the coordinator's log has it. Markers follow, again after a crash, until all are
there. A request for a transactional id waits a little for that, so that clients need not come back; an end is answered
when its markers are durable, so whoever was told of a commit can read what was committed.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Self

import msgspec

from barnabas.core.errors import (
    BarnabasError,
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidRequest,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from barnabas.core.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.core.metadata.records import MetadataRecord, RemoveTopicRecord
from barnabas.core.metadata.topics import NewTopic
from barnabas.core.model import NO_PRODUCER_ID, TopicPartition
from barnabas.core.transactions import listing
from barnabas.core.transactions.decision import Decision
from barnabas.core.transactions.ending import (
    Ended,
    MarkersDue,
    decide_abort_expired,
    decide_complete,
    decide_end,
    markers_due,
    needs_producer_id,
)
from barnabas.core.transactions.expiring import decide_expiry
from barnabas.core.transactions.initialising import Initialised, InitRequest, decide_init
from barnabas.core.transactions.partitions import decide_add, verify
from barnabas.core.transactions.records import TransactionRecord
from barnabas.runtime.clock import Clock
from barnabas.runtime.coordinator import Plain
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.offload import Offload
from barnabas.runtime.transaction_coordinator import TransactionCoordinator
from barnabas.services.coordinators import Coordinators
from barnabas.services.groups import GroupService
from barnabas.services.internal_topics import MAX_DECISION_BYTES
from barnabas.services.markers import Markers, TransactionEnd
from barnabas.services.producer_ids import ProducerIds
from barnabas.services.served import ServedTopics
from barnabas.services.topics import Topics
from barnabas.services.transaction_settings import TransactionSettings

log = get_logger("barnabas.transactions")

SETTLE_WAIT_S: Final = 5.0  # less than any client waits for an answer
RETRY_S: Final = 0.5  # between attempts to write markers
EPOCHS_VERSION: Final = 2  # the version of transactions that has an epoch for each (KIP-890)
EXPIRED_AT_ONCE: Final = 1000

# Partitions that need no marker: they are gone, or have one of a later transaction.
_OVER: Final = (UnknownTopicOrPartition, InvalidProducerEpoch, TransactionCoordinatorFenced)


class TransactionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of all transactions of a broker."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    expiry_interval_ms: int = 3_600_000
    topic_partitions: int = 50
    topic_replication_factor: int = 1
    topic_segment_bytes: int = 100 * 1024 * 1024

    @classmethod
    def of(cls, settings: TransactionSettings) -> Self:
        """What the broker's settings say."""
        return cls(
            max_timeout_ms=settings.transaction_max_timeout_ms,
            id_expiration_ms=settings.transactional_id_expiration_ms,
            expiry_interval_ms=settings.transaction_remove_expired_transaction_cleanup_interval_ms,
            topic_partitions=settings.transaction_state_log_num_partitions,
            topic_replication_factor=settings.transaction_state_log_replication_factor,
            topic_segment_bytes=settings.transaction_state_log_segment_bytes,
        )

    def new_topic(self) -> NewTopic:
        """The topic that transactions are kept in."""
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(self.topic_segment_bytes),
            "max.message.bytes": str(MAX_DECISION_BYTES),
        }
        return NewTopic(TRANSACTIONS_TOPIC, self.topic_partitions, self.topic_replication_factor, None, settings)


class TransactionService:
    """The verbs on transactions."""

    def __init__(
        self,
        config: TransactionConfig,
        *,
        served: ServedTopics,
        topics: Topics,
        groups: GroupService,
        markers: Markers,
        producer_ids: ProducerIds,
        offload: Offload,
        clock: Clock,
    ) -> None:
        self.config = config
        self._groups = groups
        self._markers = markers
        self._producer_ids = producer_ids
        self._clock = clock
        self._coordinators = Coordinators(
            config.new_topic(),
            lambda partition: TransactionCoordinator(
                partition,
                offload=offload,
                clock=clock,
                on_prepared=self._begin_ending,
                on_timeout=self._on_timeout,
            ),
            on_loaded=self._resume,
            served=served,
            topics=topics,
        )
        self._ending: dict[str, asyncio.Task[None]] = {}  # those whose markers are being written
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Load the transactions there are, and end those that were being ended, in tasks of this group."""
        self._tasks = tasks
        self._coordinators.start(tasks)

    def close(self) -> None:
        """Coordinate no more."""
        self._coordinators.close()
        for task in self._ending.values():
            task.cancel()

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Topics may be gone, the one of transactions among them."""
        if any(isinstance(record, RemoveTopicRecord) for record in records):
            self._coordinators.drop_deleted()

    async def find_partition(self, transactional_id: str) -> int:
        """The partition of the topic of transactions that an id lives in: whoever leads it coordinates it."""
        return await self._coordinators.partition_of(transactional_id)

    async def create_topic(self) -> None:
        """Make the topic of transactions, unless it is there."""
        await self._coordinators.create_topic()

    # Producers

    async def init_producer(self, request: InitRequest) -> Initialised:
        """InitProducerId: whoever had the id before is fenced, and its transaction aborted."""
        to = await self._named(request.transactional_id)
        while True:
            new_producer_id = await self._producer_ids.take()
            reply = await to.commit(self._initialising(to, request, new_producer_id))
            if isinstance(reply, Initialised):
                return reply
            await self._wait_ended(request.transactional_id)
            if request.transactional_id in self._ending:
                raise ConcurrentTransactions(f"the transaction of '{request.transactional_id}' is being aborted")

    def _initialising(
        self, to: TransactionCoordinator, request: InitRequest, new_producer_id: int
    ) -> Callable[[], Decision[object]]:
        return lambda: decide_init(
            to.transactions,
            request,
            new_producer_id=new_producer_id,
            max_timeout_ms=self.config.max_timeout_ms,
            now_ms=self._clock.now_ms(),
        )

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        version: int = 0,
    ) -> None:
        """AddPartitionsToTxn: a producer is about to write to these in its transaction."""
        to = await self._named(transactional_id)
        await to.commit(
            lambda: decide_add(
                to.transactions,
                transactional_id,
                producer_id,
                epoch,
                partitions,
                version=version,
                now_ms=self._clock.now_ms(),
            )
        )

    async def add_offsets(self, transactional_id: str, producer_id: int, epoch: int, group: str) -> None:
        """AddOffsetsToTxn: a producer is about to commit offsets of a group in its transaction."""
        partition = TopicPartition(OFFSETS_TOPIC, await self._groups.find_partition(group))
        await self.add_partitions(transactional_id, producer_id, epoch, [partition])

    async def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, BarnabasError | None]:
        """Whether these are part of the producer's open transaction."""
        to = await self._named(transactional_id)
        return await to.read(lambda: verify(to.transactions, transactional_id, producer_id, epoch, partitions))

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, BarnabasError | None]:
        """Whether a producer may write to partitions in its transaction; makes them part of it if that is asked for."""
        try:
            if not adds:
                return await self.verify(transactional_id, producer_id, epoch, partitions)
            await self.add_partitions(transactional_id, producer_id, epoch, partitions, version=EPOCHS_VERSION)
        except BarnabasError as refusal:
            return dict.fromkeys(partitions, refusal)
        return dict.fromkeys(partitions)

    async def end(self, transactional_id: str, producer_id: int, epoch: int, *, is_commit: bool, version: int) -> Ended:
        """EndTxn: commit or abort. Returns when that can be read everywhere, or when it takes long."""
        to = await self._named(transactional_id)
        next_id = NO_PRODUCER_ID
        if needs_producer_id(to.transactions, transactional_id):
            next_id = await self._producer_ids.take()
        ended = await to.commit(
            lambda: decide_end(
                to.transactions,
                transactional_id,
                producer_id,
                epoch,
                is_commit=is_commit,
                version=version,
                next_producer_id=next_id,
                now_ms=self._clock.now_ms(),
            )
        )
        if ended.is_prepared:
            await self._wait_ended(transactional_id)
        return ended

    async def _named(self, transactional_id: str) -> TransactionCoordinator:
        """The coordinator of an id, with nothing of it being ended, unless that takes long."""
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        to = await self._coordinators.of(transactional_id)
        await self._wait_ended(transactional_id)
        return to

    # Ending what was decided

    async def _wait_ended(self, transactional_id: str) -> None:
        """Return when nothing of an id is being ended, or when that takes long."""
        ending = self._ending.get(transactional_id)
        if ending is not None:
            await asyncio.wait([ending], timeout=SETTLE_WAIT_S)

    def _begin_ending(self, to: TransactionCoordinator, transactional_id: str) -> None:
        """Have the markers of a prepared transaction written."""
        before = self._ending.get(transactional_id)
        if before is not None and not before.done():
            return
        task = self._begin(self._write_markers(to, transactional_id))
        if task is not None:
            self._ending[transactional_id] = task
            task.add_done_callback(lambda done: self._forget_ending(transactional_id, done))

    def _forget_ending(self, transactional_id: str, done: asyncio.Task[None]) -> None:
        if self._ending.get(transactional_id) is done:
            del self._ending[transactional_id]

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """A task for this; None when the node is ending: what is left to do is found in the log when it starts."""
        assert self._tasks is not None
        try:
            return self._tasks.create_task(work)
        except RuntimeError:
            work.close()
            return None

    async def _write_markers(self, to: TransactionCoordinator, transactional_id: str) -> None:
        said: set[str] = set()
        while to.is_available:
            due = await _markers_due(to, transactional_id)
            if due is None:
                return
            end = TransactionEnd(due.producer_id, due.epoch, due.is_commit, to.epoch, due.version)
            results = await self._markers.write(end, due.partitions)
            failed = {name: error for name, error in results.items() if error and not isinstance(error, _OVER)}
            if not failed and to.is_available:
                # Nobody waits for this to be durable: should it be lost, the markers are found to be there.
                complete = decide_complete(to.transactions, transactional_id, now_ms=self._clock.now_ms())
                to.carry_out(Plain(complete.records, (), complete.timers))
                return
            for text in sorted({f"{name}: {error}" for name, error in failed.items()} - said):
                log.warning("no marker yet for transaction '%s' in %s", transactional_id, text)
                said.add(text)  # once: it may be tried until somebody has repaired that partition
            await asyncio.sleep(RETRY_S)

    # Time

    def _resume(self, loaded: TransactionCoordinator) -> None:
        """End what a crash left unfinished."""
        for transactional_id, record in loaded.transactions.by_id.items():
            if record.state.is_prepared:
                self._begin_ending(loaded, transactional_id)

    def _on_timeout(self, to: TransactionCoordinator, transactional_id: str) -> None:
        self._begin(self._abort_expired(to, transactional_id))

    async def _abort_expired(self, to: TransactionCoordinator, transactional_id: str) -> None:
        next_id = NO_PRODUCER_ID
        if needs_producer_id(to.transactions, transactional_id):
            with suppress(BarnabasError):  # without one it is tried again soon
                next_id = await self._producer_ids.take()
        try:
            is_prepared = await to.commit(
                lambda: decide_abort_expired(
                    to.transactions, transactional_id, next_producer_id=next_id, now_ms=self._clock.now_ms()
                )
            )
        except BarnabasError as refusal:
            log.warning("the transaction of '%s' ran out of time and is not aborted: %s", transactional_id, refusal)
            return
        if is_prepared:
            log.info("the transaction of '%s' ran out of time", transactional_id)

    async def run_expiry(self) -> None:
        """Forget transactional ids that nobody has used for long, from time to time, for ever."""
        while True:
            await asyncio.sleep(self.config.expiry_interval_ms / 1000)
            await self.expire_ids()

    async def expire_ids(self) -> int:
        """Forget ids that nobody has used for long; returns how many those were."""
        count = 0
        for to in self._coordinators.available():
            expired = EXPIRED_AT_ONCE
            while expired == EXPIRED_AT_ONCE:
                try:
                    expired = await to.commit(self._expiring(to))
                except BarnabasError:
                    break  # it has ended, and said why
                count += expired
        return count

    def _expiring(self, to: TransactionCoordinator) -> Callable[[], Decision[int]]:
        return lambda: decide_expiry(
            to.transactions,
            retention_ms=self.config.id_expiration_ms,
            now_ms=self._clock.now_ms(),
            limit=EXPIRED_AT_ONCE,
        )

    # Administration

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int = -1,
        id_pattern: str | None = None,
    ) -> list[TransactionRecord]:
        """All transactions that this node coordinates, as far as they match."""
        found: list[TransactionRecord] = []
        for to in await self._coordinators.all_loaded():
            found += await to.read(
                lambda to=to: listing.list_transactions(  # type: ignore[misc]
                    to.transactions,
                    states=states,
                    producer_ids=producer_ids,
                    longer_than_ms=longer_than_ms,
                    id_pattern=id_pattern,
                    now_ms=self._clock.now_ms(),
                )
            )
        return sorted(found, key=lambda record: record.transactional_id)

    async def describe(self, transactional_id: str) -> TransactionRecord:
        """One transactional id."""
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        to = await self._coordinators.of(transactional_id)
        return await to.read(lambda: listing.describe(to.transactions, transactional_id))


async def _markers_due(to: TransactionCoordinator, transactional_id: str) -> MarkersDue | None:
    """What is to be written, once that is on disk: else a crash could take the decision back, and not the markers."""

    def look() -> MarkersDue | None:
        record = to.transactions.get(transactional_id)
        return None if record is None else markers_due(record)

    try:
        return await to.read(look)
    except BarnabasError:
        return None  # it coordinates no more: whoever does next sees to it
