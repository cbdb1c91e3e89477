"""Who leads the assigned partitions, looked up over a connection of its own."""

from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from barnabas.client.brokers import Address, Brokers
from barnabas.client.queues.locks import Place


@dataclass(frozen=True, slots=True)
class Found:
    """The partitions of each leader, and the names of topics; `is_whole` if no partition is without a leader."""

    places: Mapping[Address, frozenset[Place]]
    names: Mapping[UUID, str]
    is_whole: bool


def find_leaders(brokers: Brokers, topics: Iterable[str], assigned: frozenset[Place]) -> Found:
    """Ask any broker; a topic that is gone, or was made anew, has no leader here."""
    places: dict[Address, set[Place]] = {}
    names: dict[UUID, str] = {}
    for name, topic in brokers.metadata(topics).topics.items():
        if topic.topic_id is None:
            continue
        topic_id = uuid_of(topic.topic_id)
        names[topic_id] = name
        for partition, leader in topic.leaders.items():
            if leader is not None and Place(topic_id, partition) in assigned:
                places.setdefault(leader.address, set()).add(Place(topic_id, partition))
    found = {address: frozenset(each) for address, each in places.items()}
    return Found(found, names, frozenset().union(*found.values()) >= assigned)


def uuid_of(text: str) -> UUID:
    """A topic id from the text that Kafka's tools write."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))
