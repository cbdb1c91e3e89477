"""The records of the metadata log: each says one fact about the cluster, whole, so that the last one counts.

Owns their encoding: msgpack arrays that begin with the number of the type (Kafka's, where it has one). A field is only
ever added at the end, with a default, so that older records can always be read. An unknown type is refused: skipping a
record would yield another state from the same log.
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

SCRAM_SHA_256: Final = 1
SCRAM_SHA_512: Final = 2
"""The mechanisms of SCRAM credentials, numbered as in the protocol."""

RECOVERED: Final = 0
RECOVERING: Final = 1
"""Recovery states of a leader, numbered as in Kafka: one that was elected though it may lack records is recovering
until it says that its log is whole, and its ISR does not grow before that."""


class Endpoint(msgspec.Struct, frozen=True, array_like=True):
    """The advertised address of one listener of a node."""

    listener: str
    host: str
    port: int


class NodeRecord(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A node is part of the cluster.

    Each start of a node is another incarnation. A fenced node is hidden from clients: it gets no replicas and leads
    nothing. A leaving node is in a controlled shutdown.
    """

    node_id: int
    host: str
    port: int
    rack: str | None
    incarnation: UUID
    endpoints: tuple[Endpoint, ...] = ()  # of all its listeners; those of the first are `host` and `port`
    epoch: int = 0  # of this registration: later ones have higher ones
    is_fenced: bool = False
    is_leaving: bool = False
    directory_id: UUID | None = None  # of its data directory, which outlives incarnations
    features: tuple[tuple[str, int, int], ...] = ()  # the levels that it knows: name, lowest, highest
    generation: int = 0  # of its data directory, as it registered; 0 if it did not say

    @property
    def is_active(self) -> bool:
        """Whether it may lead and get replicas."""
        return not self.is_fenced and not self.is_leaving

    def endpoint(self, listener: str) -> Endpoint:
        """Where clients of this listener find the node: at its first one if it has none of that name."""
        for each in self.endpoints:
            if each.listener == listener:
                return each
        return Endpoint(listener, self.host, self.port)


class TopicRecord(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A topic exists; its partitions follow."""

    name: str
    topic_id: UUID


class PartitionRecord(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The whole state of a partition, new or changed. The first replica is the preferred leader.

    The eligible leader replicas (ELR) are not in sync, yet have everything acknowledged. While replicas are being
    moved, `replicas` are the old and the new ones.
    """

    topic_id: UUID
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()  # if nobody leads: who led last, then who lost its claim since
    recovery_state: int = RECOVERED
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)


class ConfigRecord(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A setting of a resource has this value; None removes it."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class RemoveTopicRecord(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """A topic is deleted, with its partitions and settings."""

    topic_id: UUID


class RemoveNodeRecord(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A node is no longer part of the cluster.

    Its data directory is remembered: partitions may still be placed on the node, and one that comes back under the same
    id with another directory has nothing of them.
    """

    node_id: int
    directory_id: UUID | None = None  # the one that it had


class FeatureRecord(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """A feature is used at this level; 0: disabled."""

    name: str
    level: int


class ProducerIdsRecord(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """Producer ids below this one are allocated."""

    next_producer_id: int


class ScramCredentialRecord(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """A user may log in by SCRAM with the password that these keys are made of; it cannot be computed from them."""

    user: str
    mechanism: int  # SCRAM_SHA_256 or SCRAM_SHA_512
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class RemoveScramCredentialRecord(msgspec.Struct, frozen=True, array_like=True, tag=22):
    """A user may no longer log in by this mechanism."""

    user: str
    mechanism: int


class ClientQuotaRecord(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """A quota of some clients has this value; None removes it.

    The entity is sorted pairs of a type (`client-id`, `ip`, `user`) and a name; None stands for all that have no quota
    of their own.
    """

    entity: tuple[tuple[str, str | None], ...]
    name: str
    value: float | None


class AclRecord(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """An ACL: it allows or denies a principal an operation on resources. The numbers are those of the protocol."""

    acl_id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class RemoveAclRecord(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """An ACL is deleted."""

    acl_id: UUID


class ClusterRecord(msgspec.Struct, frozen=True, array_like=True, tag=100):
    """The id of the cluster, which never changes."""

    cluster_id: str


MetadataRecord: TypeAlias = (
    NodeRecord
    | RemoveNodeRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | RemoveTopicRecord
    | FeatureRecord
    | ProducerIdsRecord
    | ScramCredentialRecord
    | RemoveScramCredentialRecord
    | ClientQuotaRecord
    | AclRecord
    | RemoveAclRecord
    | ClusterRecord
)

_encoder: Final = msgspec.msgpack.Encoder(uuid_format="bytes")
_decoder: Final = msgspec.msgpack.Decoder(MetadataRecord)


def encode_record(record: MetadataRecord) -> bytes:
    """The record as it is in the log."""
    return _encoder.encode(record)


def decode_record(data: bytes) -> MetadataRecord:
    """Decode a record; refused if the bytes are invalid, or of an unknown type."""
    try:
        record: MetadataRecord = _decoder.decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidMetadata(f"{len(data)} bytes are not a metadata record known to this version: {error}") from None
    return record
