"""Taking records from a client: every check that comes before the log's own.

A batch stays bytes, once its records are known to be what its header says (`record_checks`). It is opened only where
its topic asks for that, because it must have keys (compaction), be in another codec (`compression.type`) or be of a
bounded age, and then on a thread: `ServedTopic.must_open` says so.

A transactional batch goes into a transaction that is open in its partition, or that the coordinator was asked about
just before (`verify`): a partition must have no transaction that its coordinator does not know of, for nobody would
end it.
"""

import asyncio
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from barnabas.core.errors import (
    BarnabasError,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    InvalidTopic,
    InvalidTxnState,
    NotCoordinator,
    NotEnoughReplicas,
    PolicyViolation,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
)
from barnabas.core.metadata.names import is_internal
from barnabas.core.model import NO_PRODUCER_ID, TopicPartition
from barnabas.core.records.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MIN_RECORD_SIZE,
    BatchHeader,
    check_crc,
    read_header,
    seal,
    write_header,
)
from barnabas.core.records.checking import is_one_plain_record
from barnabas.runtime.clock import Clock
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Guard, Partition
from barnabas.services.opening import keeps_times, max_opened_bytes, open_batch
from barnabas.services.record_checks import RecordChecks
from barnabas.services.served import ServedTopic
from barnabas.services.settings import DeliverySemantics, TopicConfig
from barnabas.storage.health import DirectoryHealth
from barnabas.storage.log import Appended

ACKS_ALL: Final = -1
# Produce versions that know of TRANSACTION_ABORTABLE, and that add partitions to the transaction by writing to them.
ABORTABLE_FROM: Final = 11
ADDS_FROM: Final = 12
ADMISSION_TIMEOUT_S: Final = 30.0
# The end of a producer's last transaction takes a moment: asking again is cheaper than having the records sent again.
CONCURRENT_BACKOFF_S: Final = 0.02
CONCURRENT_PATIENCE_S: Final = 0.1
# Batch length, magic, attributes, max timestamp, producer id, base sequence, records: what is asked of every batch.
_peek: Final = struct.Struct(">8xi4xb4xh12xqq2xii").unpack_from
_CODEC_BITS: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_NOT_OF_CLIENTS: Final = 0x60  # control batches, and compaction's delete horizon
_SPECIAL: Final = _NOT_OF_CLIENTS | _TRANSACTIONAL | _LOG_APPEND_TIME


class Admission(Protocol):
    """Says which partitions are part of a transaction: its coordinator."""

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, BarnabasError | None]:
        """For each partition None, when it is part of the producer's open transaction, or why it is not.

        `adds` makes them part of it; else they must be.
        """
        ...


class Verified:
    """What was found out about the partitions of one transactional request. The guards are held until `end`."""

    __slots__ = ("_guards", "_refusals")

    def __init__(self) -> None:
        self._guards: dict[Partition, Guard] = {}
        self._refusals: dict[Partition, BarnabasError] = {}

    def begin(self, partition: Partition, header: BatchHeader, *, adds: bool) -> None:
        """Take a guard for a partition that the coordinator is to be asked about."""
        if partition in self._guards:
            return
        try:
            self._guards[partition] = partition.begin_verification(
                header.producer_id, header.producer_epoch, begins_anew=adds
            )
        except BarnabasError as error:
            self._refusals[partition] = error.with_traceback(None)

    @property
    def partitions(self) -> list[Partition]:
        """Those to ask about."""
        return list(self._guards)

    def refuse(self, partition: Partition, error: BarnabasError) -> None:
        self._refusals[partition] = error

    def guard_of(self, partition: Partition) -> Guard | None:
        """What to append with; refused when the partition is not part of the transaction."""
        refusal = self._refusals.get(partition)
        if refusal is not None:
            raise refusal
        return self._guards.get(partition)

    def end(self) -> None:
        for partition, guard in self._guards.items():
            partition.end_verification(guard)
        self._guards, self._refusals = {}, {}  # a refusal that was raised knows who keeps it


class Produce:
    """The verb: append a client's batch to a partition."""

    def __init__(self, clock: Clock, offload: Offload, health: DirectoryHealth) -> None:
        self._clock = clock
        self._health = health
        self._offload = offload
        self.record_checks = RecordChecks(offload)
        self.admission: Admission | None = None  # set once there is a coordinator

    def append(self, topic: ServedTopic, partition: Partition, records: memoryview | None, *, acks: int) -> Appended:
        """Check a batch and append it, now. Not for a topic that must open it.

        `TakesLong`, with nothing done, when its records have to be checked on a thread: see `takes_long`.
        """
        now_ms = self._clock.now_ms()
        checked = self._check(topic.config, records, acks=acks, now_ms=now_ms)
        if not is_one_plain_record(checked):
            self._check_records(topic.config, checked, now_ms=now_ms)
        return partition.append(checked, now_ms=now_ms)

    def append_verified(
        self, topic: ServedTopic, partition: Partition, records: memoryview | None, verified: Verified, *, acks: int
    ) -> Appended:
        """As `append`, for a batch of a request that names a transactional id."""
        now_ms = self._clock.now_ms()
        checked = self._check(topic.config, records, acks=acks, now_ms=now_ms, has_transactional_id=True)
        self._check_records(topic.config, checked, now_ms=now_ms)
        return _append_checked(partition, checked, verified, now_ms=now_ms)

    async def append_opened(
        self,
        topic: ServedTopic,
        partition: Partition,
        records: memoryview | None,
        verified: Verified | None = None,
        *,
        acks: int,
    ) -> Appended:
        """As the two above, for a topic that must open its batches, and for what takes long: done on a thread."""
        if is_internal(topic.name):
            raise InvalidTopic(f"'{topic.name}' is the broker's own: clients may not write to it")
        now_ms = self._clock.now_ms()
        has_id = verified is not None
        checked = bytearray(self._check(topic.config, records, acks=acks, now_ms=now_ms, has_transactional_id=has_id))
        if verified is not None:
            verified.guard_of(partition)  # refused before it is opened, if it is
        config = topic.config
        opened = await self._offload.run(lambda: self._open(checked, config, now_ms=now_ms))
        return _append_checked(partition, opened, verified, now_ms=self._clock.now_ms())

    def takes_long(self, topic: ServedTopic, records: memoryview | None) -> bool:
        """Whether a batch may be work for a thread, so that `append_opened` is the way."""
        return topic.must_open or self.record_checks.takes_long(
            topic.config.record_validation, records, now_ms=self._clock.now_ms()
        )

    def _open(self, batch: bytearray, config: TopicConfig, *, now_ms: int) -> bytearray:
        """All that is done with a batch on a thread."""
        newest = self.record_checks.check_long(config.record_validation, batch)
        if newest is not None:
            _correct_time(batch, newest, config, now_ms=now_ms)
        return open_batch(batch, config, now_ms=now_ms)

    def _check_records(self, config: TopicConfig, records: memoryview, *, now_ms: int) -> None:
        newest = self.record_checks.check(config.record_validation, records, now_ms=now_ms)
        if newest is not None:
            _correct_time(records, newest, config, now_ms=now_ms)

    async def verify(
        self,
        verified: Verified,
        transactional_id: str,
        batches: Sequence[tuple[Partition, BatchHeader]],
        *,
        version: int,
    ) -> None:
        """Ask the coordinator once about all partitions whose batches are in no transaction that is open there.

        `version` is that of the Produce request, and says which refusals its client can read.
        """
        adds = version >= ADDS_FROM
        for partition, header in batches:
            if not partition.is_in_transaction(header):
                verified.begin(partition, header, adds=adds)
        asked = verified.partitions
        if not asked:
            return
        _, header = batches[0]
        names = [partition.name for partition in asked]
        try:
            async with asyncio.timeout(ADMISSION_TIMEOUT_S):
                outcome = await self._admit(
                    transactional_id, header.producer_id, header.producer_epoch, names, adds=adds
                )
        except TimeoutError:
            outcome = dict.fromkeys(names, RequestTimedOut("the transaction's coordinator did not answer in time"))
        for partition in asked:
            error = outcome[partition.name]
            if error is not None:
                verified.refuse(partition, refusal_of(error, version=version))

    async def _admit(
        self, transactional_id: str, producer_id: int, epoch: int, names: Sequence[TopicPartition], *, adds: bool
    ) -> Mapping[TopicPartition, BarnabasError | None]:
        """What the coordinator says, asked again for a moment while it ends the producer's last transaction."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + CONCURRENT_PATIENCE_S
        while True:
            if self.admission is None:
                return dict.fromkeys(names, CoordinatorNotAvailable("no coordinator of transactions is here"))
            try:
                outcome = await self.admission.admit(transactional_id, producer_id, epoch, names, adds=adds)
            except BarnabasError as error:
                outcome = dict.fromkeys(names, error)
            is_concurrent = any(isinstance(error, ConcurrentTransactions) for error in outcome.values())
            if not (adds and is_concurrent) or loop.time() >= give_up_at:
                return outcome
            await asyncio.sleep(CONCURRENT_BACKOFF_S)

    def _check(
        self,
        config: TopicConfig,
        records: memoryview | None,
        *,
        acks: int,
        now_ms: int,
        has_transactional_id: bool = False,
    ) -> memoryview:
        if self._health.is_full:
            self._health.check_room()
        if records is None or len(records) < HEADER_SIZE:
            raise InvalidRecord("a produce request must bring one whole record batch for each partition")
        length, magic, attributes, max_timestamp, producer_id, base_sequence, count = _peek(records)
        if magic != MAGIC:
            read_header(records)  # says which
        if length + LOG_OVERHEAD < len(records):
            raise InvalidRecord("a produce request must bring exactly one record batch for each partition")
        if attributes & _SPECIAL:
            _check_kind(attributes, records, has_transactional_id=has_transactional_id)
        if attributes & _CODEC_BITS and count * MIN_RECORD_SIZE > max_opened_bytes(records):
            # It is not opened here, and a few bytes must not use up billions of offsets.
            raise InvalidRecord(f"a compressed batch of {len(records)} bytes claims {count} records")
        if producer_id != NO_PRODUCER_ID and (producer_id < 0 or base_sequence < 0):
            raise InvalidRecord(f"a batch of producer {producer_id} has sequence number {base_sequence}")
        if max_timestamp - now_ms > config.timestamp_after_max_ms:
            _check_not_ahead(max_timestamp, config)
        if config.delivery_semantics is not None:
            _check_semantics(config.delivery_semantics, acks=acks, is_idempotent=producer_id >= 0)
        if acks == ACKS_ALL and config.min_insync_replicas > 1:
            raise NotEnoughReplicas(f"1 replica is in sync, min.insync.replicas={config.min_insync_replicas}")
        return records


def check_acks(acks: int) -> None:
    """Refuse what is not 0, 1 or all."""
    if acks not in (0, 1, ACKS_ALL):
        raise InvalidRequiredAcks(f"acks={acks} is not one of 0, 1 and -1 (all)")


def _check_kind(attributes: int, records: memoryview, *, has_transactional_id: bool) -> None:
    if attributes & _NOT_OF_CLIENTS:
        raise InvalidRecord("a client may not write control batches")
    if attributes & _LOG_APPEND_TIME:
        raise InvalidTimestamp("a client may not stamp a batch with the log's time (LogAppendTime)")
    if not has_transactional_id:
        raise TransactionalIdAuthorizationFailed("a transactional batch in a request without a transactional id")
    header = read_header(records)
    if header.producer_id < 0 or header.producer_epoch < 0:
        raise InvalidRecord(
            f"a transactional batch of producer {header.producer_id} with epoch {header.producer_epoch}"
        )


def _check_not_ahead(max_timestamp: int, config: TopicConfig) -> None:
    if keeps_times(config):
        raise InvalidTimestamp(
            f"a timestamp of {max_timestamp} is more than message.timestamp.after.max.ms="
            f"{config.timestamp_after_max_ms} ahead of the broker's clock"
        )


def _correct_time(batch: bytearray | memoryview, newest: int, config: TopicConfig, *, now_ms: int) -> None:
    """Put the newest timestamp of its records into the header of a batch that has another there.

    As in Kafka. A lookup by time goes by the header, and would miss the record.
    """
    if newest - now_ms > config.timestamp_after_max_ms:
        _check_not_ahead(newest, config)
    header = read_header(batch)
    check_crc(batch, 0, header)  # before it gets another
    write_header(batch, 0, header._replace(max_timestamp=newest))
    seal(batch, 0, header.size)


def _append_checked(
    partition: Partition, batch: bytearray | memoryview, verified: Verified | None, *, now_ms: int
) -> Appended:
    if verified is None or not batch[ATTRIBUTES_AT + 1] & _TRANSACTIONAL:
        return partition.append(batch, now_ms=now_ms)
    return partition.append_in_transaction(batch, guard=verified.guard_of(partition), now_ms=now_ms)


def transactional_header(records: memoryview | None) -> BatchHeader | None:
    """The header of a batch that needs a transaction; None for any other, and for what is refused however that is."""
    if (
        records is None
        or len(records) < HEADER_SIZE
        or records[MAGIC_AT] != MAGIC
        or not records[ATTRIBUTES_AT + 1] & _TRANSACTIONAL
        or records[ATTRIBUTES_AT + 1] & _NOT_OF_CLIENTS
    ):
        return None
    try:
        header = read_header(records)
    except BarnabasError:
        return None
    return header if header.producer_id >= 0 and header.producer_epoch >= 0 and header.base_sequence >= 0 else None


def check_one_producer(headers: Iterable[BatchHeader]) -> None:
    """Refuse a request with transactional batches of several producers: it names one transactional id."""
    producers = {(header.producer_id, header.producer_epoch) for header in headers}
    if len(producers) > 1:
        raise InvalidProducerIdMapping(f"a request has transactional batches of {len(producers)} producers")


def refusal_of(error: BarnabasError, *, version: int) -> BarnabasError:
    """What the client of a Produce `version` is told when the coordinator refuses its transaction."""
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch(str(error))  # to a producer, that says to abort and go on
    if isinstance(error, TransactionAbortable) and version < ABORTABLE_FROM:
        return InvalidTxnState(str(error))
    is_old_concurrent = isinstance(error, ConcurrentTransactions) and version < ADDS_FROM
    if is_old_concurrent or isinstance(error, _RETRIED):
        # Clients do not know these as answers to a produce, and this one they retry without looking for another leader.
        return NotEnoughReplicas(f"whether the partition is part of the transaction is not known: {error}")
    return error


_RETRIED: Final = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator, RequestTimedOut)


def _check_semantics(semantics: DeliverySemantics, *, acks: int, is_idempotent: bool) -> None:
    """Refuse a produce that is weaker than the topic asks for."""
    if semantics is DeliverySemantics.AT_MOST_ONCE:
        return
    if acks != ACKS_ALL:
        raise PolicyViolation(f"the topic has delivery.semantics={semantics.value}: produce with acks=all, not {acks}")
    if semantics is DeliverySemantics.EXACTLY_ONCE and not is_idempotent:
        raise PolicyViolation("the topic has delivery.semantics=exactly-once: produce with enable.idempotence=true")
