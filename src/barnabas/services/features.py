"""The features of the cluster: the supported levels of each, and the one in use.

A feature is listed once it is implemented. Levels do not change: every node of this version uses the highest, so an
update to that level succeeds, and any other is refused.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.core.errors import InvalidUpdateVersion
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.levels import FIRST_LEVEL, LATEST_LEVEL, METADATA_VERSION

SUPPORTED_FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    METADATA_VERSION: (FIRST_LEVEL, LATEST_LEVEL),
    "transaction.version": (0, 2),
}
"""The levels of each feature.

`metadata.version`, from Kafka 3.3 to 4.3, is shown by admin clients, and nothing depends on it. `group.version` 1 is
that there are consumer groups (KIP-848), `transaction.version` 2 that each transaction has an epoch of its own
(KIP-890). `eligible.leader.replicas.version` 1 (KIP-966) is that the cluster has one `min.insync.replicas` for all its
nodes; of who is eligible there is nothing to say while there is one.
"""

_NOT_THERE: Final = (0, 0)


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
    return {name: highest for name, (_, highest) in SUPPORTED_FEATURES.items()}


def finalized_features(image: Image) -> dict[str, int]:
    """The level of each feature that is in use."""
    return highest_levels() | image.features


def check_updates(image: Image, updates: Sequence[FeatureUpdate]) -> None:
    """Refuse updates unless every one of them requests the level in use."""
    in_use = finalized_features(image)
    for update in updates:
        problem = _problem_of(update, in_use.get(update.name, 0))
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
    if update.level != current:
        return f"Level {current} is in use and cannot be changed."
    return None
