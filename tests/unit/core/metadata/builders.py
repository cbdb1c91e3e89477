"""Images for tests, each in one line."""

from collections.abc import Iterable
from uuid import UUID

from barnabas.core.metadata import Image, MetadataDecision, NewTopic, create_topic
from barnabas.core.metadata.records import MetadataRecord, NodeRecord

INCARNATION = UUID(int=7)


def node(node_id: int, rack: str | None = None) -> NodeRecord:
    return NodeRecord(node_id, f"host{node_id}", 9092, rack, INCARNATION)


def apply_all(image: Image, records: Iterable[MetadataRecord]) -> Image:
    for record in records:
        image.apply(record)
    return image


def image_of(nodes: int = 3, topics: Iterable[NewTopic] = ()) -> Image:
    image = apply_all(Image(), [node(node_id) for node_id in range(nodes)])
    for number, new in enumerate(topics, 1):
        apply_all(image, create_topic(image, new, topic_id=UUID(int=number)).records)
    return image


def take(image: Image, decision: MetadataDecision[object]) -> Image:
    return apply_all(image, decision.records)
