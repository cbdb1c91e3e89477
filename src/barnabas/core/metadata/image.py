"""The image: the state of the cluster as of an offset of the metadata log.

Owns the state; only `apply` changes it, one record at a time. A record that does not fit what came before it is
`InvalidMetadata` and changes nothing. The same records give an equal image on every node.

Invariants: `topics` and `topics_by_id` hold the same topics; partitions are numbered from 0 without gaps; nothing is
kept of what was removed, but for the data directories of nodes, so `to_records` of two equal images are equal; what an
image has in common with a fork of it is changed by neither.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from uuid import UUID

from barnabas.core.errors import InvalidMetadata, UnknownTopicId, UnknownTopicOrPartition
from barnabas.core.metadata.names import unify
from barnabas.core.metadata.records import (
    TOPIC_RESOURCE,
    AclRecord,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    FeatureRecord,
    MetadataRecord,
    NodeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAclRecord,
    RemoveNodeRecord,
    RemoveScramCredentialRecord,
    RemoveTopicRecord,
    ScramCredentialRecord,
    TopicRecord,
)

# A record holds the whole of what it is about, so it is also the state.
Node: TypeAlias = NodeRecord
PartitionState: TypeAlias = PartitionRecord
Acl: TypeAlias = AclRecord
ScramCredential: TypeAlias = ScramCredentialRecord
Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""The clients that a quota is for."""

_NO_CONFIG: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(slots=True)
class Topic:
    """A topic and its partitions, numbered from 0."""

    name: str
    topic_id: UUID
    partitions: dict[int, PartitionState] = field(default_factory=dict)
    _owner: object = field(default=None, compare=False, repr=False)  # the image whose alone it is, see `Image.fork`

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas) if self.partitions else 0

    def get_partition(self, partition: int) -> PartitionState:
        """The state of a partition; refused when there is none of that number."""
        state = self.partitions.get(partition)
        if state is None:
            raise UnknownTopicOrPartition(f"topic '{self.name}' has no partition {partition}")
        return state


@dataclass(slots=True)
class Image:
    """The cluster as of the metadata log. Reading is free; only `apply` may change it."""

    cluster_id: str | None = None
    nodes: dict[int, Node] = field(default_factory=dict)
    removed: dict[int, UUID] = field(default_factory=dict)
    """The data directories of nodes that were removed, as long as no node has their ids again."""
    topics: dict[str, Topic] = field(default_factory=dict)
    topics_by_id: dict[UUID, Topic] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    credentials: dict[tuple[str, int], ScramCredential] = field(default_factory=dict)
    """By user and mechanism."""
    quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    acls: dict[UUID, Acl] = field(default_factory=dict)
    access_state: object = field(default_factory=object, compare=False, repr=False)
    """Another one after each change of credentials, quotas or ACLs: who has made something of them can tell."""
    partition_count: int = field(default=0, compare=False)
    """The partitions of all topics."""
    _names: dict[str, str] = field(default_factory=dict, compare=False)  # by what metrics make of them
    _owner: object = field(default_factory=object, compare=False, repr=False)

    def get_topic(self, name: str) -> Topic:
        """The topic of that name; refused when there is none."""
        topic = self.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"topic '{name}' does not exist")
        return topic

    def get_topic_by_id(self, topic_id: UUID) -> Topic:
        """The topic of that id; refused when there is none."""
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"topic id {topic_id} does not exist")
        return topic

    def is_active(self, node_id: int) -> bool:
        """Whether a node is part of the cluster, and neither fenced nor leaving."""
        node = self.nodes.get(node_id)
        return node is not None and node.is_active

    def config_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The settings of a resource itself, without defaults."""
        return self.configs.get((resource_type, name), _NO_CONFIG)

    def find_collision(self, name: str) -> str | None:
        """The topic whose name collides with this one in the names of metrics."""
        return self._names.get(unify(name))

    def apply(self, record: MetadataRecord) -> None:
        """Apply one record of the log."""
        _APPLY[type(record)](self, record)

    def fork(self) -> "Image":
        """Another image, equal to this one; from now on each changes apart. Topics are copied only as they change."""
        self._owner = object()  # no topic is this image's alone any more
        return Image(
            cluster_id=self.cluster_id,
            nodes=self.nodes.copy(),
            removed=self.removed.copy(),
            topics=self.topics.copy(),
            topics_by_id=self.topics_by_id.copy(),
            configs=self.configs.copy(),
            features=self.features.copy(),
            next_producer_id=self.next_producer_id,
            credentials=self.credentials.copy(),
            quotas=self.quotas.copy(),
            acls=self.acls.copy(),
            access_state=self.access_state,
            partition_count=self.partition_count,
            _names=self._names.copy(),
        )

    def to_records(self) -> Iterator[MetadataRecord]:
        """The records that make an empty image equal to this one."""
        if self.cluster_id is not None:
            yield ClusterRecord(self.cluster_id)
        for name, level in sorted(self.features.items()):
            yield FeatureRecord(name, level)
        for _, node in sorted(self.nodes.items()):
            yield node
        for node_id, directory_id in sorted(self.removed.items()):
            yield RemoveNodeRecord(node_id, directory_id)
        for _, topic in sorted(self.topics.items()):
            yield TopicRecord(topic.name, topic.topic_id)
            yield from topic.partitions.values()
        for (resource_type, resource_name), values in sorted(self.configs.items()):
            for name, value in sorted(values.items()):
                yield ConfigRecord(resource_type, resource_name, name, value)
        if self.next_producer_id:
            yield ProducerIdsRecord(self.next_producer_id)
        yield from self._access_records()

    def _access_records(self) -> Iterator[MetadataRecord]:
        for _, credential in sorted(self.credentials.items()):
            yield credential
        for entity in sorted(self.quotas, key=entity_order):
            for name, limit in sorted(self.quotas[entity].items()):
                yield ClientQuotaRecord(entity, name, limit)
        for _, acl in sorted(self.acls.items()):
            yield acl

    # One for each type of record.

    def _apply_cluster(self, record: ClusterRecord) -> None:
        if self.cluster_id not in (None, record.cluster_id):
            raise InvalidMetadata(f"cluster {self.cluster_id} cannot become {record.cluster_id}")
        self.cluster_id = record.cluster_id

    def _apply_node(self, record: NodeRecord) -> None:
        self.nodes[record.node_id] = record
        self.removed.pop(record.node_id, None)

    def _apply_remove_node(self, record: RemoveNodeRecord) -> None:
        if self.nodes.pop(record.node_id, None) is None and record.directory_id is None:
            raise InvalidMetadata(f"the removal of node {record.node_id}, which does not exist")
        if record.directory_id is not None:
            self.removed[record.node_id] = record.directory_id

    def _apply_topic(self, record: TopicRecord) -> None:
        if record.name in self.topics or record.topic_id in self.topics_by_id:
            raise InvalidMetadata(f"topic '{record.name}' ({record.topic_id}) already exists")
        topic = Topic(record.name, record.topic_id, _owner=self._owner)
        self.topics[record.name] = self.topics_by_id[record.topic_id] = topic
        self._names[unify(record.name)] = record.name

    def _apply_partition(self, record: PartitionRecord) -> None:
        topic = self.topics_by_id.get(record.topic_id)
        if topic is None:
            raise InvalidMetadata(f"partition {record.partition} of topic {record.topic_id}, which does not exist")
        if not 0 <= record.partition <= len(topic.partitions):
            raise InvalidMetadata(
                f"partition {record.partition} of '{topic.name}', which has {len(topic.partitions)}, leaves a gap"
            )
        if topic._owner is not self._owner:
            topic = Topic(topic.name, topic.topic_id, topic.partitions.copy(), _owner=self._owner)
            self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
        self.partition_count += record.partition not in topic.partitions
        topic.partitions[record.partition] = record

    def _apply_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self.topics_by_id.pop(record.topic_id, None)
        if topic is None:
            raise InvalidMetadata(f"the removal of topic {record.topic_id}, which does not exist")
        del self.topics[topic.name]
        self.partition_count -= len(topic.partitions)
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)
        if self._names.get(unify(topic.name)) == topic.name:
            del self._names[unify(topic.name)]

    def _apply_config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        values = {name: value for name, value in self.configs.get(resource, {}).items() if name != record.name}
        if record.value is not None:
            values[record.name] = record.value
        if values:
            self.configs[resource] = values
        else:
            self.configs.pop(resource, None)

    def _apply_producer_ids(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id < self.next_producer_id:
            raise InvalidMetadata(
                f"producer ids up to {self.next_producer_id} are given out; {record.next_producer_id} would repeat some"
            )
        self.next_producer_id = record.next_producer_id

    def _apply_feature(self, record: FeatureRecord) -> None:
        if record.level:
            self.features[record.name] = record.level
        else:
            self.features.pop(record.name, None)

    def _apply_credential(self, record: ScramCredentialRecord) -> None:
        self.credentials[record.user, record.mechanism] = record
        self.access_state = object()

    def _apply_remove_credential(self, record: RemoveScramCredentialRecord) -> None:
        if self.credentials.pop((record.user, record.mechanism), None) is None:
            raise InvalidMetadata(f"the removal of credentials that user '{record.user}' does not have")
        self.access_state = object()

    def _apply_quota(self, record: ClientQuotaRecord) -> None:
        limits = {name: value for name, value in self.quotas.get(record.entity, {}).items() if name != record.name}
        if record.value is not None:
            limits[record.name] = record.value
        if limits:
            self.quotas[record.entity] = limits
        else:
            self.quotas.pop(record.entity, None)
        self.access_state = object()

    def _apply_acl(self, record: AclRecord) -> None:
        if record.acl_id in self.acls:
            raise InvalidMetadata(f"ACL {record.acl_id} already exists")
        self.acls[record.acl_id] = record
        self.access_state = object()

    def _apply_remove_acl(self, record: RemoveAclRecord) -> None:
        if self.acls.pop(record.acl_id, None) is None:
            raise InvalidMetadata(f"the removal of ACL {record.acl_id}, which does not exist")
        self.access_state = object()


def entity_order(entity: Entity) -> list[tuple[str, str]]:
    """Sorts entities: the one that stands for all others comes before those that have a name."""
    return [(kind, "" if name is None else f"={name}") for kind, name in entity]


_APPLY: Final[dict[type, Callable[[Image, Any], None]]] = {
    ClusterRecord: Image._apply_cluster,
    NodeRecord: Image._apply_node,
    RemoveNodeRecord: Image._apply_remove_node,
    TopicRecord: Image._apply_topic,
    PartitionRecord: Image._apply_partition,
    RemoveTopicRecord: Image._apply_remove_topic,
    ConfigRecord: Image._apply_config,
    ProducerIdsRecord: Image._apply_producer_ids,
    FeatureRecord: Image._apply_feature,
    ScramCredentialRecord: Image._apply_credential,
    RemoveScramCredentialRecord: Image._apply_remove_credential,
    ClientQuotaRecord: Image._apply_quota,
    AclRecord: Image._apply_acl,
    RemoveAclRecord: Image._apply_remove_acl,
}
