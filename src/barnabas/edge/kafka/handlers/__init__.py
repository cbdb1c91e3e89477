"""The handlers of all APIs but Produce and Fetch, one module for each.

Beside them: `outcome` (refusals and deadlines), `operations` (what clients may do) and `altering` (what both ways to
alter settings share).
"""

from typing import Final

from barnabas.edge.kafka.asked import Handle
from barnabas.edge.kafka.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
)
from barnabas.wire import apis
from barnabas.wire.apis import Api

HANDLERS: Final[dict[Api, Handle]] = {
    apis.LIST_OFFSETS: list_offsets.handle,
    apis.METADATA: metadata.handle,
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
    apis.ELECT_LEADERS: elect_leaders.handle,
    apis.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
    apis.DESCRIBE_QUORUM: describe_quorum.handle,
    apis.DESCRIBE_CLUSTER: describe_cluster.handle,
    apis.LIST_CONFIG_RESOURCES: list_config_resources.handle,
    apis.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.handle,
}
