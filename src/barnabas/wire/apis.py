"""The APIs of the Kafka protocol that are served: key, versions, and from which version on they are flexible.

What is listed here is advertised. `docs/compatibility.md` says what is not.
"""

from typing import Final, NamedTuple


class Api(NamedTuple):
    """One API; `name` is its schema's."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int  # compact strings and tagged fields from this version on
    advertised_from: int | None = None  # when that is not `min_version`

    def serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


PRODUCE: Final = Api(0, "produce", 3, 13, 9, advertised_from=0)  # older librdkafka misreads a higher floor
FETCH: Final = Api(1, "fetch", 4, 18, 12)
LIST_OFFSETS: Final = Api(2, "list_offsets", 1, 11, 6)
METADATA: Final = Api(3, "metadata", 0, 13, 9)
OFFSET_COMMIT: Final = Api(8, "offset_commit", 2, 10, 8)
OFFSET_FETCH: Final = Api(9, "offset_fetch", 1, 10, 6)
FIND_COORDINATOR: Final = Api(10, "find_coordinator", 0, 6, 3)
JOIN_GROUP: Final = Api(11, "join_group", 0, 9, 6)
HEARTBEAT: Final = Api(12, "heartbeat", 0, 4, 4)
LEAVE_GROUP: Final = Api(13, "leave_group", 0, 5, 4)
SYNC_GROUP: Final = Api(14, "sync_group", 0, 5, 4)
DESCRIBE_GROUPS: Final = Api(15, "describe_groups", 0, 6, 5)
LIST_GROUPS: Final = Api(16, "list_groups", 0, 5, 3)
API_VERSIONS: Final = Api(18, "api_versions", 0, 4, 3)
CREATE_TOPICS: Final = Api(19, "create_topics", 2, 7, 5)
DELETE_TOPICS: Final = Api(20, "delete_topics", 1, 6, 4)
DELETE_RECORDS: Final = Api(21, "delete_records", 0, 2, 2)
INIT_PRODUCER_ID: Final = Api(22, "init_producer_id", 0, 5, 2)
OFFSET_FOR_LEADER_EPOCH: Final = Api(23, "offset_for_leader_epoch", 2, 4, 4)
ADD_PARTITIONS_TO_TXN: Final = Api(24, "add_partitions_to_txn", 0, 5, 3)
ADD_OFFSETS_TO_TXN: Final = Api(25, "add_offsets_to_txn", 0, 4, 3)
END_TXN: Final = Api(26, "end_txn", 0, 5, 3)
WRITE_TXN_MARKERS: Final = Api(27, "write_txn_markers", 1, 2, 1)
TXN_OFFSET_COMMIT: Final = Api(28, "txn_offset_commit", 0, 5, 3)
DESCRIBE_ACLS: Final = Api(29, "describe_acls", 1, 3, 2)
CREATE_ACLS: Final = Api(30, "create_acls", 1, 3, 2)
DELETE_ACLS: Final = Api(31, "delete_acls", 1, 3, 2)
DESCRIBE_CONFIGS: Final = Api(32, "describe_configs", 1, 4, 4)
ALTER_CONFIGS: Final = Api(33, "alter_configs", 0, 2, 2)
ALTER_REPLICA_LOG_DIRS: Final = Api(34, "alter_replica_log_dirs", 1, 2, 2)
DESCRIBE_LOG_DIRS: Final = Api(35, "describe_log_dirs", 1, 5, 2)
CREATE_PARTITIONS: Final = Api(37, "create_partitions", 0, 3, 2)
DELETE_GROUPS: Final = Api(42, "delete_groups", 0, 2, 2)
ELECT_LEADERS: Final = Api(43, "elect_leaders", 0, 2, 2)
INCREMENTAL_ALTER_CONFIGS: Final = Api(44, "incremental_alter_configs", 0, 1, 1)
ALTER_PARTITION_REASSIGNMENTS: Final = Api(45, "alter_partition_reassignments", 0, 1, 0)
LIST_PARTITION_REASSIGNMENTS: Final = Api(46, "list_partition_reassignments", 0, 0, 0)
OFFSET_DELETE: Final = Api(47, "offset_delete", 0, 0, 2**15)
DESCRIBE_QUORUM: Final = Api(55, "describe_quorum", 0, 2, 0)
UPDATE_FEATURES: Final = Api(57, "update_features", 0, 2, 0)
DESCRIBE_CLUSTER: Final = Api(60, "describe_cluster", 0, 2, 0)
DESCRIBE_PRODUCERS: Final = Api(61, "describe_producers", 0, 0, 0)
UNREGISTER_BROKER: Final = Api(64, "unregister_broker", 0, 0, 0)
DESCRIBE_TRANSACTIONS: Final = Api(65, "describe_transactions", 0, 0, 0)
LIST_TRANSACTIONS: Final = Api(66, "list_transactions", 0, 2, 0)
CONSUMER_GROUP_HEARTBEAT: Final = Api(68, "consumer_group_heartbeat", 0, 1, 0)
CONSUMER_GROUP_DESCRIBE: Final = Api(69, "consumer_group_describe", 0, 1, 0)
LIST_CONFIG_RESOURCES: Final = Api(74, "list_config_resources", 0, 1, 0)
DESCRIBE_TOPIC_PARTITIONS: Final = Api(75, "describe_topic_partitions", 0, 0, 0)

APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        FIND_COORDINATOR,
        JOIN_GROUP,
        HEARTBEAT,
        LEAVE_GROUP,
        SYNC_GROUP,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        API_VERSIONS,
        CREATE_TOPICS,
        DELETE_TOPICS,
        DELETE_RECORDS,
        INIT_PRODUCER_ID,
        OFFSET_FOR_LEADER_EPOCH,
        ADD_PARTITIONS_TO_TXN,
        ADD_OFFSETS_TO_TXN,
        END_TXN,
        WRITE_TXN_MARKERS,
        TXN_OFFSET_COMMIT,
        DESCRIBE_ACLS,
        CREATE_ACLS,
        DELETE_ACLS,
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        ALTER_REPLICA_LOG_DIRS,
        DESCRIBE_LOG_DIRS,
        CREATE_PARTITIONS,
        DELETE_GROUPS,
        ELECT_LEADERS,
        INCREMENTAL_ALTER_CONFIGS,
        ALTER_PARTITION_REASSIGNMENTS,
        LIST_PARTITION_REASSIGNMENTS,
        OFFSET_DELETE,
        DESCRIBE_QUORUM,
        UPDATE_FEATURES,
        DESCRIBE_CLUSTER,
        DESCRIBE_PRODUCERS,
        UNREGISTER_BROKER,
        DESCRIBE_TRANSACTIONS,
        LIST_TRANSACTIONS,
        CONSUMER_GROUP_HEARTBEAT,
        CONSUMER_GROUP_DESCRIBE,
        LIST_CONFIG_RESOURCES,
        DESCRIBE_TOPIC_PARTITIONS,
    )
}
