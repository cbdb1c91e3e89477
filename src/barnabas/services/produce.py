"""Taking records from a client: every check that comes before the log's own.

A batch stays bytes. It is opened only where its topic asks for that, because it must have keys (compaction), be in
another codec (`compression.type`) or be of a bounded age, and then on a thread: `ServedTopic.must_open` says so.
"""

import struct
from collections.abc import Iterable
from typing import Final

from barnabas.core.errors import (
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    InvalidTopic,
    InvalidTxnState,
    NotEnoughReplicas,
    PolicyViolation,
)
from barnabas.core.metadata.names import is_internal
from barnabas.core.model import NO_PRODUCER_ID
from barnabas.core.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_RECORD_SIZE,
    BatchHeader,
    Codec,
    TimestampType,
    attributes_of,
    check_batch,
    read_header,
    seal,
    write_header,
)
from barnabas.core.records.compression import compress
from barnabas.core.records.record import Record, check_counts, iter_records, payload
from barnabas.runtime.clock import Clock
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition
from barnabas.services.served import ServedTopic
from barnabas.services.settings import DeliverySemantics, TopicConfig
from barnabas.storage.config import FOREVER
from barnabas.storage.log import Appended

ACKS_ALL: Final = -1
MIN_OPENED_LIMIT: Final = 32 * 1024 * 1024
OPENED_RATIO: Final = 8
MAX_RECORD_ERRORS: Final = 1000  # of one batch; its message says how many there are
# Batch length, magic, attributes, max timestamp, producer id, base sequence, records: what is asked of every batch.
_peek: Final = struct.Struct(">8xi4xb4xh12xqq2xii").unpack_from
_CODEC_BITS: Final = 0x07
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_NOT_OF_CLIENTS: Final = 0x60  # control batches, and compaction's delete horizon
_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class RecordsRefused(InvalidRecord):
    """Some records of a batch are wrong, and so the batch is refused."""

    def __init__(self, message: str, errors: tuple[tuple[int, str | None], ...]) -> None:
        super().__init__(message)
        self.errors = errors  # index in the batch, and what is wrong with it


class Produce:
    """The verb: append a client's batch to a partition."""

    def __init__(self, clock: Clock, offload: Offload) -> None:
        self._clock = clock
        self._offload = offload

    def append(self, topic: ServedTopic, partition: Partition, records: memoryview | None, *, acks: int) -> Appended:
        """Check a batch and append it, now. Not for a topic that must open it."""
        now_ms = self._clock.now_ms()
        checked = self._check(topic.config, records, acks=acks, now_ms=now_ms)
        return partition.append(checked, now_ms=now_ms)

    async def append_opened(
        self, topic: ServedTopic, partition: Partition, records: memoryview | None, *, acks: int
    ) -> Appended:
        """As `append`, for a topic that must open its batches: that is done on a thread."""
        if is_internal(topic.name):
            raise InvalidTopic(f"'{topic.name}' is the broker's own: clients may not write to it")
        now_ms = self._clock.now_ms()
        checked = bytearray(self._check(topic.config, records, acks=acks, now_ms=now_ms))
        config = topic.config
        opened = await self._offload.run(lambda: open_batch(checked, config, now_ms=now_ms))
        return partition.append(opened, now_ms=self._clock.now_ms())

    def _check(self, config: TopicConfig, records: memoryview | None, *, acks: int, now_ms: int) -> memoryview:
        if records is None or len(records) < HEADER_SIZE:
            raise InvalidRecord("a produce request must bring one whole record batch for each partition")
        length, magic, attributes, max_timestamp, producer_id, base_sequence, count = _peek(records)
        if magic != MAGIC:
            read_header(records)  # says which
        if length + LOG_OVERHEAD < len(records):
            raise InvalidRecord("a produce request must bring exactly one record batch for each partition")
        if attributes & (_NOT_OF_CLIENTS | _TRANSACTIONAL):
            _refuse_kind(attributes)
        if attributes & _CODEC_BITS and count * MIN_RECORD_SIZE > _max_opened_bytes(records):
            # It is not opened here, and a few bytes must not use up billions of offsets.
            raise InvalidRecord(f"a compressed batch of {len(records)} bytes claims {count} records")
        if producer_id != NO_PRODUCER_ID and (producer_id < 0 or base_sequence < 0):
            raise InvalidRecord(f"a batch of producer {producer_id} has sequence number {base_sequence}")
        if max_timestamp - now_ms > config.timestamp_after_max_ms and _keeps_times(config):
            raise InvalidTimestamp(
                f"a timestamp of {max_timestamp} is more than message.timestamp.after.max.ms="
                f"{config.timestamp_after_max_ms} ahead of the broker's clock"
            )
        if config.delivery_semantics is not None:
            _check_semantics(config.delivery_semantics, acks=acks, is_idempotent=producer_id >= 0)
        if acks == ACKS_ALL and config.min_insync_replicas > 1:
            raise NotEnoughReplicas(f"1 replica is in sync, min.insync.replicas={config.min_insync_replicas}")
        return records


def check_acks(acks: int) -> None:
    """Refuse what is not 0, 1 or all."""
    if acks not in (0, 1, ACKS_ALL):
        raise InvalidRequiredAcks(f"acks={acks} is not one of 0, 1 and -1 (all)")


def _keeps_times(config: TopicConfig) -> bool:
    return config.log.timestamp_type is TimestampType.CREATE_TIME


def _refuse_kind(attributes: int) -> None:
    if attributes & _NOT_OF_CLIENTS:
        raise InvalidRecord("a client may not write control batches")
    raise InvalidTxnState("a transactional batch outside of any transaction: transactions are not served yet")


def _check_semantics(semantics: DeliverySemantics, *, acks: int, is_idempotent: bool) -> None:
    """Refuse a produce that is weaker than the topic asks for."""
    if semantics is DeliverySemantics.AT_MOST_ONCE:
        return
    if acks != ACKS_ALL:
        raise PolicyViolation(f"the topic has delivery.semantics={semantics.value}: produce with acks=all, not {acks}")
    if semantics is DeliverySemantics.EXACTLY_ONCE and not is_idempotent:
        raise PolicyViolation("the topic has delivery.semantics=exactly-once: produce with enable.idempotence=true")


def open_batch(batch: bytearray, config: TopicConfig, *, now_ms: int) -> bytearray:
    """Look into a batch: refuse records its topic does not take, and give it the codec that the topic asks for."""
    header = read_header(batch)
    check_batch(batch, 0, header)
    if config.log.is_compacted or (config.timestamp_before_max_ms != FOREVER and _keeps_times(config)):
        _check_records(iter_records(batch, 0, header, max_bytes=_max_opened_bytes(batch)), config, now_ms=now_ms)
    codec = _CODECS.get(config.compression_type, header.codec)
    return batch if codec is header.codec else _recompress(batch, header, codec, config)


def _max_opened_bytes(batch: bytearray | memoryview) -> int:
    """What a batch may unpack to. Clients fill a batch by what it was before compression: a megabyte or so."""
    return max(MIN_OPENED_LIMIT, OPENED_RATIO * len(batch))


def _check_records(records: Iterable[Record], config: TopicConfig, *, now_ms: int) -> None:
    must_have_keys = config.log.is_compacted
    is_dated = config.timestamp_before_max_ms != FOREVER and _keeps_times(config)
    oldest = now_ms - config.timestamp_before_max_ms if is_dated else 0
    errors: list[tuple[int, str | None]] = []
    without_key, first_late = 0, oldest
    for number, record in enumerate(records):
        if must_have_keys and record.key is None:
            without_key += 1
            if len(errors) < MAX_RECORD_ERRORS:
                errors.append((number, "a compacted topic takes no record without a key"))
        if 0 <= record.timestamp < first_late:
            first_late = record.timestamp
    if without_key:
        raise RecordsRefused(f"{without_key} record(s) have no key, and the topic is compacted", tuple(errors))
    if first_late < oldest:
        raise InvalidTimestamp(
            f"a timestamp of {first_late} is more than message.timestamp.before.max.ms="
            f"{config.timestamp_before_max_ms} behind the broker's clock"
        )


def _recompress(batch: bytearray, header: BatchHeader, codec: Codec, config: TopicConfig) -> bytearray:
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    level = levels.get(codec)
    section = payload(batch, 0, header, max_bytes=_max_opened_bytes(batch))
    check_counts(header, len(section))  # the log does so for what is not compressed
    body = bytes(section) if codec is Codec.NONE else compress(codec, section, None if level in (None, -1) else level)
    converted = bytearray(HEADER_SIZE + len(body))
    converted[HEADER_SIZE:] = body
    attributes = attributes_of(
        codec=codec,
        timestamp_type=header.timestamp_type,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )
    write_header(converted, 0, header._replace(attributes=attributes, batch_length=len(converted) - LOG_OVERHEAD))
    seal(converted, 0, len(converted))
    return converted
