"""The levels of `metadata.version` and `share.version` rise once every node knows the new one; nothing else changes."""

from uuid import UUID

import msgspec
import pytest

from barnabas.core.errors import InvalidConfig, InvalidUpdateVersion
from barnabas.core.metadata import Image
from barnabas.core.metadata.levels import LATEST_LEVEL, METADATA_VERSION, ONE_NODE, level_of
from barnabas.core.metadata.records import GROUP_RESOURCE, FeatureRecord, NodeRecord
from barnabas.services import features
from barnabas.services.features import (
    SHARE_VERSION,
    FeatureUpdate,
    UpgradeType,
    has_dead_letters,
    highest_levels,
    update_features,
)
from barnabas.services.settings import SettingChange
from barnabas.services.settings.alter import AlterOperation
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.resources import ConfigResource, decide_changes


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


def shares_at(level: int, *knows: int) -> Image:
    """A cluster with this `share.version`, of nodes that know up to these."""
    image = Image()
    for name, highest in highest_levels().items():
        image.apply(FeatureRecord(name, level if name == SHARE_VERSION else highest))
    for node_id, most in enumerate(knows):
        known = ((SHARE_VERSION, 0, most),)
        image.apply(NodeRecord(node_id, "h", 1, None, UUID(int=node_id), epoch=node_id, features=known))
    return image


def test_dead_letters_come_with_share_version_2_once_every_node_knows_it() -> None:
    image = shares_at(1, 2, 2)
    assert not has_dead_letters(image)
    for record in update_features(image, [FeatureUpdate(SHARE_VERSION, 2)], kraft_version=1).records:
        image.apply(record)
    assert has_dead_letters(image)


def test_share_version_stays_while_a_node_would_not_understand_it() -> None:
    with pytest.raises(InvalidUpdateVersion, match="Broker 1 only supports"):
        update_features(shares_at(1, 2, 1), [FeatureUpdate(SHARE_VERSION, 2)], kraft_version=1)


def test_a_group_gets_no_dead_letters_before_share_version_2() -> None:
    change = SettingChange("errors.deadletterqueue.topic.name", AlterOperation.SET, "dlq.t")
    resource = ConfigResource(GROUP_RESOURCE, "g")
    with pytest.raises(InvalidConfig, match=r"needs share\.version 2"):
        decide_changes(shares_at(1, 2), BrokerConfig(), resource, [change])
    assert decide_changes(shares_at(2, 2), BrokerConfig(), resource, [change]).records
