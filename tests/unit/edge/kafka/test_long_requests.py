"""No request holds the loop for long, however many partitions or names a client puts into it.

What is counted is the work between two turns of the loop, in calls of functions: the same on every machine.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from kio.index import load_request_schema

from barnabas.services.broker import Broker
from barnabas.wire.apis import APIS
from tests.unit.edge.kafka.calling import Caller, frame_of
from tests.unit.edge.kafka.holding import MAX_FREED, Held, held_by
from tests.unit.edge.kafka.support import NODE_ID, build, create, run
from tests.unit.wire.kio_values import encode

MAX_CALLS = 8000
"""Between two turns: some milliseconds. Every request below takes several times as many in all."""

MAX_CALLS_FOR_A_PARTITION = 25
"""Of a new topic, whose commit is one step: so many for as many as one request may create are some 30 milliseconds."""

MAX_CALLS_FOR_AN_END = 40
"""A reader of thousands of partitions asks where they end many times a second."""

MANY = 3000
MOST_CREATED = 10_000
TOPIC = "wide"
NAMES = [f"name-{number}" for number in range(MANY)]
LONG_NAMES = [f"{number}{'x' * 30_000}" for number in range(40)]
NUMBERS = list(range(MANY))
TIMEOUT = {"timeout": 30_000}


def body(key: int, version: int, values: Mapping[str, Any]) -> bytes:
    return encode(build(load_request_schema(key, version), values))


def each(field: str, **others: Any) -> list[Mapping[str, Any]]:
    return [{field: number, **others} for number in NUMBERS]


OF_TOPIC = {"name": TOPIC, "topic": TOPIC}
MARKER = {
    "producer_id": 1,
    "producer_epoch": 0,
    "transaction_result": True,
    "coordinator_epoch": 0,
    "topics": [{"name": "none", "partition_indexes": NUMBERS}],
}
OFFSET = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": "m"}
BROKER = {"resource_type": 4, "resource_name": str(NODE_ID), "configuration_keys": None}

REQUESTS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "AlterPartitionReassignments": (
        45,
        1,
        {"topics": [{**OF_TOPIC, "partitions": each("partition_index", replicas=(NODE_ID,))}], **TIMEOUT},
    ),
    "AlterReplicaLogDirs": (34, 2, {"dirs": [{"path": "/data", "topics": [{**OF_TOPIC, "partitions": NUMBERS}]}]}),
    "CreateAcls": (30, 3, {"creations": [{"resource_name": name} for name in NAMES]}),
    "DeleteAcls": (31, 3, {"filters": [{"resource_name_filter": name} for name in NAMES]}),
    "ListOffsets": (2, 7, {"topics": [{**OF_TOPIC, "partitions": each("partition_index", timestamp=-1)}]}),
    "Metadata": (
        3,
        12,
        {"topics": [{"name": name, "topic_id": None} for name in NAMES], "allow_auto_topic_creation": False},
    ),
    "Metadata that creates": (
        3,
        12,
        {"topics": [{"name": name, "topic_id": None} for name in NAMES], "allow_auto_topic_creation": True},
    ),
    "Metadata of a wide topic": (3, 12, {"topics": [{"name": TOPIC, "topic_id": None}]}),
    "Metadata of all": (3, 12, {"topics": None}),
    "OffsetCommit": (
        8,
        8,
        {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "topics": [{**OF_TOPIC, "partitions": each("partition_index", **OFFSET)}],
        },
    ),
    "OffsetFetch": (9, 7, {"group_id": "g", "topics": [{**OF_TOPIC, "partition_indexes": NUMBERS}]}),
    "FindCoordinator": (10, 4, {"key_type": 0, "coordinator_keys": NAMES}),
    "FindCoordinator of long names": (10, 4, {"key_type": 0, "coordinator_keys": LONG_NAMES}),
    "DescribeGroups of long names": (15, 5, {"groups": LONG_NAMES}),
    "OffsetFetch of groups with long names": (
        9,
        8,
        {"groups": [{"group_id": name, "topics": []} for name in LONG_NAMES]},
    ),
    "JoinGroup": (
        11,
        9,
        {
            "group_id": "g",
            "session_timeout": 30_000,
            "rebalance_timeout": 30_000,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": b""} for name in NAMES],
        },
    ),
    "LeaveGroup": (13, 5, {"group_id": "g", "members": [{"member_id": name} for name in NAMES * 4]}),
    "SyncGroup": (
        14,
        5,
        {
            "group_id": "g",
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": name, "assignment": b""} for name in NAMES],
        },
    ),
    "ConsumerGroupHeartbeat": (
        68,
        1,
        {
            "group_id": "consumers",
            "member_id": "m",
            "rebalance_timeout": 30_000,
            "subscribed_topic_names": NAMES * 4,
            "topic_partitions": [],
        },
    ),
    "DescribeGroups": (15, 5, {"groups": NAMES}),
    "DeleteTopics": (20, 5, {"topic_names": NAMES, **TIMEOUT}),
    "DeleteRecords": (21, 2, {"topics": [{**OF_TOPIC, "partitions": each("partition_index", offset=0)}], **TIMEOUT}),
    "OffsetForLeaderEpoch": (
        23,
        4,
        {"topics": [{**OF_TOPIC, "partitions": each("partition", current_leader_epoch=-1, leader_epoch=0)}]},
    ),
    "AddPartitionsToTxn": (
        24,
        3,
        {
            "v3_and_below_transactional_id": "t",
            "v3_and_below_topics": [{"name": "none", "partitions": NUMBERS}],
        },
    ),
    "WriteTxnMarkers": (27, 1, {"markers": [MARKER]}),
    "TxnOffsetCommit": (
        28,
        3,
        {
            "transactional_id": "t",
            "group_id": "g",
            "generation_id": -1,
            "topics": [{"name": "none", "partitions": each("partition_index", **OFFSET)}],
        },
    ),
    "DescribeConfigs": (32, 4, {"resources": [BROKER] * MANY}),
    "DescribeLogDirs": (35, 4, {"topics": None}),
    "DeleteGroups": (42, 2, {"groups_names": NAMES}),
    "ElectLeaders": (43, 2, {"topic_partitions": [{**OF_TOPIC, "partitions": NUMBERS}], **TIMEOUT}),
    "IncrementalAlterConfigs": (
        44,
        1,
        {"resources": [{"resource_type": 2, "resource_name": name, "configs": []} for name in NAMES]},
    ),
    "OffsetDelete": (47, 0, {"group_id": "g", "topics": [{**OF_TOPIC, "partitions": each("partition_index")}]}),
    "DescribeProducers": (61, 0, {"topics": [{**OF_TOPIC, "partition_indexes": NUMBERS}]}),
    "DescribeTransactions": (65, 0, {"transactional_ids": NAMES}),
    "ConsumerGroupDescribe": (69, 1, {"group_ids": NAMES}),
    "DescribeTopicPartitions": (
        75,
        0,
        {"topics": [{"name": name} for name in NAMES], "response_partition_limit": 2000},
    ),
}


CHANGES: dict[str, tuple[tuple[int, int, dict[str, Any]], ...]] = {
    "OffsetFetch of all": (REQUESTS["OffsetCommit"], (9, 7, {"group_id": "g", "topics": None})),
    "OffsetDelete": (REQUESTS["OffsetCommit"], REQUESTS["OffsetDelete"]),
    "DeleteGroups": (REQUESTS["OffsetCommit"], (42, 2, {"groups_names": ["g"]})),
}
"""What does its work once: what comes before it, and the request."""


@pytest.mark.parametrize("name", REQUESTS)
def test_a_long_request_gives_the_loop_back_again_and_again(name: str) -> None:
    key, version, values = REQUESTS[name]

    async def scenario(broker: Broker) -> None:
        await create(broker, TOPIC, MANY)
        caller = Caller(broker)
        frame = frame_of(APIS[key], version, body(key, version, values))

        _, held = await held_by(lambda: caller.send(frame).bytes())

        assert held.longest < MAX_CALLS
        assert held.freed < MAX_FREED
        assert held.turns > 1

    run(scenario)


@pytest.mark.parametrize("name", CHANGES)
def test_a_request_that_finds_much_to_do_gives_the_loop_back_again_and_again(name: str) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, TOPIC, MANY)
        caller = Caller(broker)
        *before, last = [
            frame_of(APIS[key], version, body(key, version, values)) for key, version, values in CHANGES[name]
        ]
        for frame in before:
            await caller.send(frame).bytes()

        with Held() as held:
            await caller.send(last).bytes()

        assert held.calls > 10 * MAX_CALLS, "it found little to do"
        assert held.longest < 2 * MAX_CALLS  # its schema is loaded, too

    run(scenario)


def test_as_many_partitions_as_one_request_may_create_are_created_in_few_calls_each() -> None:
    def creating(name: str) -> bytes:
        topic = {"name": name, "num_partitions": MOST_CREATED, "replication_factor": 1}
        return frame_of(APIS[19], 7, body(19, 7, {"topics": [topic], **TIMEOUT}))

    async def scenario(broker: Broker) -> None:
        caller = Caller(broker)
        await caller.send(creating("first")).bytes()

        with Held() as held:
            await caller.send(creating("second")).bytes()

        assert len(broker.served.get("second").partitions) == MOST_CREATED
        assert held.longest / MOST_CREATED < MAX_CALLS_FOR_A_PARTITION

    run(scenario)


def test_the_end_of_a_partition_among_thousands_is_found_in_few_calls() -> None:
    partitions = 2 * MANY
    asked = [{"partition_index": number, "timestamp": -1} for number in range(partitions)]

    async def scenario(broker: Broker) -> None:
        await create(broker, TOPIC, partitions)
        frame = frame_of(APIS[2], 7, body(2, 7, {"topics": [{**OF_TOPIC, "partitions": asked}]}))

        _, held = await held_by(lambda: Caller(broker).send(frame).bytes())

        assert held.calls / partitions < MAX_CALLS_FOR_AN_END

    run(scenario)
