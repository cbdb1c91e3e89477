"""The metadata of the cluster: records, the image they make, and the decisions that lead to them."""

from barnabas.core.metadata.cluster import allocate_producer_ids, form_cluster, set_feature
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.elections import elect_preferred, elect_unclean
from barnabas.core.metadata.image import Image, Node, PartitionState, Topic
from barnabas.core.metadata.records import MetadataRecord
from barnabas.core.metadata.topics import (
    CreatedTopic,
    NewTopic,
    create_partitions,
    create_topic,
    delete_topic,
    set_configs,
)

__all__ = [
    "CreatedTopic",
    "Image",
    "MetadataDecision",
    "MetadataRecord",
    "NewTopic",
    "Node",
    "PartitionState",
    "Topic",
    "allocate_producer_ids",
    "create_partitions",
    "create_topic",
    "delete_topic",
    "elect_preferred",
    "elect_unclean",
    "form_cluster",
    "set_configs",
    "set_feature",
]
