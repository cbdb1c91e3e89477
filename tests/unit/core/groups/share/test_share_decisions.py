"""Share groups: who is a member, who fetches what, and whose state there is."""

from collections.abc import Sequence
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import (
    FencedLeaderEpoch,
    FencedStateEpoch,
    GroupMaxSizeReached,
    InvalidRequest,
    UnknownMemberId,
)
from barnabas.core.groups.classic.state import ClassicSoft
from barnabas.core.groups.consumer.placing import TopicInfo
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.offsets import expire
from barnabas.core.groups.records import GroupEntry, StateTopic
from barnabas.core.groups.settings import OffsetsConfig, ShareConfig
from barnabas.core.groups.share import persisted
from barnabas.core.groups.share.assigning import assign_simply
from barnabas.core.groups.share.decisions import (
    decide_deleting,
    decide_heartbeat,
    decide_initialized,
    on_topics_change,
)
from barnabas.core.groups.share.messages import LEAVE_EPOCH, ShareHeartbeat, ShareHeartbeatReply
from barnabas.core.groups.share.partition import StateBatch
from barnabas.core.groups.share.persisted import NO_OFFSET, ShareKey, ShareStates
from barnabas.core.groups.share.state import ShareGroup
from barnabas.core.groups.share.window import Persisted

T, U = UUID(int=1), UUID(int=2)
TOPICS = {"t": TopicInfo(T, 2), "u": TopicInfo(U, 1)}
KEY = ShareKey("g", T, 0)


class Town:
    """One group, as decisions make it."""

    def __init__(self, config: ShareConfig | None = None) -> None:
        self.groups = Groups()
        self.topics = dict(TOPICS)
        self.config = config or ShareConfig()

    @property
    def group(self) -> ShareGroup:
        return self.groups.share.get("g") or ShareGroup("g")

    def apply(self, records: Sequence[GroupEntry]) -> None:
        for record in records:
            self.groups.apply(record)

    def beat(self, member_id: str, epoch: int, *names: str) -> ShareHeartbeatReply:
        request = ShareHeartbeat(group="g", member_id=member_id, member_epoch=epoch, topics=names or None)
        decision = decide_heartbeat(
            self.group, request, is_taken=False, now_ms=1, topics=self.topics, config=self.config
        )
        self.apply(decision.records)
        return decision.reply

    def initialize(self, *done: StateTopic) -> None:
        self.apply(decide_initialized(self.group, done, topics=self.topics).records)


def test_a_partition_is_assigned_once_its_state_is_made() -> None:
    town = Town()
    joined = town.beat("a", 0, "t")
    assert joined.assignment == ()
    assert joined.initialize == (StateTopic(T, "t", (0, 1)),)
    town.initialize(StateTopic(T, "t", (0,)))
    again = town.beat("a", joined.member_epoch)
    assert again.assignment is not None
    assert [each.partitions for each in again.assignment] == [(0,)]
    assert again.initialize == (StateTopic(T, "t", (1,)),)


def test_a_member_whose_answer_was_lost_is_told_its_assignment_again() -> None:
    town = Town()
    joined = town.beat("a", 0, "t")
    town.initialize(StateTopic(T, "t", (0, 1)))
    lost = town.beat("a", joined.member_epoch)
    again = town.beat("a", joined.member_epoch)
    assert (again.member_epoch, again.assignment) == (lost.member_epoch, lost.assignment)
    assert again.assignment is not None
    assert town.beat("a", again.member_epoch).assignment is None


def test_a_group_whose_members_have_left_stays_however_long_it_is_idle() -> None:
    town = Town()
    epoch = town.beat("a", 0, "t").member_epoch
    town.initialize(StateTopic(T, "t", (0, 1)))
    town.beat("a", epoch)
    town.beat("a", LEAVE_EPOCH)
    assert not town.group.members
    soft, config = ClassicSoft(), OffsetsConfig(retention_ms=1)
    assert expire(town.groups, soft, "g", config=config, now_ms=10**15).records == []


def test_a_member_that_is_unknown_or_one_too_many_is_refused() -> None:
    town = Town(ShareConfig(max_size=1))
    town.beat("a", 0, "t")
    with pytest.raises(GroupMaxSizeReached):
        town.beat("b", 0, "t")
    with pytest.raises(UnknownMemberId):
        Town().beat("b", -1)


def test_the_states_of_a_deleted_topic_are_forgotten() -> None:
    town = Town()
    town.beat("a", 0, "t", "u")
    town.initialize(StateTopic(T, "t", (0, 1)), StateTopic(U, "u", (0,)))
    del town.topics["t"]
    town.apply(on_topics_change(town.group, topics=town.topics, now_ms=1).records)
    assert list(town.group.initialized) == [U]
    assert decide_deleting(town.group, [T, U]).reply == [StateTopic(U, "u", (0,))]


@given(
    members=st.integers(1, 12),
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    leaving=st.integers(0, 3),
    joining=st.integers(0, 3),
)
def test_partitions_are_shared_evenly_and_members_keep_theirs(
    members: int, sizes: list[int], leaving: int, joining: int
) -> None:
    topics = {UUID(int=number + 1): list(range(size)) for number, size in enumerate(sizes)}
    count = sum(sizes)
    before = _assigned([f"m{number}" for number in range(members)], topics, {})
    left = [f"m{number}" for number in range(min(leaving, members - 1), members)]
    after = _assigned(left + [f"n{number}" for number in range(joining)], topics, before)
    for held in (before, after):
        loads = sorted(len(each) for each in held.values())
        shared = [sum(place in each for each in held.values()) for place in _places(topics)]
        assert all(shared), "every partition has a member"
        if count:
            assert max(shared) <= -(-len(held) // count) + 1
            assert loads[-1] - loads[0] <= 2
    if not joining and members <= count:
        assert all(len(before[member] & after[member]) >= min(len(before[member]), 1) for member in left)


def _places(topics: dict[UUID, list[int]]) -> list[tuple[UUID, int]]:
    return [(topic_id, index) for topic_id, indexes in topics.items() for index in indexes]


def _assigned(
    members: list[str], topics: dict[UUID, list[int]], previous: dict[str, set[tuple[UUID, int]]]
) -> dict[str, set[tuple[UUID, int]]]:
    found = assign_simply(dict.fromkeys(members, frozenset(topics)), topics, previous)
    return {
        member: {(topic_id, index) for topic_id, indexes in held.items() for index in indexes}
        for member, held in found.items()
    }


# What share coordinators decide


def states_with(*, state_epoch: int = 0, start_offset: int = 5) -> ShareStates:
    states = ShareStates()
    made = persisted.decide_initialize(states, KEY, state_epoch=state_epoch, start_offset=start_offset, now_ms=0)
    for record in made.records:
        states.apply(record)
    return states


def write(states: ShareStates, *, leader_epoch: int = 1, state_epoch: int = 0, start_offset: int = 5) -> None:
    batches = (StateBatch(start_offset + 1, start_offset + 1, Persisted.ACKNOWLEDGED, 1),)
    written = persisted.decide_write(
        states,
        KEY,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        complete_count=1,
        batches=batches,
        now_ms=0,
    )
    for record in written.records:
        states.apply(record)


def test_a_leader_that_was_replaced_writes_nothing_and_reads_nothing() -> None:
    states = states_with()
    for record in persisted.decide_read(states, KEY, leader_epoch=3, now_ms=0).records:
        states.apply(record)
    with pytest.raises(FencedLeaderEpoch):
        write(states, leader_epoch=2)
    with pytest.raises(FencedLeaderEpoch):
        persisted.decide_read(states, KEY, leader_epoch=2, now_ms=0)
    write(states, leader_epoch=3)


def test_a_state_that_was_made_anew_is_not_written_by_who_knows_the_old_one() -> None:
    states = states_with()
    write(states)
    for record in persisted.decide_initialize(states, KEY, state_epoch=4, start_offset=0, now_ms=0).records:
        states.apply(record)
    found = states.find(KEY)
    assert found is not None
    assert (found.start_offset, found.batches, found.state_epoch) == (0, (), 4)
    with pytest.raises(FencedStateEpoch):
        write(states)
    with pytest.raises(FencedStateEpoch):
        persisted.decide_initialize(states, KEY, state_epoch=3, start_offset=0, now_ms=0)


def test_a_state_is_not_made_anew_by_a_request_that_is_repeated() -> None:
    states = states_with()
    write(states)
    assert not persisted.decide_initialize(states, KEY, state_epoch=9, start_offset=NO_OFFSET, now_ms=0).records


def test_the_start_offset_does_not_go_back() -> None:
    states = states_with()
    write(states, start_offset=20)
    write(states, start_offset=10)
    found = states.find(KEY)
    assert found is not None
    assert found.start_offset == 20


def test_a_write_that_comes_late_or_twice_takes_nothing_back() -> None:
    states = states_with()
    released = (StateBatch(6, 7, Persisted.AVAILABLE, 1),)
    done = (StateBatch(6, 6, Persisted.ACKNOWLEDGED, 2), StateBatch(7, 7, Persisted.AVAILABLE, 2))
    for batches, complete_count in ((released, 0), (done, 1), (released, 0)):
        decided = persisted.decide_write(
            states,
            KEY,
            state_epoch=0,
            leader_epoch=1,
            start_offset=5,
            complete_count=complete_count,
            batches=batches,
            now_ms=0,
        )
        for record in decided.records:
            states.apply(record)
    found = states.find(KEY)
    assert found is not None
    assert (found.batches, found.complete_count) == (done, 1)


def test_what_is_said_of_an_earlier_start_offset_does_not_count_for_the_later_one() -> None:
    states = states_with()
    write(states, start_offset=20)
    for start_offset, complete_count, expected in ((10, 9, 1), (20, 3, 3), (20, 2, 3), (22, 1, 1)):
        decided = persisted.decide_write(
            states,
            KEY,
            state_epoch=0,
            leader_epoch=1,
            start_offset=start_offset,
            complete_count=complete_count,
            batches=(),
            now_ms=0,
        )
        assert decided.reply.complete_count == expected
        for record in decided.records:
            states.apply(record)


def test_a_state_is_not_written_by_who_knows_one_that_was_deleted() -> None:
    states = states_with(state_epoch=7)
    write(states, state_epoch=7)
    for record in persisted.decide_delete(states, KEY).records:
        states.apply(record)
    with pytest.raises(InvalidRequest):
        write(states, state_epoch=7)
    for record in persisted.decide_initialize(states, KEY, state_epoch=1, start_offset=0, now_ms=0).records:
        states.apply(record)
    with pytest.raises(FencedStateEpoch):
        write(states, state_epoch=7)
    write(states, state_epoch=1)


def test_what_was_never_initialised_is_neither_read_nor_written() -> None:
    with pytest.raises(InvalidRequest):
        write(ShareStates())
    with pytest.raises(InvalidRequest):
        persisted.decide_read(ShareStates(), KEY, leader_epoch=0, now_ms=0)


def test_a_whole_state_is_written_once_there_are_many_updates() -> None:
    states = states_with()
    kinds = []
    for number in range(persisted.UPDATES_PER_SNAPSHOT + 2):
        decision = persisted.decide_write(
            states,
            KEY,
            state_epoch=0,
            leader_epoch=1,
            start_offset=5 + number,
            complete_count=0,
            batches=(),
            now_ms=0,
        )
        kinds += [type(record).__name__ for record in decision.records]
        for record in decision.records:
            states.apply(record)
    changes = [number for number, (left, right) in enumerate(pairwise(kinds)) if left != right]
    assert changes == [persisted.UPDATES_PER_SNAPSHOT - 1, persisted.UPDATES_PER_SNAPSHOT]
