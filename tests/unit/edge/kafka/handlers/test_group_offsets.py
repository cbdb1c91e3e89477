import uuid
from typing import Any

import pytest

from barnabas.services.broker import Broker
from barnabas.wire import apis
from tests.unit.edge.kafka.handlers.grouping import QUICK, commit, fetch, join_alone, sync
from tests.unit.edge.kafka.support import ask, config_of, create, run


@pytest.mark.parametrize("version", range(2, 11))
def test_an_offset_is_committed_in_every_version(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there", 2)
        assert await commit(broker, "there", {0: 5, 7: 1, 1: 6}, version=version) == [0, 3, 0]
        assert await fetch(broker, "there", 0, 1) == (0, [(0, 5, 0), (1, 6, 0)])

    run(scenario)


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_fetched_in_every_version(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there", 2)
        await commit(broker, "there", {0: 5})
        assert await fetch(broker, "there", 0, 1, 7, version=version) == (0, [(0, 5, 0), (1, -1, 0), (7, -1, 0)])
        assert await fetch(broker, "there", 0, group="none", version=version) == (0, [(0, -1, 0)])

    run(scenario)


@pytest.mark.parametrize("version", range(2, 11))
def test_all_offsets_are_fetched_when_no_topics_are_named(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there", 2)
        await commit(broker, "there", {1: 6, 0: 5})
        assert await fetch(broker, "there", version=version, topics=None) == (0, [(0, 5, 0), (1, 6, 0)])
        assert await fetch(broker, "there", version=version, topics=None, group="none") == (0, [])

    run(scenario)


def test_many_groups_are_fetched_at_once_each_with_its_own_error() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        await commit(broker, "there", {0: 5})
        await _join_consumer(broker, "new")
        topics = [{"name": "there", "partition_indexes": (0,)}]
        groups = [
            {"group_id": "g", "topics": topics, "member_epoch": -1},
            {"group_id": "new", "topics": topics, "member_id": "m", "member_epoch": 1},
            {"group_id": "new", "topics": topics, "member_id": "m", "member_epoch": 7},
            {"group_id": "new", "topics": topics, "member_id": "other", "member_epoch": 1},
        ]
        answer = await ask(broker, apis.OFFSET_FETCH, 9, groups=groups, require_stable=True)
        assert [(each.group_id, each.error_code, len(each.topics)) for each in answer.groups] == [
            ("g", 0, 1),
            ("new", 0, 1),
            ("new", 113, 0),
            ("new", 25, 0),
        ]

    run(scenario)


def test_a_topic_that_is_not_there_is_refused_by_name_and_by_id() -> None:
    async def scenario(broker: Broker) -> None:
        for version, code in ((2, 3), (9, 3), (10, 100)):
            assert await commit(broker, "not-there", {0: 1, 1: 2}, version=version) == [code, code]
        unknown = [{"topic_id": uuid.UUID(int=9), "partition_indexes": (0, 1)}]
        assert await fetch(broker, "", version=10, topics=unknown) == (0, [(0, -1, 100), (1, -1, 100)])

    run(scenario)


@pytest.mark.parametrize(("version", "code"), [(2, 22), (8, 22), (9, 69), (10, 69)])
def test_a_commit_of_a_member_to_no_group_is_refused_in_the_words_of_its_version(version: int, code: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        fields = {"generation_id_or_member_epoch": 3, "member_id": "m"}
        assert await commit(broker, "there", {0: 1}, version=version, **fields) == [code]

    run(scenario)


def test_a_group_with_members_takes_commits_of_theirs_alone() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        joined = await join_alone(broker)
        await sync(broker, joined)
        member = {"member_id": joined.member_id}
        assert await commit(broker, "there", {0: 1}, **member, generation_id_or_member_epoch=1) == [0]
        assert await commit(broker, "there", {0: 2}, **member, generation_id_or_member_epoch=7) == [22]
        assert await commit(broker, "there", {0: 3}) == [25]
        assert await fetch(broker, "there", 0) == (0, [(0, 1, 0)])

    run(scenario, QUICK)


def test_a_member_of_a_consumer_group_commits_with_its_epoch_from_version_9_on() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        await _join_consumer(broker, "g")
        codes = [
            (await commit(broker, "there", {0: 1}, version=version, member_id="m", generation_id_or_member_epoch=epoch))
            for version, epoch in ((8, 1), (9, 1), (9, 7))
        ]
        assert codes == [[35], [0], [113]]

    run(scenario)


def test_metadata_over_the_limit_is_refused_by_itself() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there", 2)
        assert await commit(broker, "there", {0: 5, 1: 555}) == [0, 12]
        assert await fetch(broker, "there", 0, 1) == (0, [(0, 5, 0), (1, -1, 0)])

    run(scenario, config_of(offset_metadata_max_bytes="5"))


def test_offsets_go_with_their_topic_and_do_not_come_back_with_its_name() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        await commit(broker, "there", {0: 5})
        await broker.topics.delete("there")
        assert await fetch(broker, "there", version=9, topics=None) == (0, [])
        await create(broker, "there")
        assert await fetch(broker, "there", 0) == (0, [(0, -1, 0)])

    run(scenario)


def test_offsets_are_deleted_unless_the_group_reads_their_topic() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        await create(broker, "other")
        await _join_consumer(broker, "g")
        committing: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 1}
        await commit(broker, "there", {0: 5}, **committing)
        await commit(broker, "other", {0: 5}, **committing)
        topics = [
            {"name": name, "partitions": [{"partition_index": index} for index in (0, 7)]}
            for name in ("there", "other", "not-there")
        ]
        answer = await ask(broker, apis.OFFSET_DELETE, 0, group_id="g", topics=topics)
        codes = [[each.error_code for each in topic.partitions] for topic in answer.topics]
        assert (answer.error_code, codes) == (0, [[86, 3], [0, 3], [3, 3]])
        assert await fetch(broker, "other", 0) == (0, [(0, -1, 0)])
        assert (await ask(broker, apis.OFFSET_DELETE, 0, group_id="none", topics=topics)).error_code == 69
        assert (await ask(broker, apis.OFFSET_DELETE, 0, group_id="", topics=topics)).error_code == 24

    run(scenario)


async def _join_consumer(broker: Broker, group: str) -> None:
    answer = await ask(
        broker,
        apis.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout=1000,
        subscribed_topic_names=("there",),
        topic_partitions=(),
    )
    assert (answer.error_code, answer.member_epoch) == (0, 1)
