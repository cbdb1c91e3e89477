"""The records of the metadata log: each says one fact about the cluster, whole, so that the last one counts.

Owns their encoding: msgpack arrays that begin with the number of the type (Kafka's, where it has one). A field is only
ever added at the end, with a default, so that older records can be read for ever. A type that is not known is
refused: to pass over a fact would make another state of the same log.
"""

from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from barnabas.core.errors import InvalidMetadata

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32

ALL_NODES: Final = ""
"""The name of the broker resource that stands for every node."""

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
"""The one setting that decisions here look at: the cluster has one value of it for all its nodes."""

NO_LEADER: Final = -1


class NodeRecord(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A node is part of the cluster. Each start of a node is another incarnation."""

    node_id: int
    host: str
    port: int
    rack: str | None
    incarnation: UUID


class TopicRecord(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A topic is there; its partitions follow."""

    name: str
    topic_id: UUID


class PartitionRecord(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The whole state of a partition, new or changed. The first replica is the preferred leader."""

    topic_id: UUID
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int


class ConfigRecord(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A setting of a resource has this value; None removes it."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class RemoveTopicRecord(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """A topic is gone, with its partitions and settings."""

    topic_id: UUID


class FeatureRecord(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """A feature is used at this level; 0 is not at all."""

    name: str
    level: int


class ProducerIdsRecord(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """Producer ids below this one are given out."""

    next_producer_id: int


class ClusterRecord(msgspec.Struct, frozen=True, array_like=True, tag=100):
    """What the cluster is called, for ever."""

    cluster_id: str


MetadataRecord: TypeAlias = (
    NodeRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | RemoveTopicRecord
    | FeatureRecord
    | ProducerIdsRecord
    | ClusterRecord
)

_encoder: Final = msgspec.msgpack.Encoder(uuid_format="bytes")
_decoder: Final = msgspec.msgpack.Decoder(MetadataRecord)


def encode_record(record: MetadataRecord) -> bytes:
    """The record as it is in the log."""
    return _encoder.encode(record)


def decode_record(data: bytes) -> MetadataRecord:
    """The record that these bytes are; refused when they are none, or of a type that is not known."""
    try:
        record: MetadataRecord = _decoder.decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidMetadata(f"{len(data)} bytes are no metadata record that this version knows: {error}") from None
    return record
