"""The image: what records make of it, and that it can be made again."""

from uuid import UUID

import pytest
from hypothesis import given

from barnabas.core.errors import InvalidMetadata, UnknownTopicId, UnknownTopicOrPartition
from barnabas.core.metadata import Image, NewTopic
from barnabas.core.metadata.records import (
    TOPIC_RESOURCE,
    ClusterRecord,
    ConfigRecord,
    FeatureRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.unit.core.metadata.builders import apply_all, image_of
from tests.unit.core.metadata.strategies import histories


@given(histories())
def test_a_snapshot_replayed_into_an_empty_image_gives_an_equal_one(records: list[MetadataRecord]) -> None:
    image = apply_all(Image(), records)

    again = apply_all(Image(), image.to_records())

    assert again == image
    assert list(again.to_records()) == list(image.to_records())
    assert {name: again.find_collision(name) for name in image.topics} == {name: name for name in image.topics}


@given(histories())
def test_both_ways_to_a_topic_lead_to_the_same(records: list[MetadataRecord]) -> None:
    image = apply_all(Image(), records)

    assert {topic.topic_id: topic for topic in image.topics.values()} == image.topics_by_id
    for topic in image.topics.values():
        assert list(topic.partitions) == list(range(len(topic.partitions)))


def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = image_of(topics=[NewTopic("a", 2, 1)])

    assert image.get_topic("a") is image.get_topic_by_id(UUID(int=1))
    assert image.get_topic("a").get_partition(1).partition == 1


def test_what_is_not_there_is_refused() -> None:
    image = image_of(topics=[NewTopic("a", 2, 1)])

    with pytest.raises(UnknownTopicOrPartition, match="'b'"):
        image.get_topic("b")
    with pytest.raises(UnknownTopicId):
        image.get_topic_by_id(UUID(int=9))
    for partition in (-1, 2):
        with pytest.raises(UnknownTopicOrPartition, match=str(partition)):
            image.get_topic("a").get_partition(partition)


def test_a_topic_that_goes_takes_its_settings_along() -> None:
    image = image_of(topics=[NewTopic("a.b", 2, 1, configs={"x": "1"})])
    empty = image_of()

    image.apply(RemoveTopicRecord(UUID(int=1)))

    assert image == empty
    assert image.find_collision("a_b") is None


def test_a_setting_without_a_value_is_removed() -> None:
    image = Image()
    image.apply(ConfigRecord(TOPIC_RESOURCE, "a", "x", "1"))
    assert image.config_of(TOPIC_RESOURCE, "a") == {"x": "1"}

    image.apply(ConfigRecord(TOPIC_RESOURCE, "a", "x", None))
    image.apply(ConfigRecord(TOPIC_RESOURCE, "b", "x", None))

    assert image == Image()
    assert image.config_of(TOPIC_RESOURCE, "a") == {}


def test_a_feature_of_level_0_is_removed() -> None:
    image = apply_all(Image(), [FeatureRecord("f", 2), FeatureRecord("f", 0)])

    assert image == Image()


@pytest.mark.parametrize(
    "record",
    [
        ClusterRecord("other"),
        TopicRecord("a", UUID(int=8)),
        TopicRecord("b", UUID(int=1)),
        PartitionRecord(UUID(int=8), 0, (0,), (0,), 0, 0, 0),
        PartitionRecord(UUID(int=1), 2, (0,), (0,), 0, 0, 0),
        PartitionRecord(UUID(int=1), -1, (0,), (0,), 0, 0, 0),
        RemoveTopicRecord(UUID(int=8)),
        ProducerIdsRecord(99),
    ],
)
def test_a_record_that_does_not_fit_is_refused_and_changes_nothing(record: MetadataRecord) -> None:
    def make() -> Image:
        image = image_of(topics=[NewTopic("a", 1, 1)])
        return apply_all(image, [ClusterRecord("c"), ProducerIdsRecord(100)])

    image = make()

    with pytest.raises(InvalidMetadata):
        image.apply(record)
    assert image == make()
