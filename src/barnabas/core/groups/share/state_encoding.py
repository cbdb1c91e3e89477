"""The records of `__share_group_state` in Kafka's bytes: keys plain, of type 0 (snapshot) or 1 (update); values
flexible, version 0.
"""

from struct import Struct
from typing import Final

from barnabas.core.errors import InvalidGroupRecord
from barnabas.core.groups.share.partition import StateBatch
from barnabas.core.groups.share.persisted import (
    UNKNOWN_COUNT,
    ShareKey,
    SnapshotRecord,
    StateEntry,
    StateTombstone,
    UpdateRecord,
)
from barnabas.core.groups.share.window import Persisted
from barnabas.core.log_fields import (
    INT16,
    INT32,
    BadFields,
    FieldReader,
    Tagged,
    compact_array,
    string,
    tagged_fields,
)

SNAPSHOT: Final = 0
UPDATE: Final = 1
COMPLETE_COUNT: Final = 0  # the tag
_VERSION: Final = INT16.pack(0)
_NO_TAGS: Final = tagged_fields()
_SNAPSHOT: Final = Struct(">iiiqqq")  # snapshot, state and leader epoch, start offset, times of creation and writing
_UPDATE: Final = Struct(">iiq")
_BATCH: Final = Struct(">qqbh")


def encode_key(entry: StateEntry) -> bytes:
    """The key of an entry as it is in the log."""
    kind = UPDATE if isinstance(entry, UpdateRecord) else SNAPSHOT
    group, topic_id, partition = entry.key
    return INT16.pack(kind) + string(group) + topic_id.bytes + INT32.pack(partition)


def encode_value(entry: StateEntry) -> bytes | None:
    """The value of an entry as it is in the log; None is a tombstone."""
    if isinstance(entry, StateTombstone):
        return None
    if isinstance(entry, SnapshotRecord):
        start = _SNAPSHOT.pack(
            entry.snapshot_epoch,
            entry.state_epoch,
            entry.leader_epoch,
            entry.start_offset,
            entry.create_time_ms,
            entry.write_time_ms,
        )
    else:
        start = _UPDATE.pack(entry.snapshot_epoch, entry.leader_epoch, entry.start_offset)
    tagged: list[Tagged] = []
    if entry.complete_count != UNKNOWN_COUNT:
        tagged = [(COMPLETE_COUNT, INT32.pack(entry.complete_count))]
    return _VERSION + start + compact_array(entry.batches, _encode_batch) + tagged_fields(tagged)


def _encode_batch(batch: StateBatch) -> bytes:
    return _BATCH.pack(batch.first, batch.last, batch.state, batch.delivery_count) + _NO_TAGS


def decode(key: bytes, value: bytes | None) -> StateEntry:
    """The entry that a record of the log stands for; refused if this version does not know it."""
    try:
        reader = FieldReader(key)
        kind = reader.number(INT16)
        if kind not in (SNAPSHOT, UPDATE):
            raise BadFields(f"{kind} is not a record type known to this version")
        found = ShareKey(reader.string(), reader.uuid(), reader.number(INT32))
        reader.check_end()
        return StateTombstone(found) if value is None else _read(kind, found, FieldReader(value))
    except BadFields as bad:
        raise InvalidGroupRecord(f"not a record of share group state: {bad}") from None


def _read(kind: int, key: ShareKey, reader: FieldReader) -> StateEntry:
    version = reader.number(INT16)
    if version != 0:
        raise BadFields(f"unknown version {version} of a value")
    if kind == SNAPSHOT:
        snapshot_epoch, state_epoch, leader_epoch, start_offset, created_ms, written_ms = reader.numbers(_SNAPSHOT)
        batches = reader.compact_array(lambda: _read_batch(reader))
        count = _read_count(reader)
        return SnapshotRecord(
            key, snapshot_epoch, state_epoch, leader_epoch, start_offset, count, created_ms, written_ms, batches
        )
    snapshot_epoch, leader_epoch, start_offset = reader.numbers(_UPDATE)
    batches = reader.compact_array(lambda: _read_batch(reader))
    return UpdateRecord(key, snapshot_epoch, leader_epoch, start_offset, _read_count(reader), batches)


def _read_count(reader: FieldReader) -> int:
    data = reader.tagged_fields().get(COMPLETE_COUNT)
    reader.check_end()
    if data is None:
        return UNKNOWN_COUNT
    return FieldReader(data).number(INT32)


def _read_batch(reader: FieldReader) -> StateBatch:
    first, last, state, count = reader.numbers(_BATCH)
    reader.tagged_fields()
    if state not in tuple(Persisted):
        raise BadFields(f"{state} is not a state of records")
    return StateBatch(first, last, Persisted(state), count)
