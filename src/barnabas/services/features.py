"""The features of the cluster: the supported levels of each, and the one in use.

A feature is listed once it is implemented. A cluster uses the levels that it was formed with. That of
`metadata.version` can be raised, once every node knows the new one: see `core.metadata.levels` for what it allows. So
can that of `share.version`, and that of `kraft.version`, which is in the log of the quorum and not in the image: from
0, where the voters are a fixed list, to 1. The others do not change: an update to the level in use succeeds, and any
other is refused.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.core.errors import InvalidUpdateVersion, UnsupportedVersion
from barnabas.core.metadata.cluster import set_feature
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.levels import FIRST_LEVEL, LATEST_LEVEL, METADATA_VERSION, SEVERAL_NODES, level_of

KRAFT_VERSION: Final = "kraft.version"
SHARE_VERSION: Final = "share.version"
DEAD_LETTERS: Final = 2
"""The level of `share.version` from which on share groups have dead letters."""

SUPPORTED_FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    KRAFT_VERSION: (0, 1),
    METADATA_VERSION: (FIRST_LEVEL, LATEST_LEVEL),
    SHARE_VERSION: (0, 2),
    "transaction.version": (0, 2),
}
"""The levels of each feature.

`metadata.version` has the numbers of Kafka 3.3 to 4.3, and decides what is written to the metadata log.
`group.version` 1 is that there are consumer groups (KIP-848), `transaction.version` 2 that each transaction has an
epoch of its own (KIP-890), `share.version` 1 that there are share groups (KIP-932), 2 that they have dead letters
(KIP-1191), for which a state is written that level 1 does not know. `eligible.leader.replicas.version`
1 (KIP-966) is that the cluster has one `min.insync.replicas` for all its nodes, and that replicas which leave a smaller
ISR stay eligible to lead.
"""

_NOT_THERE: Final = (0, 0)
_RECORDED: Final = (METADATA_VERSION, SHARE_VERSION)
_RAISED: Final = (KRAFT_VERSION, *_RECORDED)


class UpgradeType(IntEnum):
    """The direction in which a level may change, numbered as in an UpdateFeatures request."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The requested level of a feature."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def highest_levels() -> dict[str, int]:
    """The levels that a cluster begins with which this version forms."""
    return {name: highest for name, (_, highest) in SUPPORTED_FEATURES.items() if name != KRAFT_VERSION}


def finalized_features(image: Image, *, kraft_version: int) -> dict[str, int]:
    """The level of each feature that is in use; one whose level is 0 is left out, as in Kafka."""
    levels = highest_levels() | image.features | {KRAFT_VERSION: kraft_version, SHARE_VERSION: share_level(image)}
    return {name: level for name, level in levels.items() if level > 0}


def share_level(image: Image) -> int:
    """The level of `share.version`. A cluster that is older than the feature has it once every node knows it: another
    could not read what is written of share groups.
    """
    recorded = image.features.get(SHARE_VERSION)
    if recorded is not None:
        return recorded
    _, highest = SUPPORTED_FEATURES[SHARE_VERSION]
    known = [{name: most for name, _, most in node.features} for node in image.nodes.values() if node.features]
    return min((each.get(SHARE_VERSION, 0) for each in known), default=highest)


def has_dead_letters(image: Image) -> bool:
    """Whether share groups can have dead letters: every node knows the state of a record that waits for its letter."""
    return share_level(image) >= DEAD_LETTERS


def check_shares(image: Image) -> None:
    """Refuse what needs share groups while there are none in this cluster."""
    if share_level(image) == 0:
        raise UnsupportedVersion("share groups need share.version 1, which not every broker of this cluster knows")


def update_features(image: Image, updates: Sequence[FeatureUpdate], *, kraft_version: int) -> MetadataDecision[None]:
    """Decide on updates: all of them, or none. That of the quorum is not in the metadata, and is only checked."""
    check_updates(image, updates, kraft_version=kraft_version)
    changed = (set_feature(image, each.name, each.level) for each in updates if each.name in _RECORDED)
    return MetadataDecision([record for decision in changed for record in decision.records], None)


def check_updates(image: Image, updates: Sequence[FeatureUpdate], *, kraft_version: int) -> None:
    """Refuse updates unless every one of them can be done."""
    in_use = finalized_features(image, kraft_version=kraft_version)
    for update in updates:
        problem = _problem_of(update, in_use.get(update.name, 0)) or _problem_of_nodes(image, update)
        if problem:
            raise InvalidUpdateVersion(f"Invalid update version {update.level} for feature {update.name}. {problem}")


def _problem_of(update: FeatureUpdate, current: int) -> str | None:
    lowest, highest = SUPPORTED_FEATURES.get(update.name, _NOT_THERE)
    if update.upgrade_type not in tuple(UpgradeType):
        return f"Upgrade type {update.upgrade_type} does not exist."
    if not lowest <= update.level <= highest:
        return f"This broker supports levels {lowest} to {highest}."
    is_upgrade = update.upgrade_type == UpgradeType.UPGRADE
    if update.level < current and is_upgrade:
        return f"Level {current} is in use, and a lower one requires a downgrade type."
    if update.level > current and not is_upgrade:
        return f"Level {current} is in use, and a higher one is not a downgrade."
    is_raised = update.name in _RAISED and update.level > current
    if update.level != current and not is_raised:
        return f"Level {current} is in use and cannot be changed."
    return None


def _problem_of_nodes(image: Image, update: FeatureUpdate) -> str | None:
    """Whether a node that is part of the cluster, running or not, does not know the level."""
    if update.name not in SUPPORTED_FEATURES or level_of(image) < SEVERAL_NODES:
        return None  # there is one node, this one, and at such a level its record does not say what it knows
    for node_id, node in sorted(image.nodes.items()):
        levels = {name: (lowest, highest) for name, lowest, highest in node.features}
        lowest, highest = levels.get(update.name, _NOT_THERE)
        if update.level != image.features.get(update.name) and not lowest <= update.level <= highest:
            return f"Broker {node_id} only supports versions {lowest}-{highest}."
    return None
