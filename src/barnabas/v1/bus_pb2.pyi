from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Acks(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACKS_UNSPECIFIED: _ClassVar[Acks]
    ACKS_ALL: _ClassVar[Acks]
    ACKS_LEADER: _ClassVar[Acks]

class Compression(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPRESSION_UNSPECIFIED: _ClassVar[Compression]
    COMPRESSION_NONE: _ClassVar[Compression]
    COMPRESSION_GZIP: _ClassVar[Compression]
    COMPRESSION_SNAPPY: _ClassVar[Compression]
    COMPRESSION_LZ4: _ClassVar[Compression]
    COMPRESSION_ZSTD: _ClassVar[Compression]

class Partitioner(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PARTITIONER_UNSPECIFIED: _ClassVar[Partitioner]
    PARTITIONER_STICKY: _ClassVar[Partitioner]
    PARTITIONER_ROUND_ROBIN: _ClassVar[Partitioner]

class Isolation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ISOLATION_UNSPECIFIED: _ClassVar[Isolation]
    ISOLATION_READ_COMMITTED: _ClassVar[Isolation]
    ISOLATION_READ_UNCOMMITTED: _ClassVar[Isolation]

class Consistency(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONSISTENCY_UNSPECIFIED: _ClassVar[Consistency]
    CONSISTENCY_COMMITTED: _ClassVar[Consistency]
    CONSISTENCY_LEADER: _ClassVar[Consistency]
    CONSISTENCY_ANY: _ClassVar[Consistency]

class AckMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACK_MODE_UNSPECIFIED: _ClassVar[AckMode]
    ACK_MODE_EXPLICIT: _ClassVar[AckMode]
    ACK_MODE_AUTOMATIC: _ClassVar[AckMode]
ACKS_UNSPECIFIED: Acks
ACKS_ALL: Acks
ACKS_LEADER: Acks
COMPRESSION_UNSPECIFIED: Compression
COMPRESSION_NONE: Compression
COMPRESSION_GZIP: Compression
COMPRESSION_SNAPPY: Compression
COMPRESSION_LZ4: Compression
COMPRESSION_ZSTD: Compression
PARTITIONER_UNSPECIFIED: Partitioner
PARTITIONER_STICKY: Partitioner
PARTITIONER_ROUND_ROBIN: Partitioner
ISOLATION_UNSPECIFIED: Isolation
ISOLATION_READ_COMMITTED: Isolation
ISOLATION_READ_UNCOMMITTED: Isolation
CONSISTENCY_UNSPECIFIED: Consistency
CONSISTENCY_COMMITTED: Consistency
CONSISTENCY_LEADER: Consistency
CONSISTENCY_ANY: Consistency
ACK_MODE_UNSPECIFIED: AckMode
ACK_MODE_EXPLICIT: AckMode
ACK_MODE_AUTOMATIC: AckMode

class Header(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class NewRecord(_message.Message):
    __slots__ = ("key", "value", "headers", "timestamp_ms", "partition")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    timestamp_ms: int
    partition: int
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., timestamp_ms: _Optional[int] = ..., partition: _Optional[int] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("offset", "timestamp_ms", "key", "value", "headers")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    def __init__(self, offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("kafka_code", "name", "message", "is_retriable")
    KAFKA_CODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    IS_RETRIABLE_FIELD_NUMBER: _ClassVar[int]
    kafka_code: int
    name: str
    message: str
    is_retriable: bool
    def __init__(self, kafka_code: _Optional[int] = ..., name: _Optional[str] = ..., message: _Optional[str] = ..., is_retriable: _Optional[bool] = ...) -> None: ...

class RecordOutcome(_message.Message):
    __slots__ = ("partition", "offset", "error")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    error: Error
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class ProduceRequest(_message.Message):
    __slots__ = ("topic", "records", "acks", "compression", "partitioner", "timeout_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    records: _containers.RepeatedCompositeFieldContainer[NewRecord]
    acks: Acks
    compression: Compression
    partitioner: Partitioner
    timeout_ms: int
    def __init__(self, topic: _Optional[str] = ..., records: _Optional[_Iterable[_Union[NewRecord, _Mapping]]] = ..., acks: _Optional[_Union[Acks, str]] = ..., compression: _Optional[_Union[Compression, str]] = ..., partitioner: _Optional[_Union[Partitioner, str]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class ProduceResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[RecordOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[RecordOutcome, _Mapping]]] = ...) -> None: ...

class ProduceStreamRequest(_message.Message):
    __slots__ = ("options", "records")
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    options: ProduceStreamOptions
    records: _containers.RepeatedCompositeFieldContainer[NewRecord]
    def __init__(self, options: _Optional[_Union[ProduceStreamOptions, _Mapping]] = ..., records: _Optional[_Iterable[_Union[NewRecord, _Mapping]]] = ...) -> None: ...

class ProduceStreamOptions(_message.Message):
    __slots__ = ("topic", "acks", "compression", "partitioner", "timeout_ms", "resume_token", "is_not_idempotent")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    IS_NOT_IDEMPOTENT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    acks: Acks
    compression: Compression
    partitioner: Partitioner
    timeout_ms: int
    resume_token: bytes
    is_not_idempotent: bool
    def __init__(self, topic: _Optional[str] = ..., acks: _Optional[_Union[Acks, str]] = ..., compression: _Optional[_Union[Compression, str]] = ..., partitioner: _Optional[_Union[Partitioner, str]] = ..., timeout_ms: _Optional[int] = ..., resume_token: _Optional[bytes] = ..., is_not_idempotent: _Optional[bool] = ...) -> None: ...

class ProduceStreamResponse(_message.Message):
    __slots__ = ("sequence", "outcomes", "resume_token")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    outcomes: _containers.RepeatedCompositeFieldContainer[RecordOutcome]
    resume_token: bytes
    def __init__(self, sequence: _Optional[int] = ..., outcomes: _Optional[_Iterable[_Union[RecordOutcome, _Mapping]]] = ..., resume_token: _Optional[bytes] = ...) -> None: ...

class TopicPartition(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("topic", "partition", "offset", "metadata")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    metadata: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., metadata: _Optional[str] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("earliest", "latest", "offset", "timestamp_ms")
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    earliest: Earliest
    latest: Latest
    offset: int
    timestamp_ms: int
    def __init__(self, earliest: _Optional[_Union[Earliest, _Mapping]] = ..., latest: _Optional[_Union[Latest, _Mapping]] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ...) -> None: ...

class Earliest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Latest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TopicSelection(_message.Message):
    __slots__ = ("topic", "partitions")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionSelection]
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[PartitionSelection, _Mapping]]] = ...) -> None: ...

class PartitionSelection(_message.Message):
    __slots__ = ("partition", "start")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    partition: int
    start: Start
    def __init__(self, partition: _Optional[int] = ..., start: _Optional[_Union[Start, _Mapping]] = ...) -> None: ...

class ConsumeOptions(_message.Message):
    __slots__ = ("topics", "group", "instance_id", "start", "isolation", "consistency", "ack_mode", "max_outstanding_records", "max_outstanding_bytes", "max_batch_records", "max_batch_bytes", "until_end", "commit_interval_ms")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    ACK_MODE_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTSTANDING_RECORDS_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTSTANDING_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_RECORDS_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNTIL_END_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicSelection]
    group: str
    instance_id: str
    start: Start
    isolation: Isolation
    consistency: Consistency
    ack_mode: AckMode
    max_outstanding_records: int
    max_outstanding_bytes: int
    max_batch_records: int
    max_batch_bytes: int
    until_end: bool
    commit_interval_ms: int
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicSelection, _Mapping]]] = ..., group: _Optional[str] = ..., instance_id: _Optional[str] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., isolation: _Optional[_Union[Isolation, str]] = ..., consistency: _Optional[_Union[Consistency, str]] = ..., ack_mode: _Optional[_Union[AckMode, str]] = ..., max_outstanding_records: _Optional[int] = ..., max_outstanding_bytes: _Optional[int] = ..., max_batch_records: _Optional[int] = ..., max_batch_bytes: _Optional[int] = ..., until_end: _Optional[bool] = ..., commit_interval_ms: _Optional[int] = ...) -> None: ...

class ConsumeRequest(_message.Message):
    __slots__ = ("options", "acknowledge")
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    options: ConsumeOptions
    acknowledge: Acknowledge
    def __init__(self, options: _Optional[_Union[ConsumeOptions, _Mapping]] = ..., acknowledge: _Optional[_Union[Acknowledge, _Mapping]] = ...) -> None: ...

class Acknowledge(_message.Message):
    __slots__ = ("positions",)
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    def __init__(self, positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ...) -> None: ...

class ConsumeResponse(_message.Message):
    __slots__ = ("records", "assigned", "revoked", "committed")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    records: Records
    assigned: Assigned
    revoked: Revoked
    committed: Committed
    def __init__(self, records: _Optional[_Union[Records, _Mapping]] = ..., assigned: _Optional[_Union[Assigned, _Mapping]] = ..., revoked: _Optional[_Union[Revoked, _Mapping]] = ..., committed: _Optional[_Union[Committed, _Mapping]] = ...) -> None: ...

class Records(_message.Message):
    __slots__ = ("topic", "partition", "records", "next_offset", "high_watermark")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    records: _containers.RepeatedCompositeFieldContainer[Record]
    next_offset: int
    high_watermark: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., next_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ...) -> None: ...

class Assigned(_message.Message):
    __slots__ = ("positions", "member_id")
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    member_id: str
    def __init__(self, positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ..., member_id: _Optional[str] = ...) -> None: ...

class Revoked(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[TopicPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[TopicPartition, _Mapping]]] = ...) -> None: ...

class Committed(_message.Message):
    __slots__ = ("positions", "error")
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    error: Error
    def __init__(self, positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("topic", "partition", "offset", "isolation", "consistency")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    isolation: Isolation
    consistency: Consistency
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., isolation: _Optional[_Union[Isolation, str]] = ..., consistency: _Optional[_Union[Consistency, str]] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("record",)
    RECORD_FIELD_NUMBER: _ClassVar[int]
    record: Record
    def __init__(self, record: _Optional[_Union[Record, _Mapping]] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("group", "positions")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    group: str
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    def __init__(self, group: _Optional[str] = ..., positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ...) -> None: ...

class CommitResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[CommitOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[CommitOutcome, _Mapping]]] = ...) -> None: ...

class CommitOutcome(_message.Message):
    __slots__ = ("topic", "partition", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    error: Error
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("name", "partitions", "replication_factor", "configs", "validate_only", "timeout_ms")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: int
    replication_factor: int
    configs: _containers.ScalarMap[str, str]
    validate_only: bool
    timeout_ms: int
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., configs: _Optional[_Mapping[str, str]] = ..., validate_only: _Optional[bool] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class CreateTopicResponse(_message.Message):
    __slots__ = ("name", "topic_id", "partitions", "replication_factor")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("name", "timeout_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    timeout_ms: int
    def __init__(self, name: _Optional[str] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class DeleteTopicResponse(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    def __init__(self, topic_id: _Optional[bytes] = ...) -> None: ...

class ListTopicsRequest(_message.Message):
    __slots__ = ("include_internal", "page_size", "page_token")
    INCLUDE_INTERNAL_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    include_internal: bool
    page_size: int
    page_token: str
    def __init__(self, include_internal: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTopicsResponse(_message.Message):
    __slots__ = ("topics", "next_page_token")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicSummary]
    next_page_token: str
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class TopicSummary(_message.Message):
    __slots__ = ("name", "topic_id", "partitions", "replication_factor", "is_internal")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    IS_INTERNAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int
    is_internal: bool
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., is_internal: _Optional[bool] = ...) -> None: ...

class DescribeTopicRequest(_message.Message):
    __slots__ = ("name", "without_offsets")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    name: str
    without_offsets: bool
    def __init__(self, name: _Optional[str] = ..., without_offsets: _Optional[bool] = ...) -> None: ...

class DescribeTopicResponse(_message.Message):
    __slots__ = ("topic", "partitions", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    topic: TopicSummary
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionDescription]
    configs: _containers.ScalarMap[str, str]
    def __init__(self, topic: _Optional[_Union[TopicSummary, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionDescription, _Mapping]]] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PartitionDescription(_message.Message):
    __slots__ = ("partition", "leader", "leader_epoch", "replicas", "in_sync", "start_offset", "end_offset")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    partition: int
    leader: int
    leader_epoch: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    in_sync: _containers.RepeatedScalarFieldContainer[int]
    start_offset: int
    end_offset: int
    def __init__(self, partition: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., in_sync: _Optional[_Iterable[int]] = ..., start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("changed", "deleted", "is_complete")
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    IS_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    changed: _containers.RepeatedCompositeFieldContainer[TopicState]
    deleted: _containers.RepeatedScalarFieldContainer[str]
    is_complete: bool
    def __init__(self, changed: _Optional[_Iterable[_Union[TopicState, _Mapping]]] = ..., deleted: _Optional[_Iterable[str]] = ..., is_complete: _Optional[bool] = ...) -> None: ...

class TopicState(_message.Message):
    __slots__ = ("name", "topic_id", "partitions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionDescription]
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[PartitionDescription, _Mapping]]] = ...) -> None: ...
