"""Topics as assignors look at them: how many partitions, and in which racks their replicas are."""

from dataclasses import dataclass
from uuid import UUID

import pytest

from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import NodeRecord, PartitionRecord, TopicRecord
from barnabas.services.topic_infos import TopicInfos

ID = UUID(int=1)


@dataclass
class Now:
    """The image of the moment."""

    image: Image


def topic_infos(image: Image) -> TopicInfos:
    return TopicInfos(Now(image))


def image(*racks: str | None, replicas: tuple[tuple[int, ...], ...]) -> Image:
    """Nodes 1, 2 and so on in these racks, and a topic with a partition on each of these sets of them."""
    made = Image()
    for node_id, rack in enumerate(racks, start=1):
        made.apply(NodeRecord(node_id, "host", 9092, rack, UUID(int=node_id)))
    made.apply(TopicRecord("t", ID))
    for partition, nodes in enumerate(replicas):
        made.apply(PartitionRecord(ID, partition, nodes, nodes, nodes[0], 0, 0))
    return made


def test_a_partition_is_in_the_racks_of_its_replicas() -> None:
    info = topic_infos(image("a", "b", None, replicas=((1, 2), (2, 3), (3,))))["t"]
    assert (info.topic_id, info.partition_count) == (ID, 3)
    assert info.racks == [{"a", "b"}, {"b"}, set()]


@pytest.mark.parametrize("racks", [(None, None), (None, "b")])
def test_no_racks_are_known_where_no_replica_has_one(racks: tuple[str | None, ...]) -> None:
    assert topic_infos(image(*racks, replicas=((1,),)))["t"].racks is None


def test_what_the_image_says_now_is_seen_once_the_last_answer_is_forgotten() -> None:
    made = image("a", replicas=((1,),))
    infos = topic_infos(made)
    assert infos["t"].racks == [{"a"}]
    made.apply(NodeRecord(1, "host", 9092, "b", UUID(int=9)))
    made.apply(PartitionRecord(ID, 1, (1,), (1,), 1, 0, 0))
    infos.forget()
    assert infos["t"].racks == [{"b"}, {"b"}]
    assert (list(infos), len(infos), "other" in infos) == (["t"], 1, False)
