import asyncio

import pytest

from barnabas.services.broker import Broker
from barnabas.wire import apis
from tests.unit.edge.kafka.handlers.grouping import QUICK, commit, fetch, join, join_alone, sync
from tests.unit.edge.kafka.support import NODE_ID, ask, config_of, create, run

MANY = 3000  # offsets, which are deleted in several steps


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_group_is_found_and_its_topic_is_made(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, apis.FIND_COORDINATOR, version, key="g", coordinator_keys=("g",), key_type=0)
        found = answer.coordinators[0] if version >= 4 else answer
        assert (found.error_code, found.node_id, found.host, found.port) == (0, NODE_ID, "broker.test", 9092)
        assert len(broker.served.by_name["__consumer_offsets"].partitions) == 50
        assert broker.served.by_name["__consumer_offsets"].config.log.is_compacted

    run(scenario)


@pytest.mark.parametrize("version", range(4, 7))
def test_coordinators_of_many_groups_are_found_at_once_each_with_its_own_error(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, apis.FIND_COORDINATOR, version, coordinator_keys=("g", "h", "g"), key_type=0)
        assert [(each.key, each.error_code, each.node_id) for each in answer.coordinators] == [
            ("g", 0, NODE_ID),
            ("h", 0, NODE_ID),
            ("g", 0, NODE_ID),
        ]

    run(scenario)


def test_there_is_no_coordinator_of_what_is_not() -> None:
    async def scenario(broker: Broker) -> None:
        for key_type, code in ((2, 42), (7, 42)):
            answer = await ask(broker, apis.FIND_COORDINATOR, 6, coordinator_keys=("a", "b"), key_type=key_type)
            assert [(each.error_code, each.node_id) for each in answer.coordinators] == [(code, -1)] * 2

    run(scenario)


def test_a_topic_that_cannot_be_made_is_a_coordinator_that_is_not_there() -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, apis.FIND_COORDINATOR, 6, coordinator_keys=("g",), key_type=0)
        assert answer.coordinators[0].error_code == 15
        assert (await join(broker)).error_code == 15

    run(scenario, config_of(offsets_topic_replication_factor="3"))


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_in_every_version(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        answer = await join(broker, version=version)
        if version >= 4:
            assert (answer.error_code, answer.generation_id) == (79, -1)
            assert answer.member_id.startswith("test-")
            answer = await join(broker, version=version, member_id=answer.member_id)
        assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
        assert answer.leader == answer.member_id
        assert [(each.member_id, each.metadata) for each in answer.members] == [(answer.member_id, b"meta")]

    run(scenario, QUICK)


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None), (9, None)])
def test_a_refused_join_has_no_protocol_in_the_words_of_its_version(version: int, name: str | None) -> None:
    async def scenario(broker: Broker) -> None:
        answer = await join(broker, version=version, group="")
        assert (answer.error_code, answer.protocol_name, answer.leader) == (24, name, "")

    run(scenario, QUICK)


@pytest.mark.parametrize("version", range(6))
def test_the_leader_assigns_in_every_version(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        joined = await join_alone(broker)
        answer = await sync(broker, joined, version=version)
        assert (answer.error_code, answer.assignment) == (0, b"all")

    run(scenario, QUICK)


def test_a_sync_must_say_its_protocol_from_version_5_on() -> None:
    async def scenario(broker: Broker) -> None:
        joined = await join_alone(broker)
        for fields in ({"protocol_type": None}, {"protocol_name": None}, {"protocol_name": "other"}):
            assert (await sync(broker, joined, **fields)).error_code == 23
        assert (await sync(broker, joined, version=4)).error_code == 0

    run(scenario, QUICK)


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_says_how_the_group_is(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        joined = await join_alone(broker)
        await sync(broker, joined)
        asked = {"group_id": "g", "member_id": joined.member_id}
        codes = [
            (await ask(broker, apis.HEARTBEAT, version, **{**asked, "generation_id": 1, **fields})).error_code
            for fields in ({}, {"generation_id": 7}, {"member_id": "nobody"}, {"group_id": ""}, {"group_id": "none"})
        ]
        assert codes == [0, 22, 25, 24, 25]

    run(scenario, QUICK)


@pytest.mark.parametrize("version", range(6))
def test_a_member_leaves_in_every_version(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        joined = await join_alone(broker)
        codes = []
        for member_id in (joined.member_id, "nobody"):
            answer = await ask(
                broker, apis.LEAVE_GROUP, version, group_id="g", member_id=member_id, members=[{"member_id": member_id}]
            )
            codes.append((answer.error_code, *(each.error_code for each in getattr(answer, "members", ()))))
        assert codes == ([(0, 0), (0, 25)] if version >= 3 else [(0,), (25,)])

    run(scenario, QUICK)


def test_leaving_a_group_that_is_not_there_is_said_of_each_member() -> None:
    async def scenario(broker: Broker) -> None:
        members = [{"member_id": "a"}, {"member_id": "", "group_instance_id": "b"}]
        answer = await ask(broker, apis.LEAVE_GROUP, 5, group_id="none", members=members)
        assert answer.error_code == 0
        assert [(each.group_instance_id, each.error_code) for each in answer.members] == [(None, 25), ("b", 25)]
        assert (await ask(broker, apis.LEAVE_GROUP, 5, group_id="", members=members)).error_code == 24

    run(scenario)


def test_a_static_member_that_comes_again_fences_the_one_before() -> None:
    async def scenario(broker: Broker) -> None:
        first = await join(broker, instance_id="i")
        await sync(broker, first, group_instance_id="i")
        second = await join(broker, instance_id="i")
        assert (second.error_code, second.generation_id, second.skip_assignment) == (0, 1, True)
        assert (await sync(broker, first, group_instance_id="i")).error_code == 82
        assert (await sync(broker, second, group_instance_id="i")).assignment == b"all"

    run(scenario, QUICK)


def test_a_join_whose_client_is_gone_harms_nobody() -> None:
    """The connection is closed while a join waits: the next member gets its generation all the same."""

    async def scenario(broker: Broker) -> None:
        first = await join_alone(broker)
        await sync(broker, first)
        pending = (await join(broker)).member_id
        gone = asyncio.create_task(join(broker, member_id=pending))
        await asyncio.sleep(0.01)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        again = await join(broker, member_id=first.member_id)
        assert (again.error_code, again.generation_id) == (0, 2)
        assert {each.member_id for each in again.members} == {first.member_id, pending}

    run(scenario, QUICK)


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_every_version(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        joined = await join_alone(broker)
        await sync(broker, joined)
        answer = await ask(
            broker, apis.DESCRIBE_GROUPS, version, groups=("g", "none"), include_authorized_operations=True
        )
        there, missing = answer.groups
        assert (there.error_code, there.group_state, there.protocol_type, there.protocol_data) == (
            0,
            "Stable",
            "consumer",
            "range",
        )
        member = there.members[0]
        assert (member.member_id, member.client_id, member.client_host) == (joined.member_id, "test", "/127.0.0.1")
        assert (member.member_metadata, member.member_assignment) == (b"meta", b"all")
        assert (missing.error_code, missing.group_state) == ((69, "Dead") if version >= 6 else (0, "Dead"))
        if version >= 3:
            assert there.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11

    run(scenario, QUICK)


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        assert (await ask(broker, apis.LIST_GROUPS, version)).groups == ()
        await join_alone(broker, group="joined")
        await commit(broker, "there", {0: 5}, group_id="simple")
        answer = await ask(broker, apis.LIST_GROUPS, version)
        assert [(each.group_id, each.protocol_type) for each in answer.groups] == [
            ("joined", "consumer"),
            ("simple", ""),
        ]
        if version >= 4:
            assert [each.group_state for each in answer.groups] == ["CompletingRebalance", "Empty"]

    run(scenario, QUICK)


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"states_filter": ("empty",)}, ["simple"]),
        ({"states_filter": (" COMPLETINGREBALANCE ", "Empty")}, ["joined", "simple"]),
        ({"states_filter": ("no such state",)}, []),
        ({"types_filter": ("Classic",)}, ["joined", "simple"]),
        ({"types_filter": ("consumer",)}, ["new"]),
        ({"types_filter": ("no such type",)}, []),
        ({"states_filter": ("stable",), "types_filter": ("CONSUMER",)}, ["new"]),
    ],
)
def test_a_listing_has_what_its_filters_let_through(filters: dict[str, tuple[str, ...]], names: list[str]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        await join_alone(broker, group="joined")
        await commit(broker, "there", {0: 5}, group_id="simple")
        await ask(
            broker,
            apis.CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id="new",
            member_id="m",
            member_epoch=0,
            rebalance_timeout=1000,
            subscribed_topic_names=("there",),
            topic_partitions=(),
        )
        answer = await ask(broker, apis.LIST_GROUPS, 5, **filters)
        assert [each.group_id for each in answer.groups] == names

    run(scenario, QUICK)


@pytest.mark.parametrize("version", range(3))
def test_a_group_is_deleted_when_nobody_is_in_it(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        await join_alone(broker)
        await commit(broker, "there", {0: 5}, group_id="simple")
        answer = await ask(broker, apis.DELETE_GROUPS, version, groups_names=("g", "simple", "none", "simple"))
        assert [(each.group_id, each.error_code) for each in answer.results] == [("g", 68), ("simple", 0), ("none", 69)]
        assert [each.group_id for each in (await ask(broker, apis.LIST_GROUPS, 5)).groups] == ["g"]

    run(scenario, QUICK)


async def delete(broker: Broker, group: str = "g") -> int:
    answer = await ask(broker, apis.DELETE_GROUPS, 2, groups_names=(group,))
    return int(answer.results[0].error_code)


def test_a_group_of_very_many_offsets_is_deleted_by_two_at_once() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "wide", MANY)
        await commit(broker, "wide", dict.fromkeys(range(MANY), 5))
        assert list(await asyncio.gather(delete(broker), delete(broker))) == [0, 0]
        assert (await ask(broker, apis.LIST_GROUPS, 5)).groups == ()
        assert await fetch(broker, "wide", topics=None) == (0, [])

    run(scenario, QUICK)


def test_a_member_that_comes_while_its_group_is_deleted_keeps_what_is_left() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "wide", MANY)
        await commit(broker, "wide", dict.fromkeys(range(MANY), 5))
        deleting = asyncio.create_task(delete(broker))
        while (await fetch(broker, "wide", 0))[1] == [(0, 5, 0)]:  # noqa: ASYNC110 - as a client sees it
            await asyncio.sleep(0)
        joined = await join(broker)
        assert (await join(broker, member_id=joined.member_id)).error_code == 0
        assert await deleting == 68
        assert 0 < len((await fetch(broker, "wide", topics=None))[1]) < MANY

    run(scenario, QUICK)
