"""What the API answers and takes, as values that msgspec writes, reads and describes.

Of what is taken a name that is not known is refused: a typing error must not be a default.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from barnabas.edge.http.problems import Problem


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    host: str
    port: int


class Node(msgspec.Struct, frozen=True, kw_only=True):
    node_id: int
    host: str
    port: int
    rack: str | None
    listeners: list[Listener]
    state: Literal["active", "fenced", "leaving"]
    is_controller: bool
    is_voter: bool
    partitions_led: int
    replicas: int
    size_bytes: int
    disk_total_bytes: int
    disk_free_bytes: int
    error: str | None = None


class QuorumMember(msgspec.Struct, frozen=True, kw_only=True):
    node_id: int
    role: Literal["leader", "voter", "observer"]
    log_end_offset: int
    lag: int
    last_fetch_ms: int
    last_caught_up_ms: int


class Quorum(msgspec.Struct, frozen=True, kw_only=True):
    leader_id: int
    epoch: int
    high_watermark: int
    members: list[QuorumMember]


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int
    topics: int
    partitions: int
    under_replicated: int
    under_min_isr: int
    offline: int


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str
    node_id: int
    controller_id: int
    version: str
    features: dict[str, int]
    counts: Counts
    quorum: Quorum
    is_writable: bool
    is_export_allowed: bool
    needs_login: bool
    principal: str
    allowed: list[str]


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    topic_id: str
    is_internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    offline: int
    size_bytes: int
    cleanup_policy: str
    bytes_in_per_second: float
    groups: int
    lag: int


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    topics: list[TopicRow]
    total: int
    next: str | None = None


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    start_offset: int
    end_offset: int
    sizes: dict[int, int]
    segments: int | None = None
    error: Problem | None = None


class GroupOfTopic(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    lag: int
    lag_seconds: float


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: str | None
    source: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    type: str
    meaning: str | None


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    topic_id: str
    is_internal: bool
    partitions: list[Partition]
    settings: list[Setting]
    groups: list[GroupOfTopic]
    allowed: list[str]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    settings: list[Setting]


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    state: str
    type: str
    protocol_type: str
    coordinator: int
    members: int | None = None
    lag: int | None = None
    lag_seconds: float | None = None


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    groups: list[GroupRow]
    total: int
    next: str | None = None
    errors: dict[int, str] = {}


class TopicPartitions(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partitions: list[int]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: list[TopicPartitions]


class GroupOffset(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    committed: int
    end_offset: int | None
    lag: int | None
    lag_seconds: float | None
    member_id: str | None = None


class Group(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    state: str
    type: str
    protocol: str
    coordinator: int
    members: list[Member]
    offsets: list[GroupOffset]
    lag: int
    lag_seconds: float | None
    allowed: list[str]


class Producer(msgspec.Struct, frozen=True, kw_only=True):
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    transaction_start_offset: int | None


class Producers(msgspec.Struct, frozen=True, kw_only=True):
    producers: list[Producer]
    errors: dict[int, str] = {}


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    transactional_id: str
    state: str
    producer_id: int
    coordinator: int
    producer_epoch: int | None = None
    timeout_ms: int | None = None
    start_ms: int | None = None
    partitions: list[TopicPartitions] = []


class Transactions(msgspec.Struct, frozen=True, kw_only=True):
    transactions: list[Transaction]
    errors: dict[int, str] = {}


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    client: str
    listener: str
    client_id: str | None
    software: str
    principal: str


class Connections(msgspec.Struct, frozen=True, kw_only=True):
    node_id: int
    total: int
    connections: list[Connection]


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a record. Always text here: whoever shows it must not take it for markup."""

    encoding: Literal["utf8", "base64", "hex"]
    data: str
    size: int
    is_json: bool = False
    is_cut: bool = False
    why_not_text: str | None = None


class Header(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: Content | None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: Literal["CreateTime", "LogAppendTime"]
    key: Content | None
    value: Content | None
    headers: list[Header]
    href: str


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    scanned_records: int
    scanned_bytes: int
    left_offsets: int
    is_complete: bool


class Records(msgspec.Struct, frozen=True, kw_only=True):
    records: list[Record]
    progress: Progress
    next: str | None
    errors: dict[int, Problem] = {}


class NewHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    value: str | None = None
    encoding: Literal["utf8", "base64"] = "utf8"


class NewRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str | None = None
    value: str | None = None
    key_encoding: Literal["utf8", "base64"] = "utf8"
    value_encoding: Literal["utf8", "base64"] = "utf8"
    headers: list[NewHeader] = []
    partition: Annotated[int, Meta(ge=0)] | None = None
    timestamp: Annotated[int, Meta(ge=0)] | None = None


class Produce(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    records: Annotated[list[NewRecord], Meta(min_length=1, max_length=10_000)]
    acks: Literal["all", "1"] = "all"
    validate_only: bool = False


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    partition: int | None
    offset: int | None
    timestamp: int | None
    error: Problem | None = None


class Produced(msgspec.Struct, frozen=True, kw_only=True):
    records: list[Placed]
    written: int
    validate_only: bool


class NewTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    partitions: Annotated[int, Meta(ge=1)] | None = None
    replication_factor: Annotated[int, Meta(ge=1)] | None = None
    settings: dict[str, str] = {}
    validate_only: bool = False


class AlterTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    partitions: Annotated[int, Meta(ge=1)] | None = None
    settings: dict[str, str | None] = {}
    validate_only: bool = False


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    validate_only: bool
    changes: list[str]


class ResetOffsets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: Literal["earliest", "latest", "time", "offset", "shift"]
    value: int | None = None
    topics: list[str] = []
    partitions: list[Annotated[int, Meta(ge=0)]] = []
    validate_only: bool = False


class NewOffset(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    before: int | None
    after: int | None
    error: Problem | None = None


class OffsetsReset(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    validate_only: bool
    offsets: list[NewOffset]


class LoggedIn(msgspec.Struct, frozen=True, kw_only=True):
    token: str
    until_ms: int
    principal: str


class Series(msgspec.Struct, frozen=True, kw_only=True):
    step_s: int
    until_ms: int
    values: dict[str, list[float]]
    nodes: list[int]
