"""What may be written at a level of `metadata.version`: nothing that a node of that level cannot read."""

from uuid import UUID

import msgspec
import pytest

from barnabas.core.errors import UnsupportedVersion
from barnabas.core.metadata import Image, NewTopic, create_topic
from barnabas.core.metadata.brokers import Registration, fence, register, unregister
from barnabas.core.metadata.cluster import start_cluster
from barnabas.core.metadata.levels import (
    FIELDS,
    LATEST_LEVEL,
    METADATA_VERSION,
    ONE_NODE,
    SEVERAL_NODES,
    TYPES,
    check_level,
    level_of,
    needed_level,
    node_at,
)
from barnabas.core.metadata.records import Endpoint, FeatureRecord, NodeRecord
from tests.unit.core.metadata.builders import image_of, node

EARLIER = tuple(each.name for each in msgspec.structs.fields(NodeRecord) if each.name not in FIELDS[NodeRecord])


def image_at(level: int) -> Image:
    image = image_of(2, [])
    image.apply(FeatureRecord(METADATA_VERSION, level))
    return image


def registration(node_id: int) -> Registration:
    return Registration(
        node_id=node_id,
        incarnation=UUID(int=1),
        directory_id=UUID(int=2),
        endpoints=(Endpoint("PLAINTEXT", "h", 1),),
        features=((METADATA_VERSION, 7, LATEST_LEVEL),),
    )


def test_a_node_of_the_lower_level_is_sent_nothing_that_it_cannot_read() -> None:
    image = image_at(ONE_NODE)

    for decision in (
        fence(image, 1),
        unregister(image, 1, has_session=False),
        register(image, registration(5), epoch=9, has_session=False),
    ):
        with pytest.raises(UnsupportedVersion, match=f"level {ONE_NODE} of metadata.version.*level {SEVERAL_NODES}"):
            check_level(image, decision.records)
    check_level(image, create_topic(image, NewTopic("a", 3, 1), topic_id=UUID(int=1)).records)
    own = register(image, registration(1), epoch=9, has_session=True, is_local=True)
    check_level(image, own.records)
    assert isinstance(own.records[0], NodeRecord)
    assert msgspec.structs.astuple(own.records[0])[len(EARLIER) :] == (0, False, False, None, (), 0)


def test_at_the_level_that_introduced_it_everything_may_be_written() -> None:
    image = image_at(SEVERAL_NODES)

    check_level(image, fence(image, 1).records)
    check_level(image, unregister(image, 1, has_session=False).records)
    check_level(image, register(image, registration(5), epoch=9, has_session=False).records)


def test_a_level_counts_from_its_record_on() -> None:
    image, fenced = image_at(ONE_NODE), msgspec.structs.replace(node(1), is_fenced=True)

    check_level(image, [FeatureRecord(METADATA_VERSION, SEVERAL_NODES), fenced])
    with pytest.raises(UnsupportedVersion):
        check_level(image, [fenced, FeatureRecord(METADATA_VERSION, SEVERAL_NODES)])


def test_a_log_without_a_level_is_read_by_its_only_node() -> None:
    assert level_of(Image()) == LATEST_LEVEL


def test_every_level_that_something_needs_exists() -> None:
    levels = [*TYPES.values(), *(level for fields in FIELDS.values() for level in fields.values())]

    assert all(level <= LATEST_LEVEL for level in levels)
    assert needed_level(msgspec.structs.replace(node(1), is_leaving=True)) == SEVERAL_NODES
    assert needed_level(node_at(msgspec.structs.replace(node(1), is_leaving=True), ONE_NODE)) < SEVERAL_NODES


def test_later_fields_are_the_last_of_their_record() -> None:
    for kind, levels in FIELDS.items():
        names = [each.name for each in msgspec.structs.fields(kind)]
        assert names[-len(levels) :] == list(levels)


def test_a_cluster_keeps_the_levels_that_it_was_formed_with() -> None:
    image = Image()
    for record in start_cluster(
        image, cluster_id="c", min_insync_replicas="1", features={METADATA_VERSION: 30, "f": 1, "off": 0}
    ).records:
        image.apply(record)
    assert image.features == {METADATA_VERSION: 30, "f": 1}

    newer = start_cluster(image, cluster_id="c", min_insync_replicas="1", features={METADATA_VERSION: 31, "g": 2})

    assert newer.records == []
