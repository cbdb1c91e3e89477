"""Every handler answers in every version that is advertised; what `ask` checks of an answer is the test."""

import asyncio
from pkgutil import iter_modules
from typing import Any
from uuid import UUID

import pytest

from barnabas.core.metadata.levels import LATEST_LEVEL
from barnabas.edge.kafka import handlers
from barnabas.wire import apis
from barnabas.wire.apis import Api
from tests.support.served import HANDLERS, SERVED, SERVED_APIS, versions_of
from tests.unit.edge.kafka.support import ask, create, produce, serving

CREDENTIAL = {"name": "bob", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"x"}
TOPIC = {"name": "there", "topic": "there"}
PARTITIONS = [
    {"partition_index": index, "partition": index, "timestamp": timestamp, "offset": 1, "leader_epoch": 0}
    for index, timestamp in ((0, -1), (1, 0), (7, -2))
]
GROUP = {"group_id": "g", "member_id": "m", "generation_id": -1, "generation_id_or_member_epoch": -1}
PRODUCER = {"transactional_id": "t", "producer_id": 0, "producer_epoch": 0, "coordinator_epoch": 0}
SHARE: dict[str, Any] = {
    "group_id": "s",
    "member_id": "m",
    "max_wait": 0,
    "max_bytes": 1000,
    "max_records": 10,
    "topics": [
        {
            "topic_id": UUID(int=5),
            "partitions": [{"partition_index": 0, "acknowledgement_batches": ()}],
        }
    ],
}
STATES: dict[str, Any] = {
    "group_id": "s",
    "topics": [{"topic_id": UUID(int=5), "partitions": [{"partition": 0, "state_batches": ()}]}],
}
METADATA = {"topic_name": "__cluster_metadata"}
RESOURCES: list[dict[str, Any]] = [
    {
        "resource_type": kind,
        "resource_name": name,
        "configs": [{"name": "retention.ms", "value": "5000", "config_operation": 0}],
    }
    for kind, name in ((2, "there"), (2, "not-there"), (4, ""), (4, "1"), (4, "2"), (8, "1"), (16, "x"), (32, "g"))
]
REQUESTS: dict[Api, list[dict[str, Any]]] = {
    apis.LIST_OFFSETS: [{"replica_id": -1, "topics": [{**TOPIC, "partitions": PARTITIONS}]}],
    apis.METADATA: [{"topics": [TOPIC, {"name": "new"}, {"name": "a b"}]}, {"topics": []}],
    apis.OFFSET_COMMIT: [{**GROUP, "topics": [{**TOPIC, "partitions": PARTITIONS}]}],
    apis.OFFSET_FETCH: [
        {**GROUP, "topics": topics, "groups": [{**GROUP, "topics": topics}]}
        for topics in ([{**TOPIC, "partition_indexes": (0, 7)}], ())
    ],
    apis.FIND_COORDINATOR: [
        {"key": "g", "coordinator_keys": ("g", "h"), "key_type": key_type} for key_type in (0, 1, 2)
    ],
    apis.JOIN_GROUP: [{**GROUP, "session_timeout": 10_000, "rebalance_timeout": 10_000, "protocol_type": "x"}],
    apis.HEARTBEAT: [GROUP],
    apis.LEAVE_GROUP: [{**GROUP, "members": [{"member_id": "m"}]}],
    apis.SYNC_GROUP: [GROUP, {**GROUP, "protocol_type": "x", "protocol_name": "y"}],
    apis.DESCRIBE_GROUPS: [{"groups": ("g", "there"), "include_authorized_operations": True}],
    apis.LIST_GROUPS: [{}, {"states_filter": ("Empty",), "types_filter": ("classic",)}],
    apis.DELETE_GROUPS: [{"groups_names": ("g", "there")}],
    apis.OFFSET_DELETE: [{**GROUP, "topics": [{**TOPIC, "partitions": PARTITIONS}]}],
    apis.CONSUMER_GROUP_HEARTBEAT: [
        {**GROUP, "member_epoch": 0, "subscribed_topic_names": ("there",), "topic_partitions": ()},
        {**GROUP, "member_epoch": 9, "rebalance_timeout": 10_000},
    ],
    apis.CONSUMER_GROUP_DESCRIBE: [{"group_ids": ("g", "there"), "include_authorized_operations": True}],
    apis.SHARE_GROUP_HEARTBEAT: [
        {**GROUP, "group_id": "s", "member_epoch": 0, "subscribed_topic_names": ("there",)},
        {**GROUP, "group_id": "s", "member_epoch": 9},
    ],
    apis.SHARE_GROUP_DESCRIBE: [{"group_ids": ("s", "g", "nobody"), "include_authorized_operations": True}],
    apis.SHARE_FETCH: [{**SHARE, "share_session_epoch": epoch} for epoch in (0, 1, 9)],
    apis.SHARE_ACKNOWLEDGE: [{**SHARE, "share_session_epoch": epoch} for epoch in (0, 9)],
    apis.INITIALIZE_SHARE_GROUP_STATE: [STATES],
    apis.READ_SHARE_GROUP_STATE: [STATES],
    apis.WRITE_SHARE_GROUP_STATE: [STATES],
    apis.DELETE_SHARE_GROUP_STATE: [STATES],
    apis.READ_SHARE_GROUP_STATE_SUMMARY: [STATES],
    apis.DESCRIBE_SHARE_GROUP_OFFSETS: [
        {"groups": [{"group_id": "s", "topics": topics}, {"group_id": "nobody", "topics": topics}]}
        for topics in (None, [{"topic_name": "there", "partitions": (0, 7)}])
    ],
    apis.ALTER_SHARE_GROUP_OFFSETS: [
        {
            "group_id": "s2",
            "topics": [{"topic_name": name, "partitions": PARTITIONS} for name in ("there", "not-there")],
        }
    ],
    apis.DELETE_SHARE_GROUP_OFFSETS: [
        {"group_id": group, "topics": [{"topic_name": "there"}, {"topic_name": "not-there"}]} for group in ("s2", "no")
    ],
    apis.API_VERSIONS: [
        {"client_software_name": "test", "client_software_version": "1.0"},
        {"client_software_name": "", "client_software_version": "1.0"},
    ],
    apis.CREATE_TOPICS: [
        {"topics": [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in ("one", "there")]},
    ],
    apis.DELETE_TOPICS: [{"topics": [TOPIC, {"name": "not-there"}], "topic_names": ("there", "not-there")}],
    apis.DELETE_RECORDS: [{"topics": [{**TOPIC, "partitions": PARTITIONS}]}],
    apis.INIT_PRODUCER_ID: [{"transactional_id": None}, {"transactional_id": "t"}],
    apis.ADD_PARTITIONS_TO_TXN: [
        {
            "transactional_id": "t",
            **{f"v3_and_below_{name}": value for name, value in {**PRODUCER, "topics": topics}.items()},
            "transactions": [{**PRODUCER, "verify_only": is_asked, "topics": topics} for is_asked in (False, True)],
        }
        for topics in ([{**TOPIC, "partitions": (0, 1)}], [{**TOPIC, "partitions": (0, 7)}])
    ],
    apis.ADD_OFFSETS_TO_TXN: [{**PRODUCER, "group_id": "g"}],
    apis.END_TXN: [{**PRODUCER, "committed": is_commit} for is_commit in (False, True)],
    apis.WRITE_TXN_MARKERS: [
        {"markers": [{**PRODUCER, "transaction_result": True, "topics": [{**TOPIC, "partition_indexes": (0, 7)}]}]}
    ],
    apis.TXN_OFFSET_COMMIT: [{**PRODUCER, **GROUP, "topics": [{**TOPIC, "partitions": PARTITIONS}]}],
    apis.DESCRIBE_TRANSACTIONS: [{"transactional_ids": ("t", "")}],
    apis.LIST_TRANSACTIONS: [{}, {"state_filters": ("Ongoing", "Nowhere")}],
    apis.OFFSET_FOR_LEADER_EPOCH: [{"topics": [{**TOPIC, "partitions": PARTITIONS}]}],
    apis.DESCRIBE_CONFIGS: [{"resources": RESOURCES, "include_synonyms": True, "include_documentation": True}],
    apis.ALTER_CONFIGS: [{"resources": RESOURCES}],
    apis.DESCRIBE_CLIENT_QUOTAS: [
        {"components": [{"entity_type": "user", "match_type": 2, "match": None}], "strict": False}
    ],
    apis.ALTER_CLIENT_QUOTAS: [
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": None}],
                    "ops": [{"key": "producer_byte_rate", "value": 1024.0, "remove": False}],
                }
            ],
            "validate_only": False,
        }
    ],
    apis.DESCRIBE_ACLS: [{"resource_type_filter": 2, "operation": 1, "permission_type": 1}],
    apis.CREATE_ACLS: [{"creations": [{"resource_type": 2, "resource_name": "there"}]}],
    apis.DELETE_ACLS: [{"filters": [{"resource_type_filter": 2}]}],
    apis.ALTER_REPLICA_LOG_DIRS: [{"dirs": [{"path": "/data", "topics": [{**TOPIC, "partitions": (0, 7)}]}]}],
    apis.ALTER_PARTITION_REASSIGNMENTS: [
        {"topics": [{**TOPIC, "partitions": [{"partition_index": 0, "replicas": replicas}]}]}
        for replicas in (None, (1,), (2,))
    ],
    apis.LIST_PARTITION_REASSIGNMENTS: [{"topics": None}, {"topics": [{**TOPIC, "partition_indexes": (0, 7)}]}],
    apis.SASL_HANDSHAKE: [{"mechanism": "PLAIN"}],
    apis.SASL_AUTHENTICATE: [{"auth_bytes": b"x"}],
    apis.DESCRIBE_USER_SCRAM_CREDENTIALS: [{"users": None}, {"users": [{"name": "ann"}]}],
    apis.ALTER_USER_SCRAM_CREDENTIALS: [
        {"deletions": [], "upsertions": [{**CREDENTIAL, "name": "ann"}]},
        {"deletions": [{"name": "ann", "mechanism": 2}], "upsertions": [{**CREDENTIAL, "iterations": 1}]},
    ],
    apis.UPDATE_FEATURES: [
        {"feature_updates": [{"feature": "group.version", "max_version_level": level, "upgrade_type": 1}]}
        for level in (1, 9)
    ],
    apis.BROKER_REGISTRATION: [
        {
            "broker_id": broker_id,
            "cluster_id": cluster_id,
            "incarnation_id": UUID(int=1),
            "listeners": [{"name": "PLAINTEXT", "host": "h", "port": 9092, "security_protocol": 0}],
            "features": [
                {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": LATEST_LEVEL}
            ],
            "log_dirs": (UUID(int=2),),
        }
        for broker_id, cluster_id in ((2, "another"), (-1, ""))
    ],
    apis.ALTER_PARTITION: [
        {
            "broker_id": broker_id,
            "topics": [{"topic_id": UUID(int=9), "partitions": [{"partition_index": 0, "new_isr": (1,)}]}],
        }
        for broker_id in (1, 9)
    ],
    apis.BROKER_HEARTBEAT: [{"broker_id": broker_id, "broker_epoch": 0} for broker_id in (1, 9)],
    apis.ALLOCATE_PRODUCER_IDS: [{"broker_id": broker_id, "broker_epoch": 0} for broker_id in (1, 9)],
    apis.UNREGISTER_BROKER: [{"broker_id": broker_id} for broker_id in (1, 9)],
    apis.DESCRIBE_LOG_DIRS: [{"topics": None}, {"topics": [{**TOPIC, "partitions": (0, 7)}]}],
    apis.CREATE_PARTITIONS: [{"topics": [{"name": "there", "count": 4}, {"name": "not-there", "count": 4}]}],
    apis.ELECT_LEADERS: [{"topic_partitions": None}, {"topic_partitions": [{**TOPIC, "partitions": (0, 7)}]}],
    apis.INCREMENTAL_ALTER_CONFIGS: [{"resources": RESOURCES}],
    apis.DESCRIBE_QUORUM: [
        {"topics": [{"topic_name": name, "partitions": [{"partition_index": 0}]}]}
        for name in ("__cluster_metadata", "there")
    ],
    apis.VOTE: [{"topics": [{**METADATA, "partitions": [{"last_offset": 1, "replica_epoch": 1}]}]}, {"topics": []}],
    apis.BEGIN_QUORUM_EPOCH: [{"topics": [{**METADATA, "partitions": [{"leader_id": 2}]}]}, {"topics": []}],
    apis.END_QUORUM_EPOCH: [{"topics": [{**METADATA, "partitions": [{"leader_id": 2}]}]}, {"topics": []}],
    apis.FETCH_SNAPSHOT: [
        {"topics": [{"name": name, "partitions": [{"snapshot_id": {"end_offset": 1, "epoch": 1}}]}]}
        for name in ("__cluster_metadata", "there")
    ],
    apis.ADD_RAFT_VOTER: [{"voter_id": 2, "listeners": [{"name": "C", "host": "h", "port": 1}]}],
    apis.REMOVE_RAFT_VOTER: [{"voter_id": 1}],
    apis.UPDATE_RAFT_VOTER: [{"voter_id": 1, "k_raft_version_feature": {"max_supported_version": 1}}],
    apis.DESCRIBE_CLUSTER: [{"endpoint_type": 1}, {"endpoint_type": 2}],
    apis.DESCRIBE_PRODUCERS: [{"topics": [{**TOPIC, "partition_indexes": (0, 7)}, {"name": "not-there"}]}],
    apis.LIST_CONFIG_RESOURCES: [{}],
    apis.ENVELOPE: [{"request_data": b""}],  # for more of it see test_envelope and test_forwarding
    apis.DESCRIBE_TOPIC_PARTITIONS: [
        {"response_partition_limit": 1},
        {"topics": [TOPIC, {"name": "not-there"}], "response_partition_limit": 2000},
    ],
}
VERSIONS = [
    pytest.param(api, version, id=f"{api.name}-{version}")
    for api in SERVED_APIS
    if api.key in HANDLERS
    for version in versions_of(api)
]


def test_every_api_but_those_of_the_data_has_a_handler() -> None:
    assert set(HANDLERS) == set(SERVED) - {apis.PRODUCE.key, apis.FETCH.key}


def test_every_module_that_is_named_as_an_api_registers_that_one_alone() -> None:
    named = {each.name for each in iter_modules(handlers.__path__)} & {api.name for api in apis.APIS.values()}
    assert named == {api.name for api in SERVED_APIS}
    assert {SERVED[key].api.name: handle.__module__ for key, handle in HANDLERS.items()} == {
        api.name: f"{handlers.__name__}.{api.name}" for api in SERVED_APIS if api.key in HANDLERS
    }


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_an_answer_can_be_written_and_read_in_every_version(api: Api, version: int) -> None:
    async def scenario() -> None:
        async with serving() as broker:
            await create(broker, "there", 2)
            await produce(broker, "there", 1000, 2000)
            for request in REQUESTS[api]:
                await ask(broker, api, version, **request)

    asyncio.run(scenario())
