"""Decisions about topics: create, delete, grow, configure. Checks and messages are Kafka's.

Settings are validated by the caller. The settings of a topic are deleted with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from barnabas.core.errors import (
    BarnabasError,
    BrokerIdNotRegistered,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    TopicExists,
)
from barnabas.core.metadata.assignments import (
    check_assignments,
    check_new_count,
    in_order,
    new_partitions,
    place_partitions,
)
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.electing import without_elr
from barnabas.core.metadata.image import Image, Topic
from barnabas.core.metadata.names import METADATA_TOPIC, check_partition_names, check_topic_name, unify
from barnabas.core.metadata.records import (
    BROKER_RESOURCE,
    MIN_INSYNC_REPLICAS,
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
)

NO_LIMIT: Final = 2**63 - 1
NOT_GIVEN: Final = -1  # what a request with assignments has for its counts


class NewTopic(msgspec.Struct, frozen=True):
    """A topic to create: by counts, with defaults filled in by the caller, or by assignments."""

    name: str
    partition_count: int = NOT_GIVEN
    replication_factor: int = NOT_GIVEN
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] = {}


class CreatedTopic(msgspec.Struct, frozen=True):
    """A topic that was created."""

    name: str
    topic_id: UUID
    partition_count: int
    replication_factor: int


def create_topic(
    image: Image, new: NewTopic, *, topic_id: UUID, max_partitions: int = NO_LIMIT
) -> MetadataDecision[CreatedTopic]:
    """Create a topic with its partitions and settings. `max_partitions` are those that all topics may have."""
    _check_new_name(image, new.name)
    places = _places_of(image, new)
    check_total(image, len(places), max_partitions=max_partitions)
    check_partition_names(new.name, len(places))
    records: list[MetadataRecord] = [TopicRecord(new.name, topic_id), *new_partitions(image, topic_id, 0, places)]
    records += [ConfigRecord(TOPIC_RESOURCE, new.name, name, value) for name, value in new.configs.items()]
    return MetadataDecision(records, CreatedTopic(new.name, topic_id, len(places), len(places[0])))


def check_total(image: Image, added: int, *, max_partitions: int) -> None:
    """Refuse more partitions than the cluster may have."""
    if image.partition_count + added > max_partitions:
        raise PolicyViolation(
            f"the cluster has {image.partition_count} partitions, and {added} more would be over the limit of "
            f"{max_partitions} (max.partitions)"
        )


def create_topics(
    image: Image, new: Sequence[tuple[NewTopic, UUID]], *, max_partitions: int = NO_LIMIT
) -> MetadataDecision[list[CreatedTopic | BarnabasError]]:
    """Create many topics, each with its id, in one commit. Each may be refused separately."""
    records: list[MetadataRecord] = []
    replies: list[CreatedTopic | BarnabasError] = []
    names: dict[str, str] = {}  # of those before, by what metrics make of them
    added = 0  # partitions of those before
    for topic, topic_id in new:
        try:
            other = names.get(unify(topic.name))
            if other is not None:
                raise InvalidTopic(f"Topic '{topic.name}' collides with topic: {other}, which is asked for as well")
            decision = create_topic(image, topic, topic_id=topic_id, max_partitions=max_partitions - added)
        except BarnabasError as refusal:
            replies.append(refusal)
        else:
            names[unify(topic.name)] = topic.name
            added += decision.reply.partition_count
            records += decision.records
            replies.append(decision.reply)
    return MetadataDecision(records, replies)


def _check_new_name(image: Image, name: str) -> None:
    check_topic_name(name)
    if name == METADATA_TOPIC:
        raise InvalidRequest(f"Creation of internal topic {name} is prohibited.")
    if name in image.topics:
        raise TopicExists(f"Topic '{name}' already exists.")
    other = image.find_collision(name)
    if other is not None:
        raise InvalidTopic(f"Topic '{name}' collides with existing topic: {other}")


def _places_of(image: Image, new: NewTopic) -> list[tuple[int, ...]]:
    if not new.assignments:
        check_new_count(new.partition_count)
        return place_partitions(
            image, new.name, partition_count=new.partition_count, replication_factor=new.replication_factor
        )
    for count, what in ((new.replication_factor, "replication factor"), (new.partition_count, "numPartitions")):
        if count != NOT_GIVEN:
            raise InvalidRequest(f"A manual partition assignment was specified, but {what} was not set to -1.")
    return check_assignments(image, in_order(new.assignments))


def delete_topic(image: Image, name: str) -> MetadataDecision[Topic]:
    """Delete a topic; the reply is the deleted topic."""
    topic = image.get_topic(name)
    return MetadataDecision([RemoveTopicRecord(topic.topic_id)], topic)


def create_partitions(
    image: Image,
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None = None,
    *,
    max_partitions: int = NO_LIMIT,
) -> MetadataDecision[range]:
    """Give a topic more partitions, `count` in all; the reply is the new ones. `assignments` are for those alone."""
    topic = image.get_topic(name)
    existing = len(topic.partitions)
    if count == existing:
        raise InvalidPartitions(f"Topic already has {existing} partition(s).")
    if count < existing:
        raise InvalidPartitions(
            f"The topic {name} currently has {existing} partition(s); {count} would not be an increase."
        )
    check_new_count(count - existing)
    check_total(image, count - existing, max_partitions=max_partitions)
    check_partition_names(name, count)
    if assignments is None:
        places = place_partitions(image, name, partition_count=count, replication_factor=topic.replication_factor)[
            existing:
        ]
    elif len(assignments) != count - existing:
        raise InvalidReplicaAssignment(
            f"Attempted to add {count - existing} additional partition(s), but {len(assignments)} assignment(s) were "
            "specified."
        )
    else:
        places = check_assignments(image, assignments, replication_factor=topic.replication_factor)
    return MetadataDecision(new_partitions(image, topic.topic_id, existing, places), range(existing, count))


def set_configs(
    image: Image, resource_type: int, name: str, changes: Mapping[str, str | None]
) -> MetadataDecision[Mapping[str, str]]:
    """Set settings with a value, remove those with None; the reply is all that are set afterwards.

    Unchanged ones are not written. Topics and nodes must exist; the name "" stands for all nodes. Where
    `min.insync.replicas` changes, eligible leader replicas go with the same commit.
    """
    _check_resource(image, resource_type, name)
    current = image.config_of(resource_type, name)
    changed = {key: value for key, value in changes.items() if current.get(key) != value}
    records: list[MetadataRecord] = [ConfigRecord(resource_type, name, key, value) for key, value in changed.items()]
    if MIN_INSYNC_REPLICAS in changed:
        for topic in _governed(image, resource_type, name):
            records += without_elr(topic)
    merged = {**current, **changed}
    return MetadataDecision(records, {key: value for key, value in merged.items() if value is not None})


def _governed(image: Image, resource_type: int, name: str) -> Iterable[Topic]:
    """The topics that a setting of a resource may count for."""
    if resource_type == TOPIC_RESOURCE:
        return (image.get_topic(name),)
    return image.topics.values() if resource_type == BROKER_RESOURCE else ()


def _check_resource(image: Image, resource_type: int, name: str) -> None:
    if resource_type == TOPIC_RESOURCE:
        image.get_topic(name)
    elif resource_type == BROKER_RESOURCE and name:
        if not (name.isascii() and name.isdecimal()):
            raise InvalidRequest(f"Invalid broker name {name}")
        if int(name) not in image.nodes:
            raise BrokerIdNotRegistered(f"No node with id {name} found.")
