"""Decisions about topics: what is made, and every refusal with its code."""

import time
from uuid import UUID

import pytest

from barnabas.core.errors import (
    BarnabasError,
    BrokerIdNotRegistered,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    TopicExists,
    UnknownTopicOrPartition,
)
from barnabas.core.metadata import (
    NewTopic,
    create_partitions,
    create_topic,
    delete_topic,
    set_configs,
)
from barnabas.core.metadata.assignments import MAX_NEW_PARTITIONS
from barnabas.core.metadata.records import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, ConfigRecord
from tests.unit.core.metadata.builders import image_of, take

TOPIC_ID = UUID(int=77)


def test_a_topic_is_made_with_its_partitions_and_settings() -> None:
    image = image_of(3)

    decision = create_topic(image, NewTopic("a", 4, 2, configs={"retention.ms": "1"}), topic_id=TOPIC_ID)
    take(image, decision)

    assert decision.reply.topic_id == TOPIC_ID
    assert (decision.reply.partition_count, decision.reply.replication_factor) == (4, 2)
    assert image.config_of(TOPIC_RESOURCE, "a") == {"retention.ms": "1"}
    for number, state in image.get_topic("a").partitions.items():
        assert state.partition == number
        assert len(set(state.replicas)) == 2
        assert state.isr == state.replicas
        assert state.leader == state.replicas[0]
        assert (state.leader_epoch, state.partition_epoch) == (0, 0)


def test_a_decision_changes_nothing_by_itself() -> None:
    image = image_of(1)

    create_topic(image, NewTopic("a", 4, 1), topic_id=TOPIC_ID)

    assert image == image_of(1)


def test_a_topic_is_made_as_assigned() -> None:
    image = image_of(3)

    decision = create_topic(image, NewTopic("a", assignments={1: [2, 0], 0: [0, 1]}), topic_id=TOPIC_ID)
    take(image, decision)

    assert [state.replicas for state in image.get_topic("a").partitions.values()] == [(0, 1), (2, 0)]
    assert (decision.reply.partition_count, decision.reply.replication_factor) == (2, 2)


@pytest.mark.parametrize(
    ("new", "error", "message"),
    [
        (NewTopic("", 1, 1), InvalidTopic, "empty"),
        (NewTopic("a/b", 1, 1), InvalidTopic, "characters"),
        (NewTopic("there", 1, 1), TopicExists, "Topic 'there' already exists."),
        (NewTopic("x_y", 1, 1), InvalidTopic, "collides with existing topic: x.y"),
        (NewTopic("__cluster_metadata", 1, 1), InvalidRequest, "prohibited"),
        (NewTopic("a", 0, 1), InvalidPartitions, "non-positive"),
        (NewTopic("a", -1, 1), InvalidPartitions, "non-positive"),
        (NewTopic("a", MAX_NEW_PARTITIONS + 1, 1), InvalidPartitions, "100001"),
        (NewTopic("a", 1, 0), InvalidReplicationFactor, "larger than 0"),
        (NewTopic("a", 1, -2), InvalidReplicationFactor, "larger than 0"),
        (NewTopic("a", 1, 4), InvalidReplicationFactor, "only 3 broker"),
        (NewTopic("a", 1, -1, {0: [0]}), InvalidRequest, "numPartitions"),
        (NewTopic("a", -1, 1, {0: [0]}), InvalidRequest, "replication factor"),
        (NewTopic("a", assignments={0: [0], 2: [0]}), InvalidReplicaAssignment, "consecutive"),
        (NewTopic("a", assignments={1: [0]}), InvalidReplicaAssignment, "consecutive"),
        (NewTopic("a", assignments={-1: [0], 0: [1]}), InvalidReplicaAssignment, "consecutive"),
        (NewTopic("a", assignments={0: [0, 0]}), InvalidReplicaAssignment, "more than once"),
        (NewTopic("a", assignments={0: []}), InvalidReplicaAssignment, "empty"),
        (NewTopic("a", assignments={0: [5]}), InvalidReplicaAssignment, "broker 5"),
        (NewTopic("a", assignments={0: [0], 1: [1, 2]}), InvalidReplicaAssignment, r"2 replica\(s\)"),
    ],
)
def test_a_topic_that_cannot_be_is_refused(new: NewTopic, error: type[BarnabasError], message: str) -> None:
    image = image_of(3, [NewTopic("there", 1, 1), NewTopic("x.y", 1, 1)])

    with pytest.raises(error, match=message):
        create_topic(image, new, topic_id=TOPIC_ID)


def test_a_topic_of_thousands_of_partitions_is_cheap() -> None:
    image = image_of(1)
    began = time.process_time()

    take(image, create_topic(image, NewTopic("a", 4000, 1), topic_id=TOPIC_ID))

    assert time.process_time() - began < 0.5  # of a processor; it takes about 0.005 s
    assert len(image.get_topic("a").partitions) == 4000


def test_a_deleted_topic_is_gone_and_its_name_is_free() -> None:
    image = image_of(1, [NewTopic("a", 2, 1)])

    decision = delete_topic(image, "a")
    take(image, decision)

    assert decision.reply.topic_id == UUID(int=1)
    take(image, create_topic(image, NewTopic("a", 1, 1), topic_id=TOPIC_ID))
    with pytest.raises(UnknownTopicOrPartition):
        delete_topic(image, "b")


def test_a_topic_grows() -> None:
    image = image_of(3, [NewTopic("a", 2, 2)])
    before = dict(image.get_topic("a").partitions)

    decision = create_partitions(image, "a", 5)
    take(image, decision)

    after = image.get_topic("a").partitions
    assert decision.reply == range(2, 5)
    assert list(after) == [0, 1, 2, 3, 4]
    assert {number: after[number] for number in before} == before
    assert all(len(set(state.replicas)) == 2 for state in after.values())


def test_a_topic_grows_as_assigned() -> None:
    image = image_of(3, [NewTopic("a", 1, 2)])

    take(image, create_partitions(image, "a", 2, [[2, 1]]))

    assert image.get_topic("a").get_partition(1).replicas == (2, 1)


@pytest.mark.parametrize(
    ("count", "assignments", "error", "message"),
    [
        (2, None, InvalidPartitions, r"already has 2 partition\(s\)"),
        (1, None, InvalidPartitions, "1 would not be an increase"),
        (-1, None, InvalidPartitions, "would not be an increase"),
        (MAX_NEW_PARTITIONS + 3, None, InvalidPartitions, "over the limit"),
        (4, [[0]], InvalidReplicaAssignment, r"2 additional partition\(s\), but 1"),
        (3, [[0, 1]], InvalidReplicaAssignment, r"2 replica\(s\)"),
        (3, [[9]], InvalidReplicaAssignment, "broker 9"),
    ],
)
def test_growing_that_cannot_be_is_refused(
    count: int, assignments: list[list[int]] | None, error: type[BarnabasError], message: str
) -> None:
    image = image_of(3, [NewTopic("a", 2, 1)])

    with pytest.raises(error, match=message):
        create_partitions(image, "a", count, assignments)


def test_settings_are_set_and_removed_and_what_is_so_already_is_not_written() -> None:
    image = image_of(1, [NewTopic("a", 1, 1, configs={"x": "1", "y": "2"})])

    decision = set_configs(image, TOPIC_RESOURCE, "a", {"x": "1", "y": None, "z": "3", "w": None})
    take(image, decision)

    assert decision.records == [
        ConfigRecord(TOPIC_RESOURCE, "a", "y", None),
        ConfigRecord(TOPIC_RESOURCE, "a", "z", "3"),
    ]
    assert decision.reply == image.config_of(TOPIC_RESOURCE, "a") == {"x": "1", "z": "3"}


@pytest.mark.parametrize(("type_", "name"), [(BROKER_RESOURCE, ""), (BROKER_RESOURCE, "0"), (GROUP_RESOURCE, "any")])
def test_settings_of_nodes_and_groups_are_taken(type_: int, name: str) -> None:
    image = take(image_of(1), set_configs(image_of(1), type_, name, {"x": "1"}))

    assert image.config_of(type_, name) == {"x": "1"}


@pytest.mark.parametrize(
    ("type_", "name", "error"),
    [
        (TOPIC_RESOURCE, "nowhere", UnknownTopicOrPartition),
        (BROKER_RESOURCE, "5", BrokerIdNotRegistered),
        (BROKER_RESOURCE, "-5", InvalidRequest),
        (BROKER_RESOURCE, "five", InvalidRequest),
    ],
)
def test_settings_of_what_is_not_there_are_refused(type_: int, name: str, error: type[BarnabasError]) -> None:
    with pytest.raises(error):
        set_configs(image_of(1), type_, name, {"x": "1"})


def test_the_codes_are_kafkas() -> None:
    codes = {TopicExists: 36, InvalidTopic: 17, InvalidPartitions: 37, InvalidReplicationFactor: 38}
    codes |= {InvalidReplicaAssignment: 39, InvalidRequest: 42, UnknownTopicOrPartition: 3, BrokerIdNotRegistered: 102}

    assert {error: error.kafka_code for error in codes} == codes


def test_partitions_are_refused_whose_names_would_be_too_long_for_a_directory() -> None:
    image = image_of(1, [NewTopic("t" * 249, 1, 1), NewTopic("u" * 248, 1, 1)])
    assert create_partitions(image, "t" * 249, 100_000).reply == range(1, 100_000)
    with pytest.raises(InvalidPartitions, match="can have 100000 partitions, not 100001"):
        create_partitions(image, "t" * 249, 100_001)
    assert create_partitions(image, "u" * 248, 100_001).reply == range(1, 100_001)
