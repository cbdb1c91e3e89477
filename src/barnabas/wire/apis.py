"""The APIs of the Kafka protocol: key, name, and from which version on they are flexible.

Facts of the protocol, for servers and clients. What this broker serves is registered by its handlers, in
`edge.kafka.handlers`.
"""

from typing import Final, NamedTuple

NEVER: Final = 2**15
"""A version that does not exist."""


class Api(NamedTuple):
    """One API; `name` is its schema's."""

    key: int
    name: str
    flexible_from: int  # compact strings and tagged fields from this version on


class Served(NamedTuple):
    """An API in the versions that are served."""

    api: Api
    min_version: int
    max_version: int
    advertised_from: int  # what clients are told for `min_version`

    @property
    def versions(self) -> range:
        return range(self.min_version, self.max_version + 1)


PRODUCE: Final = Api(0, "produce", 9)
FETCH: Final = Api(1, "fetch", 12)
LIST_OFFSETS: Final = Api(2, "list_offsets", 6)
METADATA: Final = Api(3, "metadata", 9)
OFFSET_COMMIT: Final = Api(8, "offset_commit", 8)
OFFSET_FETCH: Final = Api(9, "offset_fetch", 6)
FIND_COORDINATOR: Final = Api(10, "find_coordinator", 3)
JOIN_GROUP: Final = Api(11, "join_group", 6)
HEARTBEAT: Final = Api(12, "heartbeat", 4)
LEAVE_GROUP: Final = Api(13, "leave_group", 4)
SYNC_GROUP: Final = Api(14, "sync_group", 4)
DESCRIBE_GROUPS: Final = Api(15, "describe_groups", 5)
LIST_GROUPS: Final = Api(16, "list_groups", 3)
SASL_HANDSHAKE: Final = Api(17, "sasl_handshake", NEVER)
API_VERSIONS: Final = Api(18, "api_versions", 3)
CREATE_TOPICS: Final = Api(19, "create_topics", 5)
DELETE_TOPICS: Final = Api(20, "delete_topics", 4)
DELETE_RECORDS: Final = Api(21, "delete_records", 2)
INIT_PRODUCER_ID: Final = Api(22, "init_producer_id", 2)
OFFSET_FOR_LEADER_EPOCH: Final = Api(23, "offset_for_leader_epoch", 4)
ADD_PARTITIONS_TO_TXN: Final = Api(24, "add_partitions_to_txn", 3)
ADD_OFFSETS_TO_TXN: Final = Api(25, "add_offsets_to_txn", 3)
END_TXN: Final = Api(26, "end_txn", 3)
WRITE_TXN_MARKERS: Final = Api(27, "write_txn_markers", 1)
TXN_OFFSET_COMMIT: Final = Api(28, "txn_offset_commit", 3)
DESCRIBE_ACLS: Final = Api(29, "describe_acls", 2)
CREATE_ACLS: Final = Api(30, "create_acls", 2)
DELETE_ACLS: Final = Api(31, "delete_acls", 2)
DESCRIBE_CONFIGS: Final = Api(32, "describe_configs", 4)
ALTER_CONFIGS: Final = Api(33, "alter_configs", 2)
ALTER_REPLICA_LOG_DIRS: Final = Api(34, "alter_replica_log_dirs", 2)
DESCRIBE_LOG_DIRS: Final = Api(35, "describe_log_dirs", 2)
SASL_AUTHENTICATE: Final = Api(36, "sasl_authenticate", 2)
CREATE_PARTITIONS: Final = Api(37, "create_partitions", 2)
CREATE_DELEGATION_TOKEN: Final = Api(38, "create_delegation_token", 2)
RENEW_DELEGATION_TOKEN: Final = Api(39, "renew_delegation_token", 2)
EXPIRE_DELEGATION_TOKEN: Final = Api(40, "expire_delegation_token", 2)
DESCRIBE_DELEGATION_TOKEN: Final = Api(41, "describe_delegation_token", 2)
DELETE_GROUPS: Final = Api(42, "delete_groups", 2)
ELECT_LEADERS: Final = Api(43, "elect_leaders", 2)
INCREMENTAL_ALTER_CONFIGS: Final = Api(44, "incremental_alter_configs", 1)
ALTER_PARTITION_REASSIGNMENTS: Final = Api(45, "alter_partition_reassignments", 0)
LIST_PARTITION_REASSIGNMENTS: Final = Api(46, "list_partition_reassignments", 0)
OFFSET_DELETE: Final = Api(47, "offset_delete", NEVER)
DESCRIBE_CLIENT_QUOTAS: Final = Api(48, "describe_client_quotas", 1)
ALTER_CLIENT_QUOTAS: Final = Api(49, "alter_client_quotas", 1)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = Api(50, "describe_user_scram_credentials", 0)
ALTER_USER_SCRAM_CREDENTIALS: Final = Api(51, "alter_user_scram_credentials", 0)
VOTE: Final = Api(52, "vote", 0)
BEGIN_QUORUM_EPOCH: Final = Api(53, "begin_quorum_epoch", 1)
END_QUORUM_EPOCH: Final = Api(54, "end_quorum_epoch", 1)
DESCRIBE_QUORUM: Final = Api(55, "describe_quorum", 0)
ALTER_PARTITION: Final = Api(56, "alter_partition", 2)
UPDATE_FEATURES: Final = Api(57, "update_features", 0)
ENVELOPE: Final = Api(58, "envelope", 0)
FETCH_SNAPSHOT: Final = Api(59, "fetch_snapshot", 0)
DESCRIBE_CLUSTER: Final = Api(60, "describe_cluster", 0)
DESCRIBE_PRODUCERS: Final = Api(61, "describe_producers", 0)
BROKER_REGISTRATION: Final = Api(62, "broker_registration", 0)
BROKER_HEARTBEAT: Final = Api(63, "broker_heartbeat", 0)
UNREGISTER_BROKER: Final = Api(64, "unregister_broker", 0)
DESCRIBE_TRANSACTIONS: Final = Api(65, "describe_transactions", 0)
LIST_TRANSACTIONS: Final = Api(66, "list_transactions", 0)
ALLOCATE_PRODUCER_IDS: Final = Api(67, "allocate_producer_ids", 0)
CONSUMER_GROUP_HEARTBEAT: Final = Api(68, "consumer_group_heartbeat", 0)
CONSUMER_GROUP_DESCRIBE: Final = Api(69, "consumer_group_describe", 0)
CONTROLLER_REGISTRATION: Final = Api(70, "controller_registration", 0)
GET_TELEMETRY_SUBSCRIPTIONS: Final = Api(71, "get_telemetry_subscriptions", 0)
PUSH_TELEMETRY: Final = Api(72, "push_telemetry", 0)
ASSIGN_REPLICAS_TO_DIRS: Final = Api(73, "assign_replicas_to_dirs", 0)
LIST_CONFIG_RESOURCES: Final = Api(74, "list_config_resources", 0)
DESCRIBE_TOPIC_PARTITIONS: Final = Api(75, "describe_topic_partitions", 0)
SHARE_GROUP_HEARTBEAT: Final = Api(76, "share_group_heartbeat", 1)
SHARE_GROUP_DESCRIBE: Final = Api(77, "share_group_describe", 1)
SHARE_FETCH: Final = Api(78, "share_fetch", 1)
SHARE_ACKNOWLEDGE: Final = Api(79, "share_acknowledge", 1)
ADD_RAFT_VOTER: Final = Api(80, "add_raft_voter", 0)
REMOVE_RAFT_VOTER: Final = Api(81, "remove_raft_voter", 0)
UPDATE_RAFT_VOTER: Final = Api(82, "update_raft_voter", 0)
INITIALIZE_SHARE_GROUP_STATE: Final = Api(83, "initialize_share_group_state", 0)
READ_SHARE_GROUP_STATE: Final = Api(84, "read_share_group_state", 0)
WRITE_SHARE_GROUP_STATE: Final = Api(85, "write_share_group_state", 0)
DELETE_SHARE_GROUP_STATE: Final = Api(86, "delete_share_group_state", 0)
READ_SHARE_GROUP_STATE_SUMMARY: Final = Api(87, "read_share_group_state_summary", 0)
STREAMS_GROUP_HEARTBEAT: Final = Api(88, "streams_group_heartbeat", 0)
STREAMS_GROUP_DESCRIBE: Final = Api(89, "streams_group_describe", 0)
DESCRIBE_SHARE_GROUP_OFFSETS: Final = Api(90, "describe_share_group_offsets", 0)
ALTER_SHARE_GROUP_OFFSETS: Final = Api(91, "alter_share_group_offsets", 0)
DELETE_SHARE_GROUP_OFFSETS: Final = Api(92, "delete_share_group_offsets", 0)

APIS: Final[dict[int, Api]] = {each.key: each for each in tuple(globals().values()) if isinstance(each, Api)}
