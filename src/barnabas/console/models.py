"""What the console reads of the API's answers. What it does not know of an answer it leaves alone, so that a console
and a node of different versions get on.
"""

import msgspec


class User(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    mechanisms: dict[str, int]


class Users(msgspec.Struct, frozen=True, kw_only=True):
    users: list[User]
    total: int


class Acl(msgspec.Struct, frozen=True, kw_only=True):
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class Acls(msgspec.Struct, frozen=True, kw_only=True):
    acls: list[Acl]
    total: int


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    entity: dict[str, str | None]
    quotas: dict[str, float]


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    quotas: list[Quota]
    total: int


class TailEnd(msgspec.Struct, frozen=True, kw_only=True):
    reason: str = ""
    message: str = "The stream has ended"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    error_code: int = -1
    error: str = ""
    message: str = ""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    node_id: int
    host: str
    port: int
    rack: str | None
    state: str
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
    role: str
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
    counts: Counts
    quorum: Quorum
    is_writable: bool
    is_export_allowed: bool
    needs_login: bool
    principal: str
    allowed: list[str]


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    is_internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    offline: int
    size_bytes: int
    cleanup_policy: str
    bytes_in_per_second: float = 0.0
    groups: int = 0
    lag: int = 0


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
    is_sensitive: bool
    meaning: str | None


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    topic_id: str
    is_internal: bool
    partitions: list[Partition]
    settings: list[Setting]
    groups: list[GroupOfTopic]
    allowed: list[str]


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
    lag_seconds: float
    allowed: list[str]


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


class Content(msgspec.Struct, frozen=True, kw_only=True):
    encoding: str
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
    timestamp_type: str
    key: Content | None
    value: Content | None
    headers: list[Header]


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


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    partition: int | None
    offset: int | None
    error: Problem | None = None


class Produced(msgspec.Struct, frozen=True, kw_only=True):
    records: list[Placed]
    written: int


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    changes: list[str]


class NewOffset(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    before: int | None
    after: int | None
    error: Problem | None = None


class OffsetsReset(msgspec.Struct, frozen=True, kw_only=True):
    offsets: list[NewOffset]


class LoggedIn(msgspec.Struct, frozen=True, kw_only=True):
    token: str
    until_ms: int
    principal: str


class Series(msgspec.Struct, frozen=True, kw_only=True):
    step_s: int
    until_ms: int
    values: dict[str, list[float]]
