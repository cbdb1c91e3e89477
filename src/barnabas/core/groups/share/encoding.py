"""The values of a share group as the log of groups holds them: Kafka's, version 0, all flexible."""

from typing import Final

from barnabas.core.groups.consumer.encoding import ValueCodec
from barnabas.core.groups.records import (
    GroupRecord,
    ShareCurrentMemberRecord,
    ShareGroupRecord,
    ShareMemberRecord,
    ShareStatesRecord,
    ShareTargetEpochRecord,
    ShareTargetMemberRecord,
    StateTopic,
    TopicPartitions,
)
from barnabas.core.log_fields import (
    INT8,
    INT16,
    INT32,
    INT64,
    FieldReader,
    compact_array,
    compact_nullable_string,
    compact_string,
    int32_array,
    int64_field,
    tagged_fields,
)

ASSIGNMENT_TIME: Final = 0
NO_TIME: Final = 0
_VERSION: Final = INT16.pack(0)
_NO_TAGS: Final = tagged_fields()


def _encode_member(record: ShareMemberRecord) -> bytes:
    return b"".join(
        (
            _VERSION,
            compact_nullable_string(record.rack),
            compact_string(record.client_id),
            compact_string(record.client_host),
            compact_array(record.topics, compact_string),
            _NO_TAGS,
        )
    )


def _read_member(reader: FieldReader, group: str, member_id: str) -> ShareMemberRecord:
    rack = reader.compact_nullable_string()
    client_id, client_host = reader.compact_string(), reader.compact_string()
    topics = reader.compact_array(reader.compact_string)
    reader.tagged_fields()
    return ShareMemberRecord(group, member_id, rack, client_id, client_host, topics)


def _encode_group(record: ShareGroupRecord) -> bytes:
    return _VERSION + INT32.pack(record.epoch) + INT64.pack(record.metadata_hash) + _NO_TAGS


def _read_group(reader: FieldReader, group: str) -> ShareGroupRecord:
    epoch, metadata_hash = reader.number(INT32), reader.number(INT64)
    reader.tagged_fields()
    return ShareGroupRecord(group, epoch, metadata_hash)


def _encode_target_epoch(record: ShareTargetEpochRecord) -> bytes:
    tagged = [(ASSIGNMENT_TIME, INT64.pack(record.time_ms))] if record.time_ms != NO_TIME else []
    return _VERSION + INT32.pack(record.epoch) + tagged_fields(tagged)


def _read_target_epoch(reader: FieldReader, group: str) -> ShareTargetEpochRecord:
    epoch = reader.number(INT32)
    return ShareTargetEpochRecord(group, epoch, int64_field(reader.tagged_fields(), ASSIGNMENT_TIME, NO_TIME))


def _encode_target(record: ShareTargetMemberRecord) -> bytes:
    return _VERSION + compact_array(record.partitions, _encode_partitions) + _NO_TAGS


def _read_target(reader: FieldReader, group: str, member_id: str) -> ShareTargetMemberRecord:
    partitions = reader.compact_array(lambda: _read_partitions(reader))
    reader.tagged_fields()
    return ShareTargetMemberRecord(group, member_id, partitions)


def _encode_current(record: ShareCurrentMemberRecord) -> bytes:
    return b"".join(
        (
            _VERSION,
            INT32.pack(record.epoch),
            INT32.pack(record.previous_epoch),
            INT8.pack(record.state),
            compact_array(record.assigned, _encode_partitions),
            _NO_TAGS,
        )
    )


def _read_current(reader: FieldReader, group: str, member_id: str) -> ShareCurrentMemberRecord:
    epoch, previous_epoch, state = reader.number(INT32), reader.number(INT32), reader.number(INT8)
    assigned = reader.compact_array(lambda: _read_partitions(reader))
    reader.tagged_fields()
    return ShareCurrentMemberRecord(group, member_id, epoch, previous_epoch, state, assigned)


def _encode_states(record: ShareStatesRecord) -> bytes:
    return b"".join(
        (
            _VERSION,
            compact_array(record.initializing, _encode_topic),
            compact_array(record.initialized, _encode_topic),
            compact_array(record.deleting, lambda each: each.topic_id.bytes + compact_string(each.name) + _NO_TAGS),
            _NO_TAGS,
        )
    )


def _encode_topic(topic: StateTopic) -> bytes:
    return topic.topic_id.bytes + compact_string(topic.name) + int32_array(topic.partitions) + _NO_TAGS


def _read_states(reader: FieldReader, group: str) -> ShareStatesRecord:
    def read_topic() -> StateTopic:
        topic = StateTopic(reader.uuid(), reader.compact_string(), reader.int32_array())
        reader.tagged_fields()
        return topic

    def read_name() -> StateTopic:
        topic = StateTopic(reader.uuid(), reader.compact_string())
        reader.tagged_fields()
        return topic

    initializing, initialized = reader.compact_array(read_topic), reader.compact_array(read_topic)
    deleting = reader.compact_array(read_name)
    reader.tagged_fields()
    return ShareStatesRecord(group, initializing, initialized, deleting)


def _encode_partitions(held: TopicPartitions) -> bytes:
    return held.topic_id.bytes + int32_array(held.partitions) + _NO_TAGS


def _read_partitions(reader: FieldReader) -> TopicPartitions:
    held = TopicPartitions(reader.uuid(), reader.int32_array())
    reader.tagged_fields()
    return held


SHARE_VALUES: Final[dict[type[GroupRecord], ValueCodec]] = {
    ShareMemberRecord: ValueCodec(_encode_member, _read_member),
    ShareGroupRecord: ValueCodec(_encode_group, _read_group),
    ShareTargetEpochRecord: ValueCodec(_encode_target_epoch, _read_target_epoch),
    ShareTargetMemberRecord: ValueCodec(_encode_target, _read_target),
    ShareCurrentMemberRecord: ValueCodec(_encode_current, _read_current),
    ShareStatesRecord: ValueCodec(_encode_states, _read_states),
}
