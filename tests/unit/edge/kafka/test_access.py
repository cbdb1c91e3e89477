"""What a client hears that may do nothing, and what one hears that may do all: the table of APIs and permissions."""

import asyncio
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from barnabas.core.access.resources import Operation, Resource, ResourceType
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire import apis
from barnabas.wire.apis import Api
from tests.support.served import HANDLERS, SERVED_APIS, versions_of
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.handlers.test_every_version import REQUESTS
from tests.unit.edge.kafka.support import ask, create, produce, run, serving

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 29, 30, 31, 53
INVALID_REQUEST, MISMATCHED_ENDPOINT = 42, 114  # of requests that make no sense, whoever asks
ILLEGAL_SASL_STATE = 34
CODES: dict[Api, set[int]] = {
    apis.LIST_OFFSETS: {TOPIC},
    apis.METADATA: {TOPIC},
    apis.OFFSET_COMMIT: {GROUP},
    apis.OFFSET_FETCH: {GROUP},
    apis.FIND_COORDINATOR: {GROUP, TRANSACTIONAL_ID, INVALID_REQUEST, CLUSTER},
    apis.JOIN_GROUP: {GROUP},
    apis.HEARTBEAT: {GROUP},
    apis.LEAVE_GROUP: {GROUP},
    apis.SYNC_GROUP: {GROUP},
    apis.DESCRIBE_GROUPS: {GROUP},
    apis.LIST_GROUPS: set(),
    apis.API_VERSIONS: {INVALID_REQUEST},
    apis.CREATE_TOPICS: {TOPIC},
    apis.DELETE_TOPICS: {TOPIC},
    apis.DELETE_RECORDS: {TOPIC},
    apis.INIT_PRODUCER_ID: {CLUSTER, TRANSACTIONAL_ID},
    apis.OFFSET_FOR_LEADER_EPOCH: {TOPIC},
    apis.ADD_PARTITIONS_TO_TXN: {TRANSACTIONAL_ID, CLUSTER},
    apis.ADD_OFFSETS_TO_TXN: {TRANSACTIONAL_ID},
    apis.END_TXN: {TRANSACTIONAL_ID},
    apis.WRITE_TXN_MARKERS: {CLUSTER},
    apis.TXN_OFFSET_COMMIT: {TRANSACTIONAL_ID},
    apis.DESCRIBE_ACLS: {CLUSTER},
    apis.CREATE_ACLS: {CLUSTER},
    apis.DELETE_ACLS: {CLUSTER},
    apis.DESCRIBE_CONFIGS: {TOPIC, GROUP, CLUSTER},
    apis.ALTER_CONFIGS: {TOPIC, GROUP, CLUSTER},
    apis.ALTER_REPLICA_LOG_DIRS: {CLUSTER},
    apis.DESCRIBE_LOG_DIRS: {CLUSTER},
    apis.CREATE_PARTITIONS: {TOPIC},
    apis.DELETE_GROUPS: {GROUP},
    apis.ELECT_LEADERS: {CLUSTER},
    apis.INCREMENTAL_ALTER_CONFIGS: {TOPIC, GROUP, CLUSTER},
    apis.ALTER_PARTITION_REASSIGNMENTS: {CLUSTER},
    apis.LIST_PARTITION_REASSIGNMENTS: {CLUSTER},
    apis.OFFSET_DELETE: {GROUP},
    apis.DESCRIBE_CLIENT_QUOTAS: {CLUSTER},
    apis.ALTER_CLIENT_QUOTAS: {CLUSTER},
    apis.VOTE: {CLUSTER},
    apis.BEGIN_QUORUM_EPOCH: {CLUSTER},
    apis.END_QUORUM_EPOCH: {CLUSTER},
    apis.FETCH_SNAPSHOT: {CLUSTER},
    apis.ADD_RAFT_VOTER: {CLUSTER},
    apis.REMOVE_RAFT_VOTER: {CLUSTER},
    apis.UPDATE_RAFT_VOTER: {CLUSTER},
    apis.DESCRIBE_QUORUM: {CLUSTER},
    apis.UPDATE_FEATURES: {CLUSTER},
    apis.SASL_HANDSHAKE: {ILLEGAL_SASL_STATE},
    apis.SASL_AUTHENTICATE: {ILLEGAL_SASL_STATE},
    apis.DESCRIBE_USER_SCRAM_CREDENTIALS: {CLUSTER},
    apis.ALTER_USER_SCRAM_CREDENTIALS: {CLUSTER},
    apis.ENVELOPE: {CLUSTER},
    apis.DESCRIBE_CLUSTER: {MISMATCHED_ENDPOINT},
    apis.DESCRIBE_PRODUCERS: {TOPIC},
    apis.BROKER_REGISTRATION: {CLUSTER},
    apis.ALTER_PARTITION: {CLUSTER},
    apis.BROKER_HEARTBEAT: {CLUSTER},
    apis.UNREGISTER_BROKER: {CLUSTER},
    apis.ALLOCATE_PRODUCER_IDS: {CLUSTER},
    apis.DESCRIBE_TRANSACTIONS: {TRANSACTIONAL_ID},
    apis.LIST_TRANSACTIONS: set(),
    apis.CONSUMER_GROUP_HEARTBEAT: {GROUP},
    apis.CONSUMER_GROUP_DESCRIBE: {GROUP},
    apis.SHARE_GROUP_HEARTBEAT: {GROUP},
    apis.SHARE_GROUP_DESCRIBE: {GROUP},
    apis.SHARE_FETCH: {GROUP},
    apis.SHARE_ACKNOWLEDGE: {GROUP},
    apis.INITIALIZE_SHARE_GROUP_STATE: {CLUSTER},
    apis.READ_SHARE_GROUP_STATE: {CLUSTER},
    apis.WRITE_SHARE_GROUP_STATE: {CLUSTER},
    apis.DELETE_SHARE_GROUP_STATE: {CLUSTER},
    apis.READ_SHARE_GROUP_STATE_SUMMARY: {CLUSTER},
    apis.DESCRIBE_SHARE_GROUP_OFFSETS: {GROUP},
    apis.ALTER_SHARE_GROUP_OFFSETS: {GROUP},
    apis.DELETE_SHARE_GROUP_OFFSETS: {GROUP},
    apis.LIST_CONFIG_RESOURCES: {CLUSTER},
    apis.DESCRIBE_TOPIC_PARTITIONS: {TOPIC},
}


class Rules:
    """Allows what is not denied."""

    def __init__(self, *denied: tuple[Operation, str], denies_all: bool = False) -> None:
        self._denied = denied
        self._denies_all = denies_all

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        return not self._denies_all and (operation, resource.name) not in self._denied

    def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        return not self._denies_all


def codes_in(answer: Any) -> Iterator[int]:
    """All error codes of an answer."""
    if isinstance(answer, tuple):
        for each in answer:
            yield from codes_in(each)
    elif is_dataclass(answer) and not isinstance(answer, type):
        for field in fields(answer):
            value = getattr(answer, field.name)
            if isinstance(value, Enum) and field.name.endswith("error_code"):
                yield int(value.value)
            else:
                yield from codes_in(value)


@pytest.mark.parametrize("api", [api for api in SERVED_APIS if api.key in HANDLERS], ids=lambda api: api.name)
def test_a_client_that_may_do_nothing_hears_the_code_of_the_table(api: Api) -> None:
    async def scenario() -> None:
        async with serving() as broker:
            await create(broker, "there", 2)
            await produce(broker, "there", 1000, 2000)
            broker.access.use(Rules(denies_all=True))
            heard: set[int] = set()
            for version in versions_of(api):
                for request in REQUESTS[api]:
                    heard.update(codes_in(await ask(broker, api, version, **request)))
            assert heard - {0} == CODES[api]

    asyncio.run(scenario())


@pytest.mark.parametrize("version", [3, 12, 13])
def test_produce_and_fetch_are_refused_whether_the_topic_is_there_or_not(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        caller = Caller(broker)
        assert await caller.refusal("a", batch(b"v"), version=version) == 0
        broker.access.use(Rules((Operation.WRITE, "a"), (Operation.WRITE, "b"), (Operation.READ, "a")))
        assert await caller.refusal("a", batch(b"v"), version=version) == TOPIC
        assert (await caller.fetched(("a", 0, 0), version=max(version, 4))).error_code.value == TOPIC
        if version < 13:
            assert await caller.refusal("b", batch(b"v"), version=version) == TOPIC
            assert (await caller.fetched(("c", 0, 0), version=max(version, 4))).error_code.value == 3
        else:
            unknown = {"topic_id": UUID(int=9)}
            assert await caller.refusal("a", batch(b"v"), version=version, **unknown) == 100

    run(scenario)


def test_a_produce_under_a_transactional_id_that_may_not_be_used_is_refused_whole() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", partitions=200)
        broker.access.use(Rules((Operation.WRITE, "t")))
        for count in (1, 200):
            answer = await Caller(broker).produce("a", *[batch(b"v")] * count, transactional_id="t").read()
            assert set(codes_in(answer)) == {TRANSACTIONAL_ID}

    run(scenario)


def test_metadata_hides_a_topic_and_creates_none_that_may_not_be_created() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "seen")
        await create(broker, "unseen")
        topic_id = broker.image.topics["unseen"].topic_id
        denied = [(Operation.DESCRIBE, "unseen"), (Operation.CREATE, "kafka-cluster"), (Operation.CREATE, "new")]
        broker.access.use(Rules(*denied))
        everything = await ask(broker, apis.METADATA, 12, topics=None)
        assert [topic.name for topic in everything.topics] == ["seen"]
        named = await ask(broker, apis.METADATA, 12, topics=[{"name": "unseen"}, {"name": "new"}, {"name": "other"}])
        assert [(topic.name, topic.error_code.value) for topic in named.topics] == [
            ("unseen", TOPIC),
            ("new", TOPIC),
            ("other", 0),
        ]
        (by_id,) = (await ask(broker, apis.METADATA, 12, topics=[{"topic_id": topic_id}])).topics
        assert (by_id.name, by_id.error_code.value) == (None, TOPIC)
        assert set(broker.image.topics) == {"seen", "unseen", "other"}

    run(scenario)


def test_one_topic_that_may_not_be_used_is_refused_alone() -> None:
    async def scenario(broker: Broker) -> None:
        for name in ("a", "b"):
            await create(broker, name)
        broker.access.use(Rules(*((operation, "b") for operation in Operation)))
        partitions = [{"partition_index": 0, "committed_offset": 1, "timestamp": -1, "offset": 0}]
        topics = [{"name": name, "partitions": partitions} for name in ("a", "b")]
        group = {"group_id": "g", "member_id": "", "generation_id_or_member_epoch": -1, "topics": topics}
        for api, version, request in (
            (apis.LIST_OFFSETS, 5, {"replica_id": -1, "topics": topics}),
            (apis.OFFSET_COMMIT, 9, group),
            (apis.DELETE_RECORDS, 2, {"topics": topics}),
        ):
            answer = await ask(broker, api, version, **request)
            assert {topic.name: set(codes_in(topic)) for topic in answer.topics} == {"a": {0}, "b": {TOPIC}}

    run(scenario)


def test_offsets_of_a_topic_that_may_not_be_seen_are_hidden() -> None:
    async def scenario(broker: Broker) -> None:
        for name in ("a", "b"):
            await create(broker, name)
        partitions = [{"partition_index": 0, "committed_offset": 1}]
        topics = [{"name": name, "partitions": partitions} for name in ("a", "b")]
        await ask(
            broker,
            apis.OFFSET_COMMIT,
            9,
            group_id="g",
            member_id="",
            generation_id_or_member_epoch=-1,
            topics=topics,
        )
        broker.access.use(Rules((Operation.DESCRIBE, "b")))
        everything = await ask(broker, apis.OFFSET_FETCH, 7, group_id="g", topics=None)
        assert [topic.name for topic in everything.topics] == ["a"]
        wanted = [{"name": name, "partition_indexes": (0,)} for name in ("b", "a")]
        named = await ask(broker, apis.OFFSET_FETCH, 7, group_id="g", topics=wanted)
        found = [(topic.name, topic.partitions[0]) for topic in named.topics]
        assert [(name, each.committed_offset, each.error_code.value) for name, each in found] == [
            ("b", -1, TOPIC),
            ("a", 1, 0),
        ]

    run(scenario)


def test_a_client_is_told_what_it_may_do_with_what_it_may_see() -> None:
    may_not = [(Operation.WRITE, "seen"), (Operation.DELETE, "g"), (Operation.ALTER, "kafka-cluster")]
    of_topic = {3, 5, 6, 7, 8, 10, 11}
    of_group = {3, 8, 10, 11}
    of_cluster = {5, 8, 9, 10, 11, 12}

    async def scenario(broker: Broker) -> None:
        for name in ("seen", "unseen"):
            await create(broker, name)
        broker.access.use(Rules(*may_not, (Operation.DESCRIBE, "unseen")))
        flags = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
        topics = [{"name": name} for name in ("seen", "unseen", "a b")]
        answer = await ask(broker, apis.METADATA, 10, topics=topics, **flags)
        assert [bits(topic.topic_authorized_operations) for topic in answer.topics] == [
            of_topic,
            NOT_SAID,
            ALL_OF_TOPIC,
        ]
        assert bits(answer.cluster_authorized_operations) == of_cluster
        described = await ask(broker, apis.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True)
        assert bits(described.cluster_authorized_operations) == of_cluster
        paged = await ask(broker, apis.DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics[:2], response_partition_limit=9)
        assert [bits(topic.topic_authorized_operations) for topic in paged.topics] == [of_topic, NOT_SAID]
        (group,) = (
            await ask(broker, apis.DESCRIBE_GROUPS, 5, groups=("g",), include_authorized_operations=True)
        ).groups
        assert bits(group.authorized_operations) == of_group

    run(scenario)


def test_a_client_that_may_not_see_the_cluster_or_a_group_is_told_that_it_may_do_nothing_with_it() -> None:
    async def scenario(broker: Broker) -> None:
        broker.access.use(Rules(denies_all=True))
        answer = await ask(broker, apis.METADATA, 10, topics=(), include_cluster_authorized_operations=True)
        described = await ask(broker, apis.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True)
        assert answer.cluster_authorized_operations == described.cluster_authorized_operations == 0
        unasked = await ask(broker, apis.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=False)
        assert bits(unasked.cluster_authorized_operations) == NOT_SAID
        (group,) = (
            await ask(broker, apis.DESCRIBE_GROUPS, 5, groups=("g",), include_authorized_operations=True)
        ).groups
        assert bits(group.authorized_operations) == NOT_SAID

    run(scenario)


NOT_SAID = {31}
ALL_OF_TOPIC = {3, 4, 5, 6, 7, 8, 10, 11}


def bits(number: int) -> set[int]:
    """Which of the 32 bits of a number are set."""
    return {each for each in range(32) if number >> each & 1}
