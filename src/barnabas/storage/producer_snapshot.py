"""Producer state as a file, `<offset>.snapshot`: the producers of the log below that offset.

In Kafka's own layout, which has room for one batch a producer. The last five are needed, or a retry that comes
after a restart would be taken for a gap and sent again under a new epoch: a duplicate. So a producer has one
entry for each remembered batch, the newest last; a reader that keeps the last entry of a producer, as Kafka
does, sees exactly what it expects.
"""

import struct
from collections.abc import Iterable
from typing import Final

from barnabas.core.model import NO_OFFSET, NO_SEQUENCE
from barnabas.core.records.batch import MAX_SEQUENCE
from barnabas.core.records.checksum import crc32c
from barnabas.core.replica.producers import Producer, WrittenBatch

VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_NO_BATCH: Final = WrittenBatch(NO_SEQUENCE, NO_SEQUENCE, NO_OFFSET, NO_OFFSET, -1)


class DamagedSnapshot(Exception):
    """A snapshot that cannot be read; an older one and a longer replay replace it."""


def encode_snapshot(producers: Iterable[Producer]) -> bytes:
    """The file's bytes for these producers."""
    entries = [
        _entry(producer, batch, is_newest=batch is newest)
        for producer in producers
        for newest in (producer.batches[-1] if producer.batches else _NO_BATCH,)
        for batch in (producer.batches or (_NO_BATCH,))
    ]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def parse_snapshot(data: bytes) -> list[Producer]:
    """The producers in a file, refused when its checksum or length is wrong."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise DamagedSnapshot(f"snapshot has only {len(data)} bytes")
    version, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if version != VERSION or crc != crc32c(body):
        raise DamagedSnapshot(f"snapshot has version {version} or a wrong checksum")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise DamagedSnapshot(f"snapshot claims {count} entries in {len(body)} bytes")
    producers: dict[int, Producer] = {}
    for fields in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, start = fields
        producer = producers.setdefault(producer_id, Producer(producer_id))
        if producer.epoch != epoch:
            producer.epoch, producer.batches = epoch, ()
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        producer.transaction_start = start if start >= 0 else None
        if last_offset >= 0:
            first_sequence = (last_sequence - delta) & MAX_SEQUENCE
            batch = WrittenBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
            producer.batches = (*producer.batches, batch)
    return list(producers.values())


def _entry(producer: Producer, batch: WrittenBatch, *, is_newest: bool) -> bytes:
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        batch.last_sequence,
        batch.last_offset,
        batch.last_offset - batch.first_offset,
        producer.last_timestamp if is_newest else batch.timestamp,
        producer.coordinator_epoch,
        producer.transaction_start if is_newest and producer.transaction_start is not None else -1,
    )
