"""Control batches: the commit and abort markers that end a transaction in a partition's log.

Owns the layout of their single record: the key is a version and a type, the value of a transaction marker a version and
the epoch of the coordinator that wrote it. A later version only adds fields at the end, so they are ignored. Control
types that are not transaction markers (the metadata log has its own) are identified by their type and not read further;
an unknown one reads as `UNKNOWN`, because a reader must skip it.

Must not know: the state of transactions, or who may write a marker.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.core.errors import CorruptRecord, InvalidRecord
from barnabas.core.model import NO_EPOCH
from barnabas.core.records.batch import BatchHeader, Buffer
from barnabas.core.records.record import Record, decode_records, encode_batch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0

# A marker is some 70 bytes. Other control records are larger, but no honest one comes near this.
_MAX_CONTROL_BYTES: Final = 1024 * 1024


class MarkerType(IntEnum):
    """What a control record says; the numbers are the format's."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @property
    def ends_transaction(self) -> bool:
        return self is MarkerType.COMMIT or self is MarkerType.ABORT


_TYPES: Final = {int(type_): type_ for type_ in MarkerType}


class Marker(NamedTuple):
    """A control record. Only one that ends a transaction has a coordinator epoch."""

    type: MarkerType
    coordinator_epoch: int = NO_EPOCH


def encode_marker(
    type_: MarkerType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytearray:
    """A sealed control batch that commits or aborts a producer's transaction."""
    if not type_.ends_transaction:
        raise InvalidRecord(f"{type_.name} does not end a transaction")
    record = Record(
        offset=base_offset,
        timestamp=timestamp_ms,
        key=_KEY.pack(_VERSION, type_),
        value=_VALUE.pack(_VERSION, coordinator_epoch),
    )
    return encode_batch(
        (record,),
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_marker(buffer: Buffer, position: int, header: BatchHeader) -> Marker:
    """The marker in a control batch whose checksum was settled before.

    A control batch that a cleaned log has emptied reads as `UNKNOWN`: what it once ended is gone as well.
    """
    if not header.is_control:
        raise InvalidRecord(f"batch at offset {header.base_offset} is not a control batch")
    records = decode_records(buffer, position, header, max_bytes=_MAX_CONTROL_BYTES)
    if not records:
        return Marker(MarkerType.UNKNOWN)
    type_ = _read_type(records[0], header)
    if not type_.ends_transaction:
        return Marker(type_)
    if len(records) != 1:
        raise CorruptRecord(f"marker batch at offset {header.base_offset} has {len(records)} records instead of one")
    value = records[0].value
    if value is None or len(value) < _VALUE.size:
        raise CorruptRecord(f"marker at offset {header.base_offset} has no coordinator epoch")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise CorruptRecord(f"marker at offset {header.base_offset} has version {version}")
    return Marker(type_, coordinator_epoch)


def _read_type(record: Record, header: BatchHeader) -> MarkerType:
    key = record.key
    if key is None or len(key) < _KEY.size:
        raise CorruptRecord(f"control record at offset {header.base_offset} has no type")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecord(f"control record at offset {header.base_offset} has version {version}")
    return _TYPES.get(number, MarkerType.UNKNOWN)
