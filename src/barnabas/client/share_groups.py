"""Share groups: listing and describing them, over our own connections, since librdkafka has no requests for them and
leaves them out of its list of groups.

Owns no state. ListGroups goes to every broker, the rest to the group's coordinator.
"""

from typing import Any, Final

from barnabas.client.cluster import Cluster
from barnabas.client.errors import check
from barnabas.client.group_infos import GroupDetails, GroupInfo, GroupMember, PartitionLag
from barnabas.client.settings import Settings
from barnabas.core.errors import GroupIdNotFound
from barnabas.core.model import TopicPartition
from barnabas.wire.apis import DESCRIBE_SHARE_GROUP_OFFSETS, LIST_GROUPS, SHARE_GROUP_DESCRIBE

_TYPE: Final = "share"
_TYPES_SINCE: Final = 5  # the version of ListGroups that tells types
_UNKNOWN: Final = -1


class ShareGroups:
    """The share groups of one cluster. Each call has its own connections."""

    def __init__(self, settings: Settings, timeout_s: float) -> None:
        self._settings = settings
        self._timeout_s = timeout_s

    def list_all(self) -> list[GroupInfo]:
        with Cluster(self._settings, self._timeout_s) as cluster:
            return cluster.trying(lambda: _list(cluster))

    def find(self, name: str) -> GroupDetails | None:
        """A share group; None: there is none of this name."""
        with Cluster(self._settings, self._timeout_s) as cluster:
            return cluster.trying(lambda: _find(cluster, name))


def _list(cluster: Cluster) -> list[GroupInfo]:
    found = []
    for broker in cluster.brokers():
        connection = cluster.connect(broker)
        if connection.version(LIST_GROUPS.key) < _TYPES_SINCE:
            continue  # it is older than share groups
        answer = connection.call(LIST_GROUPS.key, {"states_filter": [], "types_filter": [_TYPE]})
        check(answer.error_code, "list the groups")
        found += [
            GroupInfo(str(each.group_id), str(each.group_state).lower(), _TYPE, is_simple=False)
            for each in answer.groups
        ]
    return found


def _find(cluster: Cluster, name: str) -> GroupDetails | None:
    connection = cluster.connect(cluster.group_coordinator(name))
    if not connection.serves(SHARE_GROUP_DESCRIBE.key):
        return None
    answer = connection.call(SHARE_GROUP_DESCRIBE.key, {"group_ids": [name], "include_authorized_operations": False})
    (group,) = answer.groups
    if int(group.error_code) == GroupIdNotFound.kafka_code:
        return None
    check(group.error_code, f"describe group {name!r}")
    answer = connection.call(DESCRIBE_SHARE_GROUP_OFFSETS.key, {"groups": [{"group_id": name, "topics": None}]})
    (offsets,) = answer.groups
    check(offsets.error_code, f"read the offsets of group {name!r}")
    lags = [
        _lag(str(topic.topic_name), partition)
        for topic in offsets.topics
        for partition in topic.partitions
        if not int(partition.error_code)
    ]
    return GroupDetails(
        name,
        str(group.group_state).lower(),
        _TYPE,
        str(group.assignor_name),
        tuple(_member(each) for each in group.members),
        tuple(sorted(lags, key=lambda each: (each.topic, each.partition))),
    )


def _lag(topic: str, partition: Any) -> PartitionLag:
    """The progress in a partition, which all members share: its offset is that of the first record not yet done."""
    start, lag = int(partition.start_offset), int(getattr(partition, "lag", _UNKNOWN))
    return PartitionLag(
        topic,
        int(partition.partition_index),
        offset=None if start == _UNKNOWN else start,
        end_offset=None,
        lag=None if lag == _UNKNOWN else lag,
        lag_seconds=None,
        member_id=None,
    )


def _member(found: Any) -> GroupMember:
    partitions = tuple(
        sorted(
            TopicPartition(str(topic.topic_name), int(partition))
            for topic in found.assignment.topic_partitions
            for partition in topic.partitions
        )
    )
    return GroupMember(str(found.member_id), str(found.client_id), str(found.client_host), None, partitions)
