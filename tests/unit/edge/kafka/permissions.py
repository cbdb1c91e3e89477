"""The table of APIs and permissions: what a client needs for each, and what it hears without that.

A row has a request about topic ``there``, group ``g`` and transactional id ``t`` alone. Its needs are asked for one
after another: whoever lacks one hears its code. A listing hears no code: what is not seen is left out.

`docs/acls.md` has the same table for users; `test_permissions` compares the two.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from barnabas.core.access.resources import CLUSTER, Operation, Resource, ResourceType, group, topic, transactional_id
from tests.unit.edge.kafka.calling import batch

THERE_ID = UUID(int=0x7E57)
"""Stands for the id of topic ``there`` in requests."""

TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED, ID_REFUSED = 29, 30, 31, 53
REFUSALS = {
    ResourceType.TOPIC: TOPIC_REFUSED,
    ResourceType.GROUP: GROUP_REFUSED,
    ResourceType.CLUSTER: CLUSTER_REFUSED,
    ResourceType.TRANSACTIONAL_ID: ID_REFUSED,
}
NAMED = {
    "T": topic("there"),
    "N": topic("new"),
    "G": group("g"),
    "C": CLUSTER,
    "X": transactional_id("t"),
}

Permission = tuple[Operation, Resource]


class Need(NamedTuple):
    """One of these permissions, or this code is heard."""

    any_of: tuple[Permission, ...]
    code: int


class Row(NamedTuple):
    """A request of an API in a version, and what it needs."""

    key: int
    version: int
    needs: tuple[Need, ...]
    request: Mapping[str, Any]
    sees: Callable[[Any], bool] | None = None
    """Of a listing: whether it has what may be seen with all needs."""
    note: str = ""
    is_for_controllers: bool = False


def need(text: str, code: int | None = None) -> Need:
    """As in ``T.WRITE`` or ``T.CREATE C.CREATE``, of which one is enough; the last has the code, or the one given."""
    any_of = tuple(_permission(each) for each in text.split())
    return Need(any_of, REFUSALS[any_of[-1][1].type] if code is None else code)


def _permission(text: str) -> Permission:
    name, _, operation = text.partition(".")
    return Operation[operation], NAMED[name]


def row(key: int, version: int, needs: str, request: Mapping[str, Any], **options: Any) -> Row:
    """Needs are separated by commas; see `need`."""
    return Row(key, version, tuple(need(each) for each in needs.split(",")), request, **options)


NOT_AUTHORIZED = {17, 18, 36, 60}
"""APIs that everybody may use: whoever connects needs them to log in, or to find the cluster."""

TOPIC = {"name": "there", "topic": "there", "topic_name": "there"}
OFFSETS = [{"partition_index": 0, "partition": 0, "timestamp": -1, "offset": 0, "leader_epoch": 0}]
MEMBER = {"group_id": "g", "member_id": "m", "generation_id": -1, "generation_id_or_member_epoch": -1}
PRODUCER = {"transactional_id": "t", "producer_id": 0, "producer_epoch": 0, "coordinator_epoch": 0}
METADATA_LOG = {"topic_name": "__cluster_metadata", "name": "__cluster_metadata"}
PRODUCED = {"acks": -1, "timeout": 1000}
RECORDS = [{"index": 0, "records": batch(b"v")}]
FETCHED = {
    "max_wait": 0,
    "min_bytes": 1,
    "max_bytes": 1000,
    "session_epoch": -1,
    "replica_id": -1,
    "replica_state": {"replica_id": -1, "replica_epoch": -1},
}
FETCHED_PARTITIONS = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "last_fetched_epoch": -1}]
SHARED = {"group_id": "g", "member_id": "AAAAAAAAAAAAAAAAAAAAAQ", "share_session_epoch": 0}
ACKNOWLEDGED = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": (1,)}]
SHARED_TOPICS = [{"topic_id": THERE_ID, "partitions": [{"partition_index": 0}]}]
DONE_TOPICS = [{"topic_id": THERE_ID, "partitions": [{"partition_index": 0, "acknowledgement_batches": ACKNOWLEDGED}]}]
STATES = [{"partition": 0, "state_epoch": 0, "leader_epoch": 0, "start_offset": 0}]
STARTS = [{"partition_index": 0, "start_offset": 0}]
ACL = {"resource_type": 2, "resource_name": "there", "resource_pattern_type": 3, "host": "*"}
ENTRY = {"principal": "User:x", "operation": 3, "permission_type": 3}


def settings_of(kind: int, name: str) -> dict[str, Any]:
    configs = [{"name": "retention.ms", "value": "1", "config_operation": 0}]
    return {"validate_only": True, "resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}


def names(answer: Any, *path: str) -> Iterator[object]:
    """The values that are found along these fields of an answer, through its lists."""
    values: Sequence[Any] = [answer]
    for field in path:
        values = [
            found
            for value in values
            for found in (
                getattr(value, field) if isinstance(getattr(value, field), tuple) else (getattr(value, field),)
            )
        ]
    return iter(values)


def lists(name: str, *path: str) -> Callable[[Any], bool]:
    return lambda answer: name in names(answer, *path)


ROWS: tuple[Row, ...] = (
    row(0, 12, "T.WRITE", {**PRODUCED, "topic_data": [{**TOPIC, "partition_data": RECORDS}]}),
    row(0, 13, "T.WRITE", {**PRODUCED, "topic_data": [{"topic_id": THERE_ID, "partition_data": RECORDS}]}),
    row(
        0,
        12,
        "X.WRITE,T.WRITE",
        {**PRODUCED, "transactional_id": "t", "topic_data": [{**TOPIC, "partition_data": RECORDS}]},
        note="in a transaction",
    ),
    row(1, 12, "T.READ", {**FETCHED, "topics": [{**TOPIC, "partitions": FETCHED_PARTITIONS}]}),
    row(1, 13, "T.READ", {**FETCHED, "topics": [{"topic_id": THERE_ID, "partitions": FETCHED_PARTITIONS}]}),
    Row(
        1,
        12,
        (need("C.CLUSTER_ACTION", TOPIC_REFUSED),),
        {**FETCHED, "replica_id": 1, "topics": [{**TOPIC, "partitions": FETCHED_PARTITIONS}]},
        note="of a follower",
    ),
    row(
        1,
        17,
        "C.CLUSTER_ACTION",
        {**FETCHED, "topics": [{"topic_id": THERE_ID, "partitions": FETCHED_PARTITIONS}]},
        note="of the metadata log",
        is_for_controllers=True,
    ),
    row(2, 10, "T.DESCRIBE", {"replica_id": -1, "topics": [{**TOPIC, "partitions": OFFSETS}]}),
    Row(
        2,
        10,
        (need("C.CLUSTER_ACTION", TOPIC_REFUSED),),
        {"replica_id": 1, "topics": [{**TOPIC, "partitions": OFFSETS}]},
        note="of a follower",
    ),
    row(3, 13, "T.DESCRIBE", {"topics": [{"name": "there"}]}),
    row(3, 13, "T.DESCRIBE", {"topics": [{"name": None, "topic_id": THERE_ID}]}),
    row(3, 13, "T.DESCRIBE", {"topics": None}, sees=lists("there", "topics", "name"), note="of all topics"),
    Row(
        3,
        13,
        (need("N.DESCRIBE"), need("C.CREATE N.CREATE")),
        {"topics": [{"name": "new"}], "allow_auto_topic_creation": True},
        note="that creates a topic",
    ),
    row(8, 9, "G.READ,T.READ", {**MEMBER, "member_id": "", "topics": [{**TOPIC, "partitions": OFFSETS}]}),
    row(
        8,
        10,
        "G.READ,T.READ",
        {**MEMBER, "member_id": "", "topics": [{"topic_id": THERE_ID, "partitions": OFFSETS}]},
    ),
    row(
        9,
        8,
        "G.DESCRIBE,T.DESCRIBE",
        {"groups": [{"group_id": "g", "topics": [{**TOPIC, "partition_indexes": (0,)}]}]},
    ),
    row(
        9,
        10,
        "G.DESCRIBE,T.DESCRIBE",
        {"groups": [{"group_id": "g", "topics": [{"topic_id": THERE_ID, "partition_indexes": (0,)}]}]},
    ),
    row(
        9,
        8,
        "G.DESCRIBE,T.DESCRIBE",
        {"groups": [{"group_id": "g", "topics": None}]},
        sees=lists("there", "groups", "topics", "name"),
        note="of all topics",
    ),
    row(10, 6, "G.DESCRIBE", {"key_type": 0, "coordinator_keys": ("g",)}),
    row(10, 6, "X.DESCRIBE", {"key_type": 1, "coordinator_keys": ("t",)}),
    row(11, 9, "G.READ", {**MEMBER, "protocol_type": "x", "session_timeout": 10_000, "rebalance_timeout": 10_000}),
    row(12, 4, "G.READ", MEMBER),
    row(13, 5, "G.READ", {"group_id": "g", "members": [{"member_id": "m"}]}),
    row(14, 5, "G.READ", {**MEMBER, "protocol_type": "x", "protocol_name": "y"}),
    row(15, 6, "G.DESCRIBE", {"groups": ("g",)}),
    row(16, 5, "C.DESCRIBE G.DESCRIBE", {}, sees=lists("g", "groups", "group_id")),
    row(
        19,
        7,
        "C.CREATE N.CREATE",
        {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}], "validate_only": True},
    ),
    row(20, 6, "C.DELETE T.DELETE", {"topics": [{"name": "there"}]}),
    row(20, 6, "C.DELETE T.DELETE", {"topics": [{"name": None, "topic_id": THERE_ID}]}),
    row(21, 2, "T.DELETE", {"topics": [{**TOPIC, "partitions": OFFSETS}]}),
    row(22, 5, "X.WRITE", {"transactional_id": "t", "transaction_timeout": 1000}),
    row(22, 5, "T.WRITE C.IDEMPOTENT_WRITE", {"transactional_id": None}),
    row(23, 4, "C.CLUSTER_ACTION T.DESCRIBE", {"topics": [{**TOPIC, "partitions": OFFSETS}]}),
    row(
        24,
        3,
        "X.WRITE,T.WRITE",
        {
            f"v3_and_below_{name}": value
            for name, value in {**PRODUCER, "topics": [{**TOPIC, "partitions": (0,)}]}.items()
        },
    ),
    row(
        24,
        5,
        "C.CLUSTER_ACTION",
        {"transactions": [{**PRODUCER, "verify_only": True, "topics": [{**TOPIC, "partitions": (0,)}]}]},
        note="between nodes",
    ),
    row(25, 4, "X.WRITE,G.READ", {**PRODUCER, "group_id": "g"}),
    row(26, 5, "X.WRITE", {**PRODUCER, "committed": True}),
    row(
        27,
        1,
        "C.ALTER C.CLUSTER_ACTION",
        {"markers": [{**PRODUCER, "transaction_result": True, "topics": [{**TOPIC, "partition_indexes": (0,)}]}]},
    ),
    row(28, 5, "X.WRITE,G.READ,T.READ", {**PRODUCER, **MEMBER, "topics": [{**TOPIC, "partitions": OFFSETS}]}),
    row(29, 3, "C.DESCRIBE", {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1}),
    row(30, 3, "C.ALTER", {"creations": [{**ACL, **ENTRY, "principal": "nobody"}]}),
    row(31, 3, "C.ALTER", {"filters": [{"resource_type_filter": 2, "pattern_type_filter": 9}]}),
    row(32, 4, "T.DESCRIBE_CONFIGS", settings_of(2, "there")),
    row(32, 4, "G.DESCRIBE_CONFIGS", settings_of(32, "g")),
    row(32, 4, "C.DESCRIBE_CONFIGS", settings_of(4, "1")),
    row(32, 4, "C.DESCRIBE_CONFIGS", settings_of(8, "1"), note="of loggers"),
    row(33, 2, "T.ALTER_CONFIGS", settings_of(2, "there")),
    row(33, 2, "G.ALTER_CONFIGS", settings_of(32, "g")),
    row(33, 2, "C.ALTER_CONFIGS", settings_of(4, "1")),
    row(34, 2, "C.ALTER", {"dirs": [{"path": "/data", "topics": [{**TOPIC, "partitions": (0,)}]}]}),
    row(35, 5, "C.DESCRIBE", {"topics": [{**TOPIC, "partitions": (0,)}]}),
    row(37, 3, "T.ALTER", {"topics": [{**TOPIC, "count": 4}], "validate_only": True}),
    row(42, 2, "G.DELETE", {"groups_names": ("g",)}),
    row(43, 2, "C.ALTER", {"topic_partitions": [{**TOPIC, "partitions": (0,)}]}),
    row(43, 2, "C.ALTER", {"topic_partitions": None}, note="of all partitions"),
    row(44, 1, "T.ALTER_CONFIGS", settings_of(2, "there")),
    row(44, 1, "G.ALTER_CONFIGS", settings_of(32, "g")),
    row(44, 1, "C.ALTER_CONFIGS", settings_of(4, "1")),
    row(44, 1, "C.ALTER_CONFIGS", settings_of(8, "1"), note="of loggers"),
    row(45, 0, "C.ALTER", {"topics": [{**TOPIC, "partitions": [{"partition_index": 0, "replicas": None}]}]}),
    row(46, 0, "C.DESCRIBE", {"topics": None}),
    row(47, 0, "G.DELETE,T.READ", {"group_id": "g", "topics": [{**TOPIC, "partitions": OFFSETS}]}),
    row(48, 1, "C.DESCRIBE_CONFIGS", {"components": (), "strict": False}),
    row(49, 1, "C.ALTER_CONFIGS", {"entries": [{"entity": [{"entity_type": "user"}], "ops": ()}]}),
    row(50, 0, "C.DESCRIBE", {"users": None}),
    row(51, 0, "C.ALTER", {"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": ()}),
    row(52, 2, "C.CLUSTER_ACTION", {"topics": []}),
    row(53, 1, "C.CLUSTER_ACTION", {"topics": []}),
    row(54, 1, "C.CLUSTER_ACTION", {"topics": []}),
    row(55, 2, "C.DESCRIBE", {"topics": [{**METADATA_LOG, "partitions": [{"partition_index": 0}]}]}),
    row(56, 3, "C.CLUSTER_ACTION", {"broker_id": 9, "topics": []}),
    row(57, 2, "C.ALTER", {"feature_updates": [{"feature": "x", "max_version_level": 9, "upgrade_type": 1}]}),
    row(58, 0, "C.CLUSTER_ACTION", {"request_data": b""}),
    row(59, 1, "C.CLUSTER_ACTION", {"topics": []}),
    row(60, 2, "C.ALTER", {"endpoint_type": 2}, note="of controllers", is_for_controllers=True),
    row(61, 0, "T.READ", {"topics": [{**TOPIC, "partition_indexes": (0,)}]}),
    row(62, 4, "C.CLUSTER_ACTION", {"broker_id": 9, "cluster_id": "another", "incarnation_id": UUID(int=1)}),
    row(63, 1, "C.CLUSTER_ACTION", {"broker_id": 9}),
    row(64, 0, "C.ALTER", {"broker_id": 9}),
    row(65, 0, "X.DESCRIBE", {"transactional_ids": ("t",)}),
    row(66, 1, "X.DESCRIBE", {}, sees=lists("t", "transaction_states", "transactional_id")),
    row(67, 0, "C.CLUSTER_ACTION", {"broker_id": 9}),
    row(68, 1, "G.READ,T.DESCRIBE", {**MEMBER, "member_epoch": 9, "subscribed_topic_names": ("there",)}),
    row(69, 1, "G.DESCRIBE,T.DESCRIBE", {"group_ids": ("g",)}),
    row(74, 1, "C.DESCRIBE_CONFIGS", {}),
    row(75, 0, "T.DESCRIBE", {"topics": [{"name": "there"}], "response_partition_limit": 9}),
    row(
        75,
        0,
        "T.DESCRIBE",
        {"topics": [], "response_partition_limit": 9},
        sees=lists("there", "topics", "name"),
        note="of all topics",
    ),
    row(76, 1, "G.READ,T.DESCRIBE", {**MEMBER, "member_epoch": 9, "subscribed_topic_names": ("there",)}),
    row(77, 1, "G.DESCRIBE,T.DESCRIBE", {"group_ids": ("g",)}),
    row(78, 2, "G.READ,T.READ", {**SHARED, "max_bytes": 1000, "max_records": 1, "topics": SHARED_TOPICS}),
    row(79, 2, "G.READ,T.READ", {**SHARED, "share_session_epoch": 1, "topics": DONE_TOPICS}),
    row(80, 1, "C.ALTER", {"voter_id": 2, "listeners": [{"name": "C", "host": "h", "port": 1}]}),
    row(81, 0, "C.ALTER", {"voter_id": 9}),
    row(82, 0, "C.CLUSTER_ACTION", {"voter_id": 9}),
    *(
        row(key, 0, "C.CLUSTER_ACTION", {"group_id": "g", "topics": [{"topic_id": THERE_ID, "partitions": STATES}]})
        for key in (83, 84, 85, 86, 87)
    ),
    row(90, 1, "G.DESCRIBE,T.DESCRIBE", {"groups": [{"group_id": "g", "topics": [{**TOPIC, "partitions": (0,)}]}]}),
    row(91, 0, "G.READ,T.READ", {"group_id": "g", "topics": [{**TOPIC, "partitions": STARTS}]}),
    row(92, 0, "G.DELETE,T.READ", {"group_id": "g", "topics": [TOPIC]}),
)
