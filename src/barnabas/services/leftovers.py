"""Directories of partitions when a node has opened them: which belong to topics of the metadata, and which to none.

A directory belongs to the topic whose id it has. While the metadata here may be old, one of an unknown topic may be of
a topic that this node has only not heard of again: it is neither served nor removed. Once the metadata is known to be
current (`settle_leftovers`) it is a leftover.
"""

from uuid import UUID

from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.model import TopicPartition
from barnabas.runtime.log_lines import get_logger
from barnabas.services.opened import tell_strays
from barnabas.services.served import ServedTopics
from barnabas.storage.data_dir import DataDir

log = get_logger("barnabas.node", is_limited=False)


def hold_logs(served: ServedTopics, data_dir: DataDir) -> None:
    """Have the partitions of topics take their logs that are on disk, by the ids of the topics."""
    for name in list(data_dir.logs):
        topic_id = _topic_id(served, name)
        if topic_id is not None and data_dir.topic_ids.get(name) == topic_id:
            served.get_partition(*name).hold_log()


def settle_leftovers(served: ServedTopics, data_dir: DataDir) -> None:
    """Remove what belongs to no topic: to be called when the metadata is current, which a sole voter's always is.

    Current means applied up to a high watermark that the quorum had after this node started. Directories of earlier
    versions, which have no id, belong to the topic of their name, and get its id.
    """
    strays: list[TopicPartition] = []
    unnamed: dict[TopicPartition, UUID] = {}
    for name in (*data_dir.logs, *data_dir.unreadable):
        if name == METADATA_PARTITION:
            continue
        found, topic_id = data_dir.topic_ids.get(name), _topic_id(served, name)
        if topic_id is None or found not in (None, topic_id):
            strays.append(name)
        elif found is None and name in data_dir.logs:
            unnamed[name] = topic_id
    if strays:
        tell_strays(strays)
        data_dir.leftovers += data_dir.delete_strays(strays)
    for failure in data_dir.leftovers:
        log.warning("files of a deleted topic cannot be removed (%s); remove them by hand", failure)
    data_dir.leftovers = []
    if unnamed:
        data_dir.put_topic_ids(unnamed)
    data_dir.is_settled = True
    hold_logs(served, data_dir)


def _topic_id(served: ServedTopics, name: TopicPartition) -> UUID | None:
    """The id of the topic that has a replica of this partition here now."""
    topic = served.by_name.get(name.topic)
    partition = None if topic is None else topic.partitions.get(name.partition)
    return partition.topic_id if partition is not None and partition.is_here else None
