"""Appending records of a client: every check that comes before the log's own.

A batch stays bytes, once its records are known to match its header (`record_checks`). It is decoded only if its topic
needs that, for keys (compaction), another codec (`compression.type`) or a bounded age, and then on a thread:
`ServedTopic.must_open` says so.

A transactional batch goes into a transaction that is open in its partition, or that was just verified with its
coordinator (`verify`): a partition must have no transaction that its coordinator does not know of, since it would never
be ended.
"""

import asyncio
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from barnabas.core.errors import (
    BarnabasError,
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    InvalidTopic,
    PolicyViolation,
    RequestTimedOut,
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
from barnabas.core.records.checking import is_one_plain_record, read_one_plain
from barnabas.runtime.clock import Clock
from barnabas.runtime.guards import Guard
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition
from barnabas.services.opening import keeps_times, max_opened_bytes, open_batch
from barnabas.services.record_checks import RecordChecks
from barnabas.services.served import ServedTopic
from barnabas.services.settings import DeliverySemantics, TopicConfig
from barnabas.storage.health import DirectoryHealth
from barnabas.storage.log import Appended

ACKS_ALL: Final = -1
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


class Transacting(NamedTuple):
    """How transactions work with a client."""

    adds: bool  # a partition becomes part of the transaction by being written to; else it must be part of it
    refusal_of: Callable[[BarnabasError], BarnabasError]  # what it is told when the coordinator refuses


class Admission(Protocol):
    """Decides which partitions are part of a transaction: its coordinator."""

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, BarnabasError | None]:
        """For each partition None, when it is part of the producer's open transaction, or why it is not.

        `adds` makes them part of it; else they must be.
        """
        ...


class Verified:
    """The verified partitions of one transactional request. The guards are held until `end`."""

    __slots__ = ("_guards", "_refusals")

    def __init__(self) -> None:
        self._guards: dict[Partition, Guard] = {}
        self._refusals: dict[Partition, BarnabasError] = {}

    def begin(self, partition: Partition, header: BatchHeader, *, adds: bool) -> None:
        """Take a guard for a partition that is to be verified."""
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
        """The partitions to verify."""
        return list(self._guards)

    def refuse(self, partition: Partition, error: BarnabasError) -> None:
        self._refusals[partition] = error

    def guard_of(self, partition: Partition) -> Guard | None:
        """The guard for an append; refused if the partition is not part of the transaction."""
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

    def __init__(self, clock: Clock, offload: Offload, health: DirectoryHealth, admission: Admission) -> None:
        self._clock = clock
        self._health = health
        self._offload = offload
        self.record_checks = RecordChecks(offload)
        self.admission = admission

    def append(self, topic: ServedTopic, partition: Partition, records: memoryview | None, *, acks: int) -> Appended:
        """Check a batch and append it, without waiting.

        Not for a topic that must decode it. Raises `TakesLong`, with nothing done, if its records have to be checked on
        a thread: see `takes_long`.
        """
        now_ms = self._clock.now_ms()
        checked = self._check(topic.config, partition, records, acks=acks, now_ms=now_ms)
        if not is_one_plain_record(checked):
            self._check_records(topic.config, checked, now_ms=now_ms)
        appended = partition.append(checked, now_ms=now_ms)
        first_offset, last_offset, _, is_duplicate = appended
        if not is_duplicate:
            traffic = topic.traffic
            traffic.records_in += last_offset - first_offset + 1
            traffic.bytes_in += len(checked)
        return appended

    def append_one(self, topic: ServedTopic, partition: Partition, records: memoryview) -> int | None:
        """Check a batch and append it if it is what most are: one plain record, for a partition without other replicas.

        Returns its offset. None, with nothing done, means that `append` must be used.
        """
        plain = read_one_plain(records)
        if plain is None or self._health.is_full:
            return None
        config = topic.config
        if (
            config.delivery_semantics is not None
            or plain[2] - self._clock.now_ms() > config.timestamp_after_max_ms
            or (offset := partition.append_plain(records, plain)) is None
        ):
            return None
        traffic = topic.traffic
        traffic.records_in += 1
        traffic.bytes_in += len(records)
        return offset

    def append_verified(
        self, topic: ServedTopic, partition: Partition, records: memoryview | None, verified: Verified, *, acks: int
    ) -> Appended:
        """As `append`, for a batch of a request that names a transactional id."""
        now_ms = self._clock.now_ms()
        checked = self._check(topic.config, partition, records, acks=acks, now_ms=now_ms, has_transactional_id=True)
        if not is_one_plain_record(checked):
            self._check_records(topic.config, checked, now_ms=now_ms)
        return _counted(topic, checked, _append_checked(partition, checked, verified, now_ms=now_ms))

    async def append_opened(
        self,
        topic: ServedTopic,
        partition: Partition,
        records: memoryview | None,
        verified: Verified | None = None,
        *,
        acks: int,
    ) -> Appended:
        """As the two above, for a topic that must decode its batches, and for what takes long: done on a thread."""
        if is_internal(topic.name):
            raise InvalidTopic(f"'{topic.name}' is an internal topic: clients may not write to it")
        now_ms = self._clock.now_ms()
        has_id = verified is not None
        checked = bytearray(
            self._check(topic.config, partition, records, acks=acks, now_ms=now_ms, has_transactional_id=has_id)
        )
        if verified is not None:
            verified.guard_of(partition)  # refused before it is opened, if it is
        config = topic.config
        opened = await self._offload.run(lambda: self._open(checked, config, now_ms=now_ms))
        if not partition.is_alone and (acks == ACKS_ALL or partition.is_cut_off):
            partition.check_in_sync()  # once more: replicas may have fallen behind meanwhile
        return _counted(topic, opened, _append_checked(partition, opened, verified, now_ms=self._clock.now_ms()))

    def takes_long(self, topic: ServedTopic, records: memoryview | None) -> bool:
        """Whether a batch may be work for a thread, so that `append_opened` must be used."""
        return topic.must_open or self.record_checks.takes_long(
            topic.config.record_validation, records, now_ms=self._clock.now_ms()
        )

    def _open(self, batch: bytearray, config: TopicConfig, *, now_ms: int) -> bytearray:
        """Everything that is done with a batch on a thread."""
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
        transacting: Transacting,
    ) -> None:
        """Verify the partitions in which the transaction is not open yet, with one call to the coordinator."""
        adds = transacting.adds
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
                verified.refuse(partition, transacting.refusal_of(error))

    async def _admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        names: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, BarnabasError | None]:
        """The coordinator's answer; retried for a moment while it ends the producer's last transaction."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + CONCURRENT_PATIENCE_S
        while True:
            try:
                outcome = await self.admission.admit(transactional_id, producer_id, producer_epoch, names, adds=adds)
            except BarnabasError as error:
                outcome = dict.fromkeys(names, error)
            is_concurrent = any(isinstance(error, ConcurrentTransactions) for error in outcome.values())
            if not (adds and is_concurrent) or loop.time() >= give_up_at:
                return outcome
            await asyncio.sleep(CONCURRENT_BACKOFF_S)

    def _check(
        self,
        config: TopicConfig,
        partition: Partition,
        records: memoryview | None,
        *,
        acks: int,
        now_ms: int,
        has_transactional_id: bool = False,
    ) -> memoryview:
        if self._health.is_full:
            self._health.check_room()
        if records is None or len(records) < HEADER_SIZE:
            raise InvalidRecord("a produce request must have one whole record batch for each partition")
        length, magic, attributes, max_timestamp, producer_id, base_sequence, count = _peek(records)
        if magic != MAGIC:
            read_header(records)  # says which
        if length + LOG_OVERHEAD < len(records):
            raise InvalidRecord("a produce request must have exactly one record batch for each partition")
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
        if not partition.is_alone and (acks == ACKS_ALL or partition.is_cut_off):
            partition.check_in_sync()
        return records


def _counted(topic: ServedTopic, batch: bytearray | memoryview, appended: Appended) -> Appended:
    if not appended.is_duplicate:
        topic.traffic.records_in += appended.last_offset - appended.first_offset + 1
        topic.traffic.bytes_in += len(batch)
    return appended


def check_acks(acks: int) -> None:
    """Refuse acks other than 0, 1 or all."""
    if acks not in (0, 1, ACKS_ALL):
        raise InvalidRequiredAcks(f"acks={acks} is not one of 0, 1 and -1 (all)")


def _check_kind(attributes: int, records: memoryview, *, has_transactional_id: bool) -> None:
    if attributes & _NOT_OF_CLIENTS:
        raise InvalidRecord("a client may not write control batches")
    if attributes & _LOG_APPEND_TIME:
        raise InvalidTimestamp("a client may not send a batch with LogAppendTime")
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
    """Correct the maximum timestamp in the header of a batch.

    As in Kafka. A lookup by time uses the header, and would miss the record.
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
    """The header of a batch that needs a transaction; None for any other, and for one that will be refused anyway."""
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


def _check_semantics(semantics: DeliverySemantics, *, acks: int, is_idempotent: bool) -> None:
    """Refuse a produce that is weaker than the topic's `delivery.semantics`."""
    if semantics is DeliverySemantics.AT_MOST_ONCE:
        return
    if acks != ACKS_ALL:
        raise PolicyViolation(f"the topic has delivery.semantics={semantics.value}: produce with acks=all, not {acks}")
    if semantics is DeliverySemantics.EXACTLY_ONCE and not is_idempotent:
        raise PolicyViolation("the topic has delivery.semantics=exactly-once: produce with enable.idempotence=true")
