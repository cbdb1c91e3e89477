"""The handlers of all APIs but Produce and Fetch, one module for each.

Beside them: `outcome` (refusals and deadlines), `operations` (what clients may do) and `altering` (what both ways to
alter settings share).
"""

from typing import Final

from barnabas.edge.kafka.asked import Handle
from barnabas.edge.kafka.handlers import (
    alter_configs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    sync_group,
)
from barnabas.wire import apis
from barnabas.wire.apis import Api

HANDLERS: Final[dict[Api, Handle]] = {
    apis.LIST_OFFSETS: list_offsets.handle,
    apis.METADATA: metadata.handle,
    apis.OFFSET_COMMIT: offset_commit.handle,
    apis.OFFSET_FETCH: offset_fetch.handle,
    apis.FIND_COORDINATOR: find_coordinator.handle,
    apis.JOIN_GROUP: join_group.handle,
    apis.HEARTBEAT: heartbeat.handle,
    apis.LEAVE_GROUP: leave_group.handle,
    apis.SYNC_GROUP: sync_group.handle,
    apis.DESCRIBE_GROUPS: describe_groups.handle,
    apis.LIST_GROUPS: list_groups.handle,
    apis.API_VERSIONS: api_versions.handle,
    apis.CREATE_TOPICS: create_topics.handle,
    apis.DELETE_TOPICS: delete_topics.handle,
    apis.DELETE_RECORDS: delete_records.handle,
    apis.INIT_PRODUCER_ID: init_producer_id.handle,
    apis.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    apis.DESCRIBE_CONFIGS: describe_configs.handle,
    apis.ALTER_CONFIGS: alter_configs.handle,
    apis.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    apis.CREATE_PARTITIONS: create_partitions.handle,
    apis.DELETE_GROUPS: delete_groups.handle,
    apis.ELECT_LEADERS: elect_leaders.handle,
    apis.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
    apis.OFFSET_DELETE: offset_delete.handle,
    apis.DESCRIBE_QUORUM: describe_quorum.handle,
    apis.DESCRIBE_CLUSTER: describe_cluster.handle,
    apis.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat.handle,
    apis.CONSUMER_GROUP_DESCRIBE: consumer_group_describe.handle,
    apis.LIST_CONFIG_RESOURCES: list_config_resources.handle,
    apis.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.handle,
}
