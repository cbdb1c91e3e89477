"""Decisions about the cluster itself: its id, its nodes, its features, the producer ids it allocates."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from barnabas.core.errors import InvalidConfig, InvalidRequest
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.levels import METADATA_VERSION
from barnabas.core.metadata.records import (
    ALL_NODES,
    BROKER_RESOURCE,
    MIN_INSYNC_REPLICAS,
    ClusterRecord,
    ConfigRecord,
    FeatureRecord,
    MetadataRecord,
    ProducerIdsRecord,
    ScramCredentialRecord,
)

_NO_FEATURES: Final[Mapping[str, int]] = MappingProxyType({})


def form_cluster(image: Image, cluster_id: str) -> MetadataDecision[str]:
    """Give a new cluster its id; the reply is the id it has."""
    if image.cluster_id is not None:
        return MetadataDecision([], image.cluster_id)
    return MetadataDecision([ClusterRecord(cluster_id)], cluster_id)


def start_cluster(
    image: Image,
    *,
    cluster_id: str,
    min_insync_replicas: str,
    features: Mapping[str, int] = _NO_FEATURES,
    credentials: Sequence[ScramCredentialRecord] = (),
) -> MetadataDecision[str]:
    """Write what a cluster needs before a node registers; the reply is its `min.insync.replicas`.

    `features`: the levels to use from now on, if none of `metadata.version` is in use. A cluster keeps the levels that
    it began with until they are updated, so that a node of a newer version changes nothing by leading.

    `credentials`: of the first users, for a cluster that has no id yet.
    """
    kept = keep_min_insync_replicas(image, min_insync_replicas)
    records: list[MetadataRecord] = [*form_cluster(image, cluster_id).records, *kept.records]
    if METADATA_VERSION not in image.features:
        missing = {name: level for name, level in features.items() if level and name not in image.features}
        records += [FeatureRecord(name, level) for name, level in sorted(missing.items())]
    if image.cluster_id is None:
        records += credentials
    return MetadataDecision(records, kept.reply)


def check_identity(image: Image, *, node_id: int, cluster_id: str | None) -> None:
    """Refuse to run these data as another node, or in another cluster, than they belong to.

    An unknown node would lead none of its partitions, and its clients would wait forever.
    """
    if image.nodes and node_id not in image.nodes:
        owners = " or ".join(str(each) for each in sorted(image.nodes))
        raise InvalidConfig(f"node.id is {node_id}, but the data are those of node {owners}")
    if None not in (cluster_id, image.cluster_id) and cluster_id != image.cluster_id:
        raise InvalidConfig(f"cluster.id is {cluster_id}, but the data are those of cluster {image.cluster_id}")


def allocate_producer_ids(image: Image, count: int) -> MetadataDecision[range]:
    """Allocate a block of producer ids."""
    if count <= 0:
        raise InvalidRequest(f"{count} producer ids cannot be allocated")
    first = image.next_producer_id
    return MetadataDecision([ProducerIdsRecord(first + count)], range(first, first + count))


def keep_min_insync_replicas(image: Image, value: str) -> MetadataDecision[str]:
    """Set the value for the whole cluster, unless there is one; the reply is the value in use.

    Leader elections depend on it (eligible leader replicas, KIP-966), so no node may have its own.
    """
    current = image.config_of(BROKER_RESOURCE, ALL_NODES).get(MIN_INSYNC_REPLICAS)
    records = [
        ConfigRecord(kind, name, MIN_INSYNC_REPLICAS, None)
        for (kind, name), values in sorted(image.configs.items())
        if kind == BROKER_RESOURCE and name != ALL_NODES and MIN_INSYNC_REPLICAS in values
    ]
    if current is None:
        records.append(ConfigRecord(BROKER_RESOURCE, ALL_NODES, MIN_INSYNC_REPLICAS, value))
    return MetadataDecision(records, value if current is None else current)


def set_feature(image: Image, name: str, level: int) -> MetadataDecision[int]:
    """Set the level of a feature, 0 to disable it; the reply is the level it had."""
    previous = image.features.get(name, 0)
    return MetadataDecision([] if level == previous else [FeatureRecord(name, level)], previous)
