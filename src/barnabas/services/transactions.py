"""Transactions: the verbs. Finds the coordinator of a transactional id, passes requests to it, and completes every
transaction whose end was decided: markers in all of its partitions, then the record that they are written.

The end of a transaction is decided once it is in the coordinator's log. Markers follow, after a crash again, until all
are written. A request for a transactional id waits a little for that, so that clients need not retry; an EndTxn is
answered when its markers are durable, so that committed records can be read once the commit is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.core.coordination import Outcome
from barnabas.core.errors import (
    BarnabasError,
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidRequest,
    PolicyViolation,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from barnabas.core.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.core.metadata.records import NO_LEADER, MetadataRecord, PartitionRecord, RemoveTopicRecord
from barnabas.core.model import NO_PRODUCER_ID, TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.later import Later
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.offload import Offload
from barnabas.runtime.other_brokers import OtherBrokers
from barnabas.services.coordinators import PartitionCoordinators
from barnabas.services.group_coordinators import GroupCoordinators
from barnabas.services.markers import Markers
from barnabas.services.producer_ids import ProducerIds
from barnabas.services.served import ServedTopics
from barnabas.services.topics import Topics
from barnabas.services.transaction_config import TransactionConfig
from barnabas.services.transaction_routing import AdmissionRouter, MarkerRouter

if TYPE_CHECKING:
    from barnabas.core.transactions import ending as deciding
    from barnabas.core.transactions import expiring, initialising
    from barnabas.core.transactions import partitions as adding
    from barnabas.core.transactions import records as transaction_records
    from barnabas.core.transactions.decision import TransactionDecision
    from barnabas.core.transactions.ending import Ended
    from barnabas.core.transactions.initialising import Initialised, InitRequest
    from barnabas.core.transactions.records import TransactionRecord
    from barnabas.runtime import transaction_coordinator
    from barnabas.runtime.transaction_coordinator import TransactionCoordinator
else:  # loaded with the first transaction
    deciding = Later("barnabas.core.transactions.ending")
    expiring = Later("barnabas.core.transactions.expiring")
    initialising = Later("barnabas.core.transactions.initialising")
    adding = Later("barnabas.core.transactions.partitions")
    transaction_records = Later("barnabas.core.transactions.records")
    transaction_coordinator = Later("barnabas.runtime.transaction_coordinator")


log = get_logger("barnabas.transactions")

SETTLE_WAIT_S: Final = 5.0  # less than any client waits for an answer
RETRY_S: Final = 0.5  # between attempts to write markers, or to abort what takes too long
EPOCHS_VERSION: Final = 2  # the version of transactions that has an epoch for each (KIP-890)
EXPIRED_AT_ONCE: Final = 1000

# Partitions that need no marker: they are gone, or have one of a later transaction.
_OVER: Final = (UnknownTopicOrPartition, InvalidProducerEpoch, TransactionCoordinatorFenced)


class _Ending(NamedTuple):
    """The task that writes the markers of a transaction, for a coordinator that may be replaced meanwhile."""

    coordinator: TransactionCoordinator
    task: asyncio.Task[None]


class TransactionService:
    """The verbs on transactions."""

    def __init__(
        self,
        config: TransactionConfig,
        *,
        served: ServedTopics,
        topics: Topics,
        groups: GroupCoordinators,
        markers: Markers,
        others: OtherBrokers,
        producer_ids: ProducerIds,
        offload: Offload,
        clock: Clock,
    ) -> None:
        self.config = config
        self._groups = groups
        self._others = others
        self._markers = MarkerRouter(markers, others)
        self._admissions = AdmissionRouter(others)
        self._producer_ids = producer_ids
        self._clock = clock
        self._coordinators = PartitionCoordinators(
            config.new_topic(),
            lambda partition: transaction_coordinator.TransactionCoordinator(
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
        self._ending: dict[str, _Ending] = {}  # those whose markers are being written
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Load the existing transactions, and complete those that were ending, in tasks of this task group."""
        self._tasks = tasks
        self._coordinators.start(tasks)

    def close(self) -> None:
        """Stop coordinating."""
        self._coordinators.close()
        for each in self._ending.values():
            each.task.cancel()

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Leaders may have changed, and topics may have been deleted, including `__transaction_state`."""
        if any(isinstance(record, PartitionRecord | RemoveTopicRecord) for record in records):
            self._coordinators.follow()

    async def find_partition(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` that an id belongs to: its leader coordinates the id."""
        return await self._coordinators.partition_of(transactional_id)

    async def create_topic(self) -> None:
        """Create `__transaction_state`, unless it exists."""
        await self._coordinators.create_topic()

    # Producers

    async def init_producer(self, request: InitRequest) -> Initialised:
        """InitProducerId: the previous producer of the id is fenced, and its transaction aborted."""
        coordinator = await self._named(request.transactional_id)
        if request.transactional_id not in coordinator.transactions.by_id:
            self._check_room()
        while True:
            new_producer_id = await self._producer_ids.take()
            reply = await coordinator.commit(self._initialising(coordinator, request, new_producer_id))
            if isinstance(reply, initialising.Initialised):
                return reply
            await self._wait_ended(request.transactional_id)
            if request.transactional_id in self._ending:
                raise ConcurrentTransactions(f"the transaction of '{request.transactional_id}' is being aborted")

    def _check_room(self) -> None:
        """Refuse another transactional id when there are too many."""
        most = self.config.max_ids
        if sum(len(each.transactions.by_id) for each in self._coordinators.available()) >= most:
            raise PolicyViolation(
                f"this node coordinates {most} transactional ids, the maximum (max.transactional.ids); use fewer, or "
                "wait until those that are not used have expired"
            )

    def _initialising(
        self, coordinator: TransactionCoordinator, request: InitRequest, new_producer_id: int
    ) -> Callable[[], TransactionDecision[object]]:
        return lambda: initialising.decide_init(
            coordinator.transactions,
            request,
            new_producer_id=new_producer_id,
            max_timeout_ms=self.config.max_timeout_ms,
            now_ms=self._clock.now_ms(),
        )

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        version: int = 0,
    ) -> None:
        """AddPartitionsToTxn: a producer is about to write to these in its transaction."""
        coordinator = await self._named(transactional_id)
        await coordinator.commit(
            lambda: adding.decide_add(
                coordinator.transactions,
                transactional_id,
                producer_id,
                producer_epoch,
                partitions,
                version=version,
                now_ms=self._clock.now_ms(),
            )
        )

    async def add_offsets(self, transactional_id: str, producer_id: int, producer_epoch: int, group: str) -> None:
        """AddOffsetsToTxn: a producer is about to commit offsets of a group in its transaction."""
        partition = TopicPartition(OFFSETS_TOPIC, await self._groups.partition_of(group))
        await self.add_partitions(transactional_id, producer_id, producer_epoch, [partition])

    async def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, BarnabasError | None]:
        """Whether these are part of the producer's open transaction."""
        coordinator = await self._named(transactional_id)
        return await coordinator.read(
            lambda: adding.verify(coordinator.transactions, transactional_id, producer_id, producer_epoch, partitions)
        )

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, BarnabasError | None]:
        """Whether a producer may write to partitions in its transaction; adds them to it if requested. Asks the node
        that coordinates the transactional id, if that is another one.
        """
        try:
            index = await self._coordinators.partition_of(transactional_id)
            leader = self._others.leader_of(TopicPartition(TRANSACTIONS_TOPIC, index))
            if leader is not None and leader != NO_LEADER and not self._others.is_here(leader):
                return await self._admissions.admit(
                    leader, transactional_id, producer_id, producer_epoch, partitions, adds=adds
                )
            if not adds:
                return await self.verify(transactional_id, producer_id, producer_epoch, partitions)
            await self.add_partitions(transactional_id, producer_id, producer_epoch, partitions, version=EPOCHS_VERSION)
        except BarnabasError as refusal:
            return dict.fromkeys(partitions, refusal)
        return dict.fromkeys(partitions)

    async def end(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, is_commit: bool, version: int
    ) -> Ended:
        """EndTxn: commit or abort. Returns when the markers are durable everywhere, or when that takes long."""
        coordinator = await self._named(transactional_id)
        next_id = NO_PRODUCER_ID
        if deciding.needs_producer_id(coordinator.transactions, transactional_id):
            next_id = await self._producer_ids.take()
        ended = await coordinator.commit(
            lambda: deciding.decide_end(
                coordinator.transactions,
                transactional_id,
                producer_id,
                producer_epoch,
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
        """The coordinator of an id, once no transaction of the id is ending, unless that takes long."""
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        coordinator = await self._coordinators.of(transactional_id)
        await self._wait_ended(transactional_id)
        return coordinator

    # Ending what was decided

    async def _wait_ended(self, transactional_id: str) -> None:
        """Return when no transaction of an id is ending, or when that takes long."""
        ending = self._ending.get(transactional_id)
        if ending is not None:
            await asyncio.wait([ending.task], timeout=SETTLE_WAIT_S)

    def _begin_ending(self, coordinator: TransactionCoordinator, transactional_id: str) -> None:
        """Start writing the markers of a prepared transaction."""
        before = self._ending.get(transactional_id)
        if before is not None and before.coordinator is coordinator and not before.task.done():
            return  # of one that coordinated earlier, the task ends without having done it
        task = self._begin(self._write_markers(coordinator, transactional_id))
        if task is not None:
            self._ending[transactional_id] = _Ending(coordinator, task)
            task.add_done_callback(lambda done: self._forget_ending(transactional_id, done))

    def _forget_ending(self, transactional_id: str, done: asyncio.Task[None]) -> None:
        ending = self._ending.get(transactional_id)
        if ending is not None and ending.task is done:
            del self._ending[transactional_id]

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """A task for this; None if the node is stopping: the next start finds the rest in the log."""
        assert self._tasks is not None
        try:
            return self._tasks.create_task(work)
        except RuntimeError:
            work.close()
            return None

    async def _write_markers(self, coordinator: TransactionCoordinator, transactional_id: str) -> None:
        said: set[str] = set()
        while coordinator.is_available:
            due = await coordinator.markers_due(transactional_id)
            if due is None:
                return
            end = deciding.TransactionEnd(
                due.producer_id, due.producer_epoch, due.is_commit, coordinator.coordinator_epoch, due.version
            )
            results = await self._markers.write(end, due.partitions)
            failed = {name: error for name, error in results.items() if error and not isinstance(error, _OVER)}
            if not failed and coordinator.is_available:
                # Nobody waits for this to be durable: should it be lost, the markers are found to be there.
                complete = deciding.decide_complete(
                    coordinator.transactions, transactional_id, now_ms=self._clock.now_ms()
                )
                if coordinator.carry_out(Outcome(complete.records, (), complete.timers)):
                    return
            for text in sorted({f"{name}: {error}" for name, error in failed.items()} - said):
                log.warning("no marker yet for transaction '%s' in %s", transactional_id, text)
                said.add(text)  # once: it may be tried until somebody has repaired that partition
            await asyncio.sleep(RETRY_S)

    # Time

    def _resume(self, loaded: TransactionCoordinator) -> None:
        """Complete the transactions that a crash left unfinished."""
        for transactional_id, record in loaded.transactions.by_id.items():
            if record.state.is_prepared:
                self._begin_ending(loaded, transactional_id)

    def _on_timeout(self, coordinator: TransactionCoordinator, transactional_id: str) -> None:
        self._begin(self._abort_expired(coordinator, transactional_id))

    async def _abort_expired(self, coordinator: TransactionCoordinator, transactional_id: str) -> None:
        """Abort a transaction that takes too long. While that cannot be written it is tried again: its timer has fired,
        and what it wrote keeps readers waiting. Whoever coordinates it next starts a timer of its own.
        """
        said: set[str] = set()
        while True:
            try:
                is_prepared = await self._try_to_abort(coordinator, transactional_id)
                break
            except BarnabasError as refusal:
                if str(refusal) not in said:
                    log.warning(
                        "the transaction of '%s' timed out and could not be aborted: %s", transactional_id, refusal
                    )
                    said.add(str(refusal))
            if not (coordinator.is_available and coordinator.is_current):
                return
            await asyncio.sleep(RETRY_S)
        if is_prepared:
            log.info("the transaction of '%s' timed out", transactional_id)

    async def _try_to_abort(self, coordinator: TransactionCoordinator, transactional_id: str) -> bool:
        next_id = NO_PRODUCER_ID
        if deciding.needs_producer_id(coordinator.transactions, transactional_id):
            with suppress(BarnabasError):  # without one it is tried again soon
                next_id = await self._producer_ids.take()
        return await coordinator.commit(
            lambda: deciding.decide_abort_expired(
                coordinator.transactions, transactional_id, next_producer_id=next_id, now_ms=self._clock.now_ms()
            ),
            is_own=True,
        )

    async def run_expiry(self) -> None:
        """Expire transactional ids regularly, forever."""
        while True:
            await asyncio.sleep(self.config.expiry_interval_ms / 1000)
            await self.expire_ids()

    async def expire_ids(self) -> int:
        """Delete expired ids; returns how many."""
        count = 0
        for coordinator in self._coordinators.available():
            expired = EXPIRED_AT_ONCE
            while expired == EXPIRED_AT_ONCE:
                try:
                    expired = await coordinator.commit(self._expiring(coordinator), is_own=True)
                except BarnabasError:
                    break  # it has ended, and said why
                count += expired
        return count

    def _expiring(self, coordinator: TransactionCoordinator) -> Callable[[], TransactionDecision[int]]:
        return lambda: expiring.decide_expiry(
            coordinator.transactions,
            retention_ms=self.config.id_expiration_ms,
            now_ms=self._clock.now_ms(),
            limit=EXPIRED_AT_ONCE,
        )

    # Administration

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.gauge("transactions_open", "Transactions that are neither committed nor aborted.", self._count_open)

    def _count_open(self) -> int:
        return sum(
            record.state is transaction_records.State.ONGOING
            for each in self._coordinators.available()
            for record in each.transactions.by_id.values()
        )

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int = -1,
        id_pattern: str | None = None,
    ) -> list[TransactionRecord]:
        """The matching transactions that this node coordinates."""
        found: list[TransactionRecord] = []
        for coordinator in await self._coordinators.all_loaded():
            found += await coordinator.list_transactions(
                states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms, id_pattern=id_pattern
            )
        return sorted(found, key=lambda record: record.transactional_id)

    async def describe(self, transactional_id: str) -> TransactionRecord:
        """One transactional id."""
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        coordinator = await self._coordinators.of(transactional_id)
        return await coordinator.describe(transactional_id)
