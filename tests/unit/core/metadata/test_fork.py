"""Images that go apart, and what makes one into the other, on random histories."""

from random import Random
from uuid import UUID

import pytest

from barnabas.core.errors import BarnabasError
from barnabas.core.metadata import (
    Image,
    MetadataDecision,
    NewTopic,
    allocate_producer_ids,
    create_partitions,
    create_topic,
    delete_topic,
    form_cluster,
    set_configs,
    set_feature,
)
from barnabas.core.metadata.difference import difference
from barnabas.core.metadata.records import BROKER_RESOURCE, TOPIC_RESOURCE, Endpoint, RemoveNodeRecord
from tests.support.nodes import register_node


class Writer:
    """Makes random changes; ids are never used twice, on whatever image."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._ids = 0

    def change(self, image: Image, count: int) -> None:
        for _ in range(count):
            try:
                records = self._decide(image).records
            except BarnabasError:
                continue
            for record in records:
                image.apply(record)

    def _decide(self, image: Image) -> MetadataDecision[object]:
        return self._decide_topic(image) if self.random.random() < 0.6 else self._decide_other(image)

    def _decide_topic(self, image: Image) -> MetadataDecision[object]:
        random, name = self.random, f"topic{self.random.randrange(4)}"
        match random.randrange(5):
            case 0 | 1:
                new = NewTopic(name, random.randrange(1, 4), 1, configs={"x": str(random.randrange(3))})
                return create_topic(image, new, topic_id=self._new_id())
            case 2:
                return delete_topic(image, name)
            case 3:
                return create_partitions(image, name, random.randrange(1, 9))
            case _:
                return set_configs(image, TOPIC_RESOURCE, name, {"x": random.choice((None, "5"))})

    def _decide_other(self, image: Image) -> MetadataDecision[object]:
        random = self.random
        match random.randrange(4):
            case 0:
                changes = {f"k{key}": random.choice((None, "1", "2")) for key in range(3)}
                return set_configs(image, BROKER_RESOURCE, "", changes)
            case 1:
                node_id = random.randrange(3)
                if node_id and node_id in image.nodes:
                    return MetadataDecision([RemoveNodeRecord(node_id)], None)
                endpoints = [Endpoint("PLAINTEXT", "h", 1)]
                return register_node(image, node_id=node_id, endpoints=endpoints, rack=None, incarnation=self._new_id())
            case 2:
                return set_feature(image, f"f{random.randrange(2)}", random.randrange(3))
            case _:
                return allocate_producer_ids(image, 10)

    def _new_id(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids)


def copy_of(image: Image) -> Image:
    """A copy that has nothing in common with the image."""
    copy = Image()
    for record in image.to_records():
        copy.apply(record)
    return copy


def started(writer: Writer) -> Image:
    image = Image()
    for record in form_cluster(image, "c").records:
        image.apply(record)
    endpoints = [Endpoint("PLAINTEXT", "h", 1)]
    for record in register_node(image, node_id=0, endpoints=endpoints, rack=None, incarnation=UUID(int=10**6)).records:
        image.apply(record)
    writer.change(image, 40)
    return image


@pytest.mark.parametrize("seed", range(60))
def test_a_fork_and_its_origin_change_apart(seed: int) -> None:
    writer = Writer(seed)
    image = started(writer)
    images = [image]
    copies = [copy_of(image)]

    for _ in range(30):
        index = writer.random.randrange(len(images))
        if len(images) < 4 and writer.random.random() < 0.3:
            images.append(images[index].fork())
            copies.append(copy_of(images[index]))
        else:
            writer.change(images[index], 2)
            copies[index] = copy_of(images[index])
        assert images == copies, "a change of one was seen in another"
        for each in images:
            assert all(topic is each.topics_by_id[topic.topic_id] for topic in each.topics.values())


@pytest.mark.parametrize("seed", range(60))
def test_the_difference_makes_one_image_into_a_later_one(seed: int) -> None:
    writer = Writer(seed)
    old = started(writer)
    new = old.fork()
    writer.change(new, 30)

    for record in difference(old, new):
        old.apply(record)

    assert old == new
    assert difference(old, new) == []
