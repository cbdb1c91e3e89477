"""Decoding a batch, for topics that need it: keys, timestamps, another codec.

Runs on a thread. A batch that decompresses to more than clients put into one is refused beforehand.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.core.errors import CorruptRecord, InvalidRecord, InvalidTimestamp
from barnabas.core.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
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
from barnabas.services.settings import TopicConfig
from barnabas.storage.config import FOREVER

MIN_OPENED_LIMIT: Final = 32 * 1024 * 1024
OPENED_RATIO: Final = 8
MAX_RECORD_ERRORS: Final = 1000  # of one batch; its message says how many there are
_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class RecordsRefused(InvalidRecord):
    """Some records of a batch are invalid, so the batch is refused."""

    def __init__(self, message: str, errors: tuple[tuple[int, str | None], ...]) -> None:
        super().__init__(message)
        self.errors = errors  # index in the batch, and what is wrong with it


def keeps_times(config: TopicConfig) -> bool:
    """Whether records keep the timestamps of their producer."""
    return config.log.timestamp_type is TimestampType.CREATE_TIME


def open_batch(batch: bytearray, config: TopicConfig, *, now_ms: int) -> bytearray:
    """Decode a batch: refuse records that its topic does not accept, and recompress it with the topic's codec."""
    header = read_header(batch)
    if header.size != len(batch):
        raise CorruptRecord(f"a batch claims {header.size} bytes but has {len(batch)}")
    check_batch(batch, 0, header)
    try:
        return _opened(batch, header, config, now_ms=now_ms)
    except CorruptRecord as error:
        # Its checksum is right: to send it once more, which is what this error asks for, would not help.
        raise InvalidRecord(f"the batch cannot be read: {error}") from error


def _opened(batch: bytearray, header: BatchHeader, config: TopicConfig, *, now_ms: int) -> bytearray:
    if config.log.is_compacted or (config.timestamp_before_max_ms != FOREVER and keeps_times(config)):
        _check_records(iter_records(batch, 0, header, max_bytes=max_opened_bytes(batch)), config, now_ms=now_ms)
    codec = _CODECS.get(config.compression_type, header.codec)
    return batch if codec is header.codec else _recompress(batch, header, codec, config)


def max_opened_bytes(batch: bytearray | memoryview) -> int:
    """The most bytes a batch may decompress to. Clients fill a batch by its uncompressed size: a megabyte or so."""
    return max(MIN_OPENED_LIMIT, OPENED_RATIO * len(batch))


def _check_records(records: Iterable[Record], config: TopicConfig, *, now_ms: int) -> None:
    must_have_keys = config.log.is_compacted
    is_dated = config.timestamp_before_max_ms != FOREVER and keeps_times(config)
    oldest = now_ms - config.timestamp_before_max_ms if is_dated else 0
    errors: list[tuple[int, str | None]] = []
    without_key, first_late = 0, oldest
    for number, record in enumerate(records):
        if must_have_keys and record.key is None:
            without_key += 1
            if len(errors) < MAX_RECORD_ERRORS:
                errors.append((number, "a compacted topic does not accept records without a key"))
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
    section = payload(batch, 0, header, max_bytes=max_opened_bytes(batch))
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
