"""The level of `metadata.version` rises once every node knows the new one; nothing else changes."""

from uuid import UUID

import msgspec
import pytest

from barnabas.core.errors import InvalidUpdateVersion
from barnabas.core.metadata import Image
from barnabas.core.metadata.levels import LATEST_LEVEL, METADATA_VERSION, ONE_NODE, level_of
from barnabas.core.metadata.records import FeatureRecord, NodeRecord
from barnabas.services import features
from barnabas.services.features import FeatureUpdate, UpgradeType, highest_levels, update_features


def image_with(*knows: tuple[int, int], level: int = LATEST_LEVEL) -> Image:
    """A cluster at a level, of nodes that know these."""
    image = Image()
    for name, highest in highest_levels().items():
        image.apply(FeatureRecord(name, level if name == METADATA_VERSION else highest))
    for node_id, levels in enumerate(knows):
        known = ((METADATA_VERSION, *levels),)
        image.apply(NodeRecord(node_id, "h", 1, None, UUID(int=node_id), epoch=node_id, features=known))
    return image


def upgrade(level: int) -> list[FeatureUpdate]:
    return [FeatureUpdate(METADATA_VERSION, level)]


@pytest.fixture
def next_level(monkeypatch: pytest.MonkeyPatch) -> int:
    """The highest level of a version to come, which this one is taken for."""
    supported = {**features.SUPPORTED_FEATURES, METADATA_VERSION: (7, LATEST_LEVEL + 1)}
    monkeypatch.setattr(features, "SUPPORTED_FEATURES", supported)
    return LATEST_LEVEL + 1


def test_the_level_rises_when_every_node_knows_the_new_one(next_level: int) -> None:
    image = image_with((7, next_level), (7, next_level))

    for record in update_features(image, upgrade(next_level), kraft_version=1).records:
        image.apply(record)

    assert level_of(image) == next_level


def test_the_level_stays_while_a_node_does_not_know_the_new_one(next_level: int) -> None:
    image = image_with((7, next_level), (7, LATEST_LEVEL))

    with pytest.raises(InvalidUpdateVersion, match="Broker 1 only supports"):
        update_features(image, upgrade(next_level), kraft_version=1)


def test_a_fenced_node_counts_too(next_level: int) -> None:
    image = image_with((7, next_level), (7, LATEST_LEVEL))
    image.apply(msgspec.structs.replace(image.nodes[1], is_fenced=True))

    with pytest.raises(InvalidUpdateVersion):
        update_features(image, upgrade(next_level), kraft_version=1)


def test_the_level_does_not_fall() -> None:
    down = [FeatureUpdate(METADATA_VERSION, LATEST_LEVEL - 1, UpgradeType.SAFE_DOWNGRADE)]

    with pytest.raises(InvalidUpdateVersion, match="cannot be changed"):
        update_features(image_with((7, LATEST_LEVEL)), down, kraft_version=1)


def test_one_node_by_itself_rises_from_a_level_that_could_not_say_what_it_knows() -> None:
    image = image_with(level=ONE_NODE)
    image.apply(NodeRecord(0, "h", 1, None, UUID(int=0)))

    assert update_features(image, upgrade(LATEST_LEVEL), kraft_version=1).records == [
        FeatureRecord(METADATA_VERSION, LATEST_LEVEL)
    ]


def test_the_level_in_use_is_not_written_again() -> None:
    assert update_features(image_with((7, LATEST_LEVEL)), upgrade(LATEST_LEVEL), kraft_version=1).records == []
