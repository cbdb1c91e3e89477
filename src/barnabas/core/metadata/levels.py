"""The levels of `metadata.version`, and what may be written to the metadata log at each.

Nodes of two versions run side by side at a level that both know: a record type or a field is written only once the
level that introduced it is in use, and a broker that does not know that level is not let in. The numbers are Kafka's,
so that its tools show them as releases; what a level means here is said here alone.

To add a type or a field: add a level at the end, enter the type or the field below with that level, and let decisions
that need it ask `level_of`. `check_level` refuses what was forgotten.

A log without a level in use is that of one node by itself, which reads all that it writes: it gets its level when this
version first leads it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from barnabas.core.errors import UnsupportedVersion
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import (
    AclRecord,
    ClientQuotaRecord,
    FeatureRecord,
    MetadataRecord,
    NodeRecord,
    PartitionRecord,
    RemoveAclRecord,
    RemoveNodeRecord,
    RemoveScramCredentialRecord,
    ScramCredentialRecord,
)

METADATA_VERSION: Final = "metadata.version"
FIRST_LEVEL: Final = 7
ONE_NODE: Final = 29
"""The metadata of one node by itself."""
SEVERAL_NODES: Final = 30
"""Brokers have epochs, are fenced and leave."""
SEVERAL_REPLICAS: Final = 31
"""Partitions have eligible leader replicas and recovery states, and are reassigned; the data directories of nodes that
were removed are remembered."""
GENERATIONS: Final = 32
"""The generations of data directories are recorded, and older copies are told by them."""
ACCESS: Final = 33
"""ACLs, SCRAM credentials and client quotas are part of the metadata."""
LATEST_LEVEL: Final = ACCESS

TYPES: Final[Mapping[type, int]] = {
    RemoveNodeRecord: SEVERAL_NODES,
    ScramCredentialRecord: ACCESS,
    RemoveScramCredentialRecord: ACCESS,
    ClientQuotaRecord: ACCESS,
    AclRecord: ACCESS,
    RemoveAclRecord: ACCESS,
}
"""The level that introduced a record type, if it is later than the first."""

FIELDS: Final[Mapping[type, Mapping[str, int]]] = {
    NodeRecord: {
        **dict.fromkeys(("epoch", "is_fenced", "is_leaving", "directory_id", "features"), SEVERAL_NODES),
        "generation": GENERATIONS,
    },
    RemoveNodeRecord: {"directory_id": SEVERAL_REPLICAS},
    PartitionRecord: dict.fromkeys(("elr", "last_known_elr", "recovery_state", "adding", "removing"), SEVERAL_REPLICAS),
}
"""The level that introduced a field of a record type that was there before it."""

_DEFAULTS: Final = {
    kind: {each.name: each.default for each in msgspec.structs.fields(kind) if each.name in levels}
    for kind, levels in FIELDS.items()
}


def level_of(image: Image) -> int:
    """The level in use."""
    return image.features.get(METADATA_VERSION, LATEST_LEVEL)


def needed_level(record: MetadataRecord) -> int:
    """The level that a record requires: one that does not know it would read something else."""
    kind = type(record)
    level = TYPES.get(kind, FIRST_LEVEL)
    for name, default in _DEFAULTS.get(kind, {}).items():
        if getattr(record, name) != default:
            level = max(level, FIELDS[kind][name])
    return level


def node_at(record: NodeRecord, level: int) -> NodeRecord:
    """A node as this level can say it: fields that came later have their defaults."""
    later = {name: _DEFAULTS[NodeRecord][name] for name, each in FIELDS[NodeRecord].items() if each > level}
    return msgspec.structs.replace(record, **later) if later else record


def check_level(image: Image, records: Iterable[MetadataRecord]) -> None:
    """Refuse to write records that a node of the level in use cannot read. A level counts from its record on."""
    level = level_of(image)
    for record in records:
        if isinstance(record, FeatureRecord) and record.name == METADATA_VERSION:
            level = record.level
        elif (type(record) in TYPES or type(record) in FIELDS) and (needed := needed_level(record)) > level:
            raise UnsupportedVersion(
                f"the cluster uses level {level} of {METADATA_VERSION}, and this needs level {needed}: upgrade all "
                "nodes, then the level"
            )
