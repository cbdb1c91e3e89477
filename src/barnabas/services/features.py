"""The features of the cluster: which levels of each there are, and which one is in use.

A feature is here once what stands behind it is. A level is not changed while a cluster is in use: every node of this
version goes by the highest, so an update is done when it asks for that, and refused otherwise.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.core.errors import InvalidUpdateVersion
from barnabas.core.metadata.image import Image

SUPPORTED_FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "metadata.version": (7, 30),
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
    """In which direction a level may go, numbered as in an UpdateFeatures request."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A level that a feature is to have."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def finalized_features(image: Image) -> dict[str, int]:
    """The level of each feature that is in use."""
    return {name: highest for name, (_, highest) in SUPPORTED_FEATURES.items()} | image.features


def check_updates(image: Image, updates: Sequence[FeatureUpdate]) -> None:
    """Refuse updates unless every one of them asks for the level that is in use."""
    in_use = finalized_features(image)
    for update in updates:
        problem = _problem_of(update, in_use.get(update.name, 0))
        if problem:
            raise InvalidUpdateVersion(f"Invalid update version {update.level} for feature {update.name}. {problem}")


def _problem_of(update: FeatureUpdate, current: int) -> str | None:
    lowest, highest = SUPPORTED_FEATURES.get(update.name, _NOT_THERE)
    if update.upgrade_type not in tuple(UpgradeType):
        return f"There is no upgrade type {update.upgrade_type}."
    if not lowest <= update.level <= highest:
        return f"This broker has levels {lowest} to {highest} of it."
    is_upgrade = update.upgrade_type == UpgradeType.UPGRADE
    if update.level < current and is_upgrade:
        return f"Level {current} is in use, and a lower one needs the upgrade type to be a downgrade."
    if update.level > current and not is_upgrade:
        return f"Level {current} is in use, and a higher one is no downgrade."
    if update.level != current:
        return f"Level {current} is in use and cannot be changed."
    return None
