"""The values of a consumer group (KIP-848) as the log of groups holds them: Kafka's, version 0, all flexible."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from barnabas.core.groups.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerCurrentMemberRecord,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerRegexRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetMemberRecord,
    GroupRecord,
    TopicPartitions,
)
from barnabas.core.log_fields import (
    INT8,
    INT16,
    INT32,
    INT64,
    BadFields,
    FieldReader,
    Tagged,
    compact_array,
    compact_data,
    compact_nullable_string,
    compact_string,
    int32_array,
    int64_field,
    tagged_fields,
)

METADATA_HASH: Final = 0
CLASSIC_METADATA: Final = 0
ASSIGNMENT_TIME: Final = 0
ASSIGNMENT_EPOCHS: Final = 0
NO_TIME: Final = 0  # Kafka's default of the time of an assignment

_VERSION: Final = INT16.pack(0)
_NO_TAGS: Final = tagged_fields()
_NULL: Final = b"\xff"  # of a structure; one that is there begins with 1
_PRESENT: Final = b"\x01"
_NULL_ARRAY: Final = b"\0"

Epochs = tuple[tuple[int, ...], ...]  # by topic and partition


class ValueCodec(NamedTuple):
    """How a value is written, its version included, and read, after its version and with the fields of its key."""

    encode: Callable[[Any], bytes]
    read: Callable[..., GroupRecord]


def _encode_group(record: ConsumerGroupRecord) -> bytes:
    tagged = [(METADATA_HASH, INT64.pack(record.metadata_hash))] if record.metadata_hash else []
    return _VERSION + INT32.pack(record.epoch) + tagged_fields(tagged)


def _read_group(reader: FieldReader, group: str) -> ConsumerGroupRecord:
    epoch = reader.number(INT32)
    return ConsumerGroupRecord(group, epoch, int64_field(reader.tagged_fields(), METADATA_HASH, 0))


def _encode_member(record: ConsumerMemberRecord) -> bytes:
    tagged = [] if record.classic is None else [(CLASSIC_METADATA, _PRESENT + _encode_classic(record.classic))]
    return b"".join(
        (
            _VERSION,
            compact_nullable_string(record.instance_id),
            compact_nullable_string(record.rack),
            compact_string(record.client_id),
            compact_string(record.client_host),
            compact_array(record.topics, compact_string),
            compact_nullable_string(record.regex),
            INT32.pack(record.rebalance_timeout_ms),
            compact_nullable_string(record.assignor),
            tagged_fields(tagged),
        )
    )


def _read_member(reader: FieldReader, group: str, member_id: str) -> ConsumerMemberRecord:
    instance_id, rack = reader.compact_nullable_string(), reader.compact_nullable_string()
    client_id, client_host = reader.compact_string(), reader.compact_string()
    topics = reader.compact_array(reader.compact_string)
    regex = reader.compact_nullable_string()
    rebalance_timeout_ms = reader.number(INT32)
    assignor = reader.compact_nullable_string()
    classic = reader.tagged_fields().get(CLASSIC_METADATA, _NULL)
    return ConsumerMemberRecord(
        group,
        member_id,
        instance_id,
        rack,
        client_id,
        client_host,
        topics,
        regex,
        rebalance_timeout_ms,
        assignor,
        None if classic == _NULL else _read_classic(classic),
    )


def _encode_classic(metadata: ClassicMemberMetadata) -> bytes:
    protocols = compact_array(
        metadata.protocols, lambda each: compact_string(each.name) + compact_data(each.metadata) + _NO_TAGS
    )
    return INT32.pack(metadata.session_timeout_ms) + protocols + _NO_TAGS


def _read_classic(data: bytes) -> ClassicMemberMetadata:
    reader = FieldReader(data)
    if reader.take(1) != _PRESENT:
        raise BadFields("the metadata of a classic member is neither present nor null")

    def read_protocol() -> ClassicProtocol:
        protocol = ClassicProtocol(reader.compact_string(), reader.compact_data())
        reader.tagged_fields()
        return protocol

    metadata = ClassicMemberMetadata(reader.number(INT32), reader.compact_array(read_protocol))
    reader.tagged_fields()
    reader.check_end()
    return metadata


def _encode_target_epoch(record: ConsumerTargetEpochRecord) -> bytes:
    tagged = [(ASSIGNMENT_TIME, INT64.pack(record.time_ms))] if record.time_ms != NO_TIME else []
    return _VERSION + INT32.pack(record.epoch) + tagged_fields(tagged)


def _read_target_epoch(reader: FieldReader, group: str) -> ConsumerTargetEpochRecord:
    epoch = reader.number(INT32)
    return ConsumerTargetEpochRecord(group, epoch, int64_field(reader.tagged_fields(), ASSIGNMENT_TIME, NO_TIME))


def _encode_target(record: ConsumerTargetMemberRecord) -> bytes:
    return _VERSION + compact_array(record.partitions, _encode_partitions) + _NO_TAGS


def _read_target(reader: FieldReader, group: str, member_id: str) -> ConsumerTargetMemberRecord:
    partitions = reader.compact_array(lambda: _read_partitions(reader))
    reader.tagged_fields()
    return ConsumerTargetMemberRecord(group, member_id, partitions)


def _encode_current(record: ConsumerCurrentMemberRecord) -> bytes:
    return b"".join(
        (
            _VERSION,
            INT32.pack(record.epoch),
            INT32.pack(record.previous_epoch),
            INT8.pack(record.state),
            _encode_held(record.assigned, record.assigned_epochs),
            _encode_held(record.pending_revocation, record.pending_epochs),
            _NO_TAGS,
        )
    )


def _read_current(reader: FieldReader, group: str, member_id: str) -> ConsumerCurrentMemberRecord:
    epoch, previous_epoch, state = reader.number(INT32), reader.number(INT32), reader.number(INT8)
    assigned, assigned_epochs = _read_held(reader, epoch)
    pending_revocation, pending_epochs = _read_held(reader, epoch)
    reader.tagged_fields()
    return ConsumerCurrentMemberRecord(
        group, member_id, epoch, previous_epoch, state, assigned, pending_revocation, assigned_epochs, pending_epochs
    )


def _encode_held(held: tuple[TopicPartitions, ...], epochs: Epochs) -> bytes:
    if not epochs:
        return compact_array(held, _encode_partitions)
    pairs = list(zip(held, epochs, strict=True))
    return compact_array(pairs, lambda each: _encode_partitions(each[0], ((ASSIGNMENT_EPOCHS, int32_array(each[1])),)))


def _read_held(reader: FieldReader, epoch: int) -> tuple[tuple[TopicPartitions, ...], Epochs]:
    """Partitions, and the epoch since which each is held; no epochs if none are stored."""

    def read() -> tuple[TopicPartitions, bytes | None]:
        held = TopicPartitions(reader.uuid(), reader.int32_array())
        return held, reader.tagged_fields().get(ASSIGNMENT_EPOCHS)

    found = reader.compact_array(read)
    partitions = tuple(held for held, _ in found)
    if all(data in (None, _NULL_ARRAY) for _, data in found):
        return partitions, ()
    return partitions, tuple(_read_epochs(data, len(held.partitions), epoch) for held, data in found)


def _read_epochs(data: bytes | None, count: int, epoch: int) -> tuple[int, ...]:
    if data in (None, _NULL_ARRAY):
        return (epoch,) * count
    reader = FieldReader(data)
    epochs = reader.int32_array()
    reader.check_end()
    if len(epochs) != count:
        raise BadFields(f"{len(epochs)} epochs are those of {count} partitions")
    return epochs


def _encode_regex(record: ConsumerRegexRecord) -> bytes:
    return b"".join(
        (
            _VERSION,
            compact_array(record.topics, compact_string),
            INT64.pack(record.version),
            INT64.pack(record.time_ms),
            _NO_TAGS,
        )
    )


def _read_regex(reader: FieldReader, group: str, regex: str) -> ConsumerRegexRecord:
    topics = reader.compact_array(reader.compact_string)
    version, time_ms = reader.number(INT64), reader.number(INT64)
    reader.tagged_fields()
    return ConsumerRegexRecord(group, regex, topics, version, time_ms)


def _encode_partitions(held: TopicPartitions, tagged: tuple[Tagged, ...] = ()) -> bytes:
    return held.topic_id.bytes + int32_array(held.partitions) + (tagged_fields(tagged) if tagged else _NO_TAGS)


def _read_partitions(reader: FieldReader) -> TopicPartitions:
    held = TopicPartitions(reader.uuid(), reader.int32_array())
    reader.tagged_fields()
    return held


CONSUMER_VALUES: Final[dict[type[GroupRecord], ValueCodec]] = {
    ConsumerGroupRecord: ValueCodec(_encode_group, _read_group),
    ConsumerMemberRecord: ValueCodec(_encode_member, _read_member),
    ConsumerTargetEpochRecord: ValueCodec(_encode_target_epoch, _read_target_epoch),
    ConsumerTargetMemberRecord: ValueCodec(_encode_target, _read_target),
    ConsumerCurrentMemberRecord: ValueCodec(_encode_current, _read_current),
    ConsumerRegexRecord: ValueCodec(_encode_regex, _read_regex),
}
