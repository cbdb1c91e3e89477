"""Share groups as their members and administrators see them."""

import asyncio
from typing import Any

import pytest

from barnabas.core.errors import FencedLeaderEpoch, FencedStateEpoch, NotLeaderOrFollower
from barnabas.core.groups.share.persisted import ShareKey
from barnabas.core.records.control import MarkerType
from barnabas.core.records.record import Record, encode_batch
from barnabas.services.broker import Broker
from barnabas.testing.disk import SimulatedDisk
from barnabas.wire import apis
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.handlers.sharing import (
    ACCEPT,
    QUICK,
    Member,
    ack_code,
    begin,
    pass_time,
    set_group,
    wait_let_go,
)
from tests.unit.edge.kafka.support import ask, create, produce, run, serving


def assigned(answer: Any) -> list[tuple[int, ...]] | None:
    return None if answer.assignment is None else [each.partitions for each in answer.assignment.topic_partitions]


async def offsets(broker: Broker, group: str = "g", topics: Any = None) -> dict[int, tuple[int, int, int]]:
    """Start offset, lag and error of each partition."""
    answer = await ask(broker, apis.DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[{"group_id": group, "topics": topics}])
    (found,) = answer.groups
    assert found.error_code == 0, found
    return {
        each.partition_index: (each.start_offset, each.lag, int(each.error_code))
        for topic in found.topics
        for each in topic.partitions
    }


async def alter_offsets(broker: Broker, offset: int, *, group: str = "g", topic: str = "t") -> Any:
    return await ask(
        broker,
        apis.ALTER_SHARE_GROUP_OFFSETS,
        0,
        group_id=group,
        topics=[{"topic_name": topic, "partitions": [{"partition_index": 0, "start_offset": offset}]}],
    )


def test_members_share_partitions_and_leave() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", 2)
        members = [Member(broker, name) for name in "abc"]
        joined = await members[0].beat()
        assert (joined.error_code, joined.heartbeat_interval.total_seconds()) == (0, 5)
        assert assigned(joined) == [(0, 1)]
        assert assigned(await members[1].beat()) is not None
        assert assigned(await members[2].beat()) is not None
        held = [assigned(await member.beat(subscribed_topic_names=("t",))) for member in members]
        assert sorted(index for each in held for topic in each or () for index in topic) == [0, 0, 1, 1]
        for member in members:
            assert (await member.beat(-1)).error_code == 0
        assert (await members[0].beat(1)).error_code == 25

    run(scenario, QUICK)


def test_a_heartbeat_of_another_epoch_or_an_unknown_group_is_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        member = Member(broker)
        assert (await member.beat(5)).error_code == 69
        epoch = (await member.beat(0)).member_epoch
        assert (await member.beat(epoch + 1)).error_code == 110
        assert (await member.beat(-2)).error_code == 42
        assert (await Member(broker, "").beat()).error_code == 42
        assert (await Member(broker, "x").beat(subscribed_topic_names=())).error_code == 42
        assert (await member.beat(epoch)).error_code == 0

    run(scenario, QUICK)


def test_a_member_that_is_silent_is_removed() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        member = Member(broker)
        await member.beat()
        await pass_time(46)
        assert (await member.beat()).error_code == 25

    run(scenario, QUICK, is_virtual=True)


def test_new_partitions_and_new_topics_are_assigned() -> None:
    async def scenario(broker: Broker) -> None:
        member = Member(broker)
        joined = await member.beat()
        assert (joined.error_code, assigned(joined)) == (0, [])
        await create(broker, "t", 1)
        assert await wait_assigned(member) == [(0,)]
        await ask(
            broker, apis.CREATE_PARTITIONS, 3, topics=[{"name": "t", "count": 3, "assignments": None}], timeout=1000
        )
        assert await wait_assigned(member) == [(0, 1, 2)]

    run(scenario, QUICK)


async def wait_assigned(member: Member) -> Any:
    while True:
        found = assigned(await member.beat())
        if found:
            return found
        await asyncio.sleep(0)


def test_groups_are_listed_and_described() -> None:
    async def scenario(broker: Broker) -> None:
        await begin(broker)
        listed = await ask(broker, apis.LIST_GROUPS, 5, types_filter=("share",))
        assert [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listed.groups] == [
            ("g", "share", "Stable", "Share")
        ]
        described = await ask(broker, apis.SHARE_GROUP_DESCRIBE, 1, group_ids=("g", "nobody"))
        found, missing = described.groups
        assert (found.group_state, found.assignor_name, missing.error_code) == ("Stable", "simple", 69)
        (member,) = found.members
        assert (member.member_id, member.subscribed_topic_names) == ("m", ("t",))
        assert [(each.topic_name, each.partitions) for each in member.assignment.topic_partitions] == [("t", (0,))]

    run(scenario, QUICK)


def test_a_name_belongs_to_one_kind_of_group() -> None:
    async def scenario(broker: Broker) -> None:
        await begin(broker)
        joining: dict[str, Any] = {
            "group_id": "g",
            "member_id": "c",
            "member_epoch": 0,
            "rebalance_timeout": 5000,
            "subscribed_topic_names": ("t",),
            "topic_partitions": (),
        }
        assert (await ask(broker, apis.CONSUMER_GROUP_HEARTBEAT, 1, **joining)).error_code == 69
        protocols = [{"name": "range", "metadata": b""}]
        classic = await ask(
            broker, apis.JOIN_GROUP, 9, group_id="g", member_id="", protocol_type="consumer", protocols=protocols
        )
        assert classic.error_code == 23
        assert (await ask(broker, apis.CONSUMER_GROUP_HEARTBEAT, 1, **{**joining, "group_id": "c"})).error_code == 0
        assert (await Member(broker, group="c").beat()).error_code == 69

    run(scenario, QUICK)


def test_offsets_are_described_with_what_is_left() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, partitions=2)
        assert await offsets(broker) == {0: (-1, -1, 0), 1: (-1, -1, 0)}
        await member.acquire()
        assert (await offsets(broker))[0] == (0, 10, 0)
        await member.acknowledge({0: [(0, 2, [ACCEPT]), (5, 6, [ACCEPT])]})
        assert (await offsets(broker))[0] == (3, 5, 0)
        asked = [{"topic_name": "t", "partitions": (0, 9)}, {"topic_name": "no", "partitions": (3,)}]
        assert await offsets(broker, topics=asked) == {0: (3, 5, 0), 9: (-1, -1, 3), 3: (-1, -1, 3)}

    run(scenario, QUICK)


def test_offsets_are_altered_and_deleted_once_the_group_is_empty() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker)
        await member.acquire()
        assert (await alter_offsets(broker, 4)).error_code == 68
        await member.acknowledge({0: [(0, 9, [ACCEPT])]})
        await member.beat(-1)
        answer = await alter_offsets(broker, 4)
        assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)
        assert await offsets(broker) == {0: (4, 6, 0)}
        unknown = await alter_offsets(broker, 0, topic="no")
        assert unknown.responses[0].partitions[0].error_code == 3
        await produce(broker, "t", NOW_MS)
        await member.fetch()  # with the old state, which the next write finds to be fenced
        again = Member(broker, "again")
        await again.beat()
        member.session.close()
        await wait_let_go(broker)
        assert await again.acquire() == [(4, 10, 1)]
        again.session.close()
        await again.beat(-1)
        deleted = await ask(
            broker,
            apis.DELETE_SHARE_GROUP_OFFSETS,
            0,
            group_id="g",
            topics=[{"topic_name": "t"}, {"topic_name": "no"}],
        )
        assert [each.error_code for each in deleted.responses] == [0, 3]
        assert await offsets(broker) == {}

    run(scenario, QUICK)


def test_a_group_is_deleted_with_its_states() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker)
        await member.acquire()
        refused = await ask(broker, apis.DELETE_GROUPS, 2, groups_names=("g",))
        assert [each.error_code for each in refused.results] == [68]
        member.session.close()
        await member.beat(-1)
        gone = await ask(broker, apis.DELETE_GROUPS, 2, groups_names=("g",))
        assert [each.error_code for each in gone.results] == [0]
        assert (await ask(broker, apis.LIST_GROUPS, 5)).groups == ()
        assert not any(each.states.by_key for each in broker.shares.states._coordinators.available())

    run(scenario, QUICK)


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_aborted_records_and_markers_are_not_delivered(level: str) -> None:
    async def scenario(broker: Broker) -> None:
        await set_group(broker, share__isolation__level=level)
        member = await begin(broker, records=2)
        partition = broker.served.get_partition("t", 0)
        records = [Record(number, NOW_MS, b"k", b"v") for number in range(3)]
        batch = encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        guard = partition.begin_verification(7, 0)
        partition.append_in_transaction(bytearray(batch), guard=guard, now_ms=NOW_MS)
        assert await member.acquire() == ([(0, 1, 1)] if level == "read_committed" else [(0, 4, 1)])
        partition.append_marker(
            MarkerType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0, version=1, now_ms=NOW_MS
        )
        await produce(broker, "t", NOW_MS)
        assert await member.acquire() == [(6, 6, 1)]

    run(scenario, QUICK)


def test_states_survive_a_restart_and_a_cut_of_their_log() -> None:
    async def main() -> None:
        disk = SimulatedDisk(1)
        async with serving(QUICK, disk=disk) as broker:
            member = await begin(broker, records=5)
            await member.acquire()
            assert ack_code(await member.acknowledge({0: [(1, 2, [ACCEPT])]})) == 0
            assert await broker.shares.states.prune(from_records=0) == 1
        async with serving(QUICK, disk=disk) as broker:
            again = Member(broker, "again")
            assert await again.acquire() == [(0, 0, 1), (3, 4, 1)]

    asyncio.run(main())


def test_a_write_of_a_state_is_fenced_by_its_leader_epoch_and_its_state_epoch() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker)
        await member.acquire()
        topic_id = broker.served.by_name["t"].topic_id
        state = await broker.shares.states.summarize(ShareKey("g", topic_id, 0))
        assert state is not None

        async def write(*, state_epoch: int, leader_epoch: int) -> int:
            fields = {"state_epoch": state_epoch, "leader_epoch": leader_epoch, "start_offset": 0}
            partition = {"partition": 0, **fields, "delivery_complete_count": 0, "state_batches": []}
            topics = [{"topic_id": topic_id, "partitions": [partition]}]
            answer = await ask(broker, apis.WRITE_SHARE_GROUP_STATE, 1, group_id="g", topics=topics)
            return int(answer.results[0].partitions[0].error_code)

        right = {"state_epoch": state.state_epoch, "leader_epoch": state.leader_epoch + 1}
        assert await write(**right) == 0
        assert await write(**{**right, "leader_epoch": state.leader_epoch}) == FencedLeaderEpoch.kafka_code
        for state_epoch in (state.state_epoch - 1, state.state_epoch + 1):
            assert await write(**{**right, "state_epoch": state_epoch}) == FencedStateEpoch.kafka_code
        assert ack_code(await member.acknowledge({0: [(0, 9, [ACCEPT])]})) == NotLeaderOrFollower.kafka_code

    run(scenario, QUICK)
