"""What makes one image of the metadata into another: for a node that takes over a state without the log up to it."""

from collections.abc import Iterator

from barnabas.core.metadata.image import Image, entity_order
from barnabas.core.metadata.records import (
    TOPIC_RESOURCE,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    FeatureRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveAclRecord,
    RemoveNodeRecord,
    RemoveScramCredentialRecord,
    RemoveTopicRecord,
    TopicRecord,
)


def difference(old: Image, new: Image) -> list[MetadataRecord]:
    """The records that make `old` equal to `new`, a later state of the same cluster."""
    records: list[MetadataRecord] = []
    if new.cluster_id is not None and new.cluster_id != old.cluster_id:
        records.append(ClusterRecord(new.cluster_id))
    records += [
        FeatureRecord(name, new.features.get(name, 0))
        for name in sorted({*old.features, *new.features})
        if old.features.get(name) != new.features.get(name)
    ]
    records += _removed_nodes(old, new)
    records += [node for node_id, node in sorted(new.nodes.items()) if old.nodes.get(node_id) != node]
    records += _topics(old, new)
    records += _configs(old, new)
    if new.next_producer_id > old.next_producer_id:
        records.append(ProducerIdsRecord(new.next_producer_id))
    records += _credentials(old, new)
    records += _quotas(old, new)
    records += _acls(old, new)
    return records


def _removed_nodes(old: Image, new: Image) -> Iterator[MetadataRecord]:
    """Those that went, or whose directories are remembered; a node that is back is in a record of its own."""
    for node_id in sorted({*old.nodes, *new.removed} - set(new.nodes)):
        if node_id in old.nodes or old.removed.get(node_id) != new.removed[node_id]:
            yield RemoveNodeRecord(node_id, new.removed.get(node_id))


def _topics(old: Image, new: Image) -> Iterator[MetadataRecord]:
    """Those that are gone come first: a new one may have the name of one of them."""
    for _, topic in sorted(old.topics.items()):
        if topic.topic_id not in new.topics_by_id:
            yield RemoveTopicRecord(topic.topic_id)
    for _, topic in sorted(new.topics.items()):
        before = old.topics_by_id.get(topic.topic_id)
        if before is None:
            yield TopicRecord(topic.name, topic.topic_id)
        for number, partition in topic.partitions.items():
            if before is None or before.partitions.get(number) != partition:
                yield partition


def _configs(old: Image, new: Image) -> Iterator[MetadataRecord]:
    gone = {name for name, topic in old.topics.items() if topic.topic_id not in new.topics_by_id}
    for resource in sorted({*old.configs, *new.configs}):
        kind, resource_name = resource
        is_gone = kind == TOPIC_RESOURCE and resource_name in gone  # its settings went with it
        before = {} if is_gone else old.configs.get(resource, {})
        after = new.configs.get(resource, {})
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                yield ConfigRecord(kind, resource_name, name, after.get(name))


def _credentials(old: Image, new: Image) -> Iterator[MetadataRecord]:
    for user, mechanism in sorted(set(old.credentials) - set(new.credentials)):
        yield RemoveScramCredentialRecord(user, mechanism)
    for key, credential in sorted(new.credentials.items()):
        if old.credentials.get(key) != credential:
            yield credential


def _quotas(old: Image, new: Image) -> Iterator[MetadataRecord]:
    for entity in sorted({*old.quotas, *new.quotas}, key=entity_order):
        before, after = old.quotas.get(entity, {}), new.quotas.get(entity, {})
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                yield ClientQuotaRecord(entity, name, after.get(name))


def _acls(old: Image, new: Image) -> Iterator[MetadataRecord]:
    """An ACL never changes: another one has another id."""
    for acl_id in sorted(set(old.acls) - set(new.acls)):
        yield RemoveAclRecord(acl_id)
    for acl_id, acl in sorted(new.acls.items()):
        if acl_id not in old.acls:
            yield acl
