from typing import Any

import pytest

from barnabas.services.broker import Broker
from barnabas.wire import apis
from tests.unit.edge.kafka.handlers.grouping import QUICK, join, join_alone, sync
from tests.unit.edge.kafka.support import ask, config_of, create, run


async def beat(broker: Broker, member_id: str = "m", epoch: int = 0, *, version: int = 1, **fields: Any) -> Any:
    """A heartbeat; one that joins says what it reads."""
    joining = {"rebalance_timeout": 5000, "subscribed_topic_names": ("there",), "topic_partitions": ()}
    asked = {"group_id": "g", "rebalance_timeout": -1, "topic_partitions": None, "subscribed_topic_names": None}
    asked |= joining if epoch == 0 else {}
    return await ask(
        broker,
        apis.CONSUMER_GROUP_HEARTBEAT,
        version,
        **{**asked, "member_id": member_id, "member_epoch": epoch, **fields},
    )


def assigned(answer: Any) -> list[tuple[int, ...]] | None:
    return None if answer.assignment is None else [each.partitions for each in answer.assignment.topic_partitions]


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_is_assigned_and_leaves(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there", 3)
        joined = await beat(broker, version=version)
        assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval.total_seconds()) == (0, 1, 5)
        assert assigned(joined) == [(0, 1, 2)]
        again = await beat(broker, epoch=1, version=version)
        assert (again.error_code, again.assignment) == (0, None)
        left = await beat(broker, epoch=-1, version=version)
        assert (left.error_code, left.member_epoch) == (0, -1)
        assert (await beat(broker, epoch=1, version=version)).error_code == 25

    run(scenario)


def test_a_member_of_version_0_is_given_its_id_and_one_of_version_1_must_bring_it() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        assert len((await beat(broker, "", version=0)).member_id) == 36
        assert (await beat(broker, "", version=1)).error_code == 42

    run(scenario)


def test_refusals_say_why() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        for code, fields in (
            (69, {"epoch": 3}),
            (42, {"subscribed_topic_names": None}),
            (112, {"server_assignor": "no-such"}),
            (128, {"subscribed_topic_names": None, "subscribed_topic_regex": "(a"}),
            (42, {"group_id": ""}),
        ):
            answer = await beat(broker, **fields)
            assert answer.error_code == code
            assert answer.error_message

    run(scenario)


def test_a_new_topic_that_an_expression_matches_is_assigned() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        fields: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "the.*"}
        assert assigned(await beat(broker, **fields)) == []  # it is matched after this
        answer = await beat(broker, epoch=1)
        assert (answer.member_epoch, assigned(answer)) == (2, [(0,)])
        await create(broker, "these", 2)
        answer = await beat(broker, epoch=2)
        assert (answer.member_epoch, sorted(assigned(answer) or ())) == (3, [(0,), (0, 1)])

    run(scenario)


def test_members_in_the_rack_of_the_node_are_served_first_as_far_as_shares_allow() -> None:
    """One node has all replicas: the partition that makes shares uneven goes to the member beside it."""

    async def scenario(broker: Broker) -> None:
        await create(broker, "there", 3)
        await beat(broker, "far", rack_id="b")
        near = await beat(broker, "near", rack_id="a")
        await beat(broker, "far", 1)
        await beat(broker, "far", 1, topic_partitions=())
        near = await beat(broker, "near", near.member_epoch)
        assert len((assigned(near) or [()])[0]) == 2

    run(scenario, config_of(broker_rack="a"))


@pytest.mark.parametrize("version", [0, 1])
def test_a_consumer_group_is_described(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there", 2)
        await beat(broker, rack_id="a")
        await join_alone(broker, group="classic")
        answer = await ask(
            broker,
            apis.CONSUMER_GROUP_DESCRIBE,
            version,
            group_ids=("g", "none", "classic", ""),
            include_authorized_operations=True,
        )
        assert [each.error_code for each in answer.groups] == [0, 69, 69, 24]
        assert answer.groups[2].error_message == "Group classic is not a consumer group."
        group = answer.groups[0]
        assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
            "Stable",
            1,
            1,
            "uniform",
        )
        member = group.members[0]
        assert (member.member_id, member.member_epoch, member.rack_id, member.client_host) == (
            "m",
            1,
            "a",
            "/127.0.0.1",
        )
        held = member.assignment.topic_partitions[0]
        assert (held.topic_name, held.partitions) == ("there", (0, 1))
        assert member.target_assignment == member.assignment
        if version:
            assert member.member_type == 1

    run(scenario, QUICK)


def test_a_classic_group_goes_on_as_a_consumer_group_and_back() -> None:
    """A member of the new protocol joins a classic group; the classic member joins again and finds its share."""
    metadata = b"\x00\x00\x00\x00\x00\x01\x00\x05there\xff\xff\xff\xff"

    async def scenario(broker: Broker) -> None:
        await create(broker, "there", 2)
        member_id = (await join(broker, metadata=metadata)).member_id
        joined = await join(broker, member_id=member_id, metadata=metadata)
        everything = (
            b"\x00\x00\x00\x00\x00\x01\x00\x05there\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff"
        )
        await sync(broker, joined, assignments=[{"member_id": member_id, "assignment": everything}])

        new = await beat(broker)
        assert (new.error_code, assigned(new)) == (0, [])
        listed = await ask(broker, apis.LIST_GROUPS, 5)
        assert [(each.group_id, each.group_type) for each in listed.groups] == [("g", "Consumer")]

        asked = {"group_id": "g", "member_id": member_id, "generation_id": joined.generation_id}
        assert (await ask(broker, apis.HEARTBEAT, 4, **asked)).error_code == 27
        again = await join(broker, member_id=member_id, metadata=metadata)
        assert again.error_code == 0
        half = await sync(broker, again, assignments=[])
        assert (half.error_code, len(half.assignment)) == (0, len(everything) - 4)

        assert (await beat(broker, epoch=-1)).error_code == 0
        listed = await ask(broker, apis.LIST_GROUPS, 5)
        assert [(each.group_id, each.group_type) for each in listed.groups] == [("g", "Classic")]
        last = await join(broker, member_id=member_id, metadata=metadata)
        assert (last.error_code, last.leader) == (0, member_id)

    run(scenario, QUICK)
