"""SyncGroup, Heartbeat, LeaveGroup, sessions and failures of classic groups, as transcripts."""

import pytest

from barnabas.core.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    RebalanceInProgress,
    UnknownMemberId,
)
from barnabas.core.groups.classic import decisions as classic
from barnabas.core.groups.classic.messages import LeavingMember
from barnabas.core.groups.classic.state import ClassicState
from barnabas.core.groups.decision import JOIN, SESSION, SYNC, TimerKey
from barnabas.core.groups.records import ConsumerGroupRecord, ConsumerMemberRecord
from tests.unit.core.groups.classic.driver import GROUP, REBALANCE_MS, SESSION_MS, Coordinator, replay


def completing(coordinator: Coordinator, size: int = 2) -> list[str]:
    """Members of a generation whose assignment is awaited."""
    tokens = [coordinator.join(version=3) for _ in range(size)]
    while tokens[0] not in coordinator.answers:
        coordinator.fire_next()
    return [coordinator.joined(token).member_id for token in tokens]


# SyncGroup


def test_followers_wait_for_the_assignment_of_the_leader() -> None:
    coordinator = Coordinator()
    leader, follower = completing(coordinator)
    waiting = coordinator.sync(follower, 1)
    assert waiting not in coordinator.answers
    token = coordinator.sync(leader, 1, {leader: b"L", follower: b"F", "nobody": b"N"})
    assert coordinator.synced(waiting).assignment == b"F"
    assert coordinator.synced(token).assignment == b"L"
    assert coordinator.synced(token).protocol == "range"
    assert [member.assignment for member in coordinator.record().members] == [b"L", b"F"]
    assert coordinator.state() is ClassicState.STABLE


def test_a_follower_that_comes_later_gets_what_was_assigned() -> None:
    coordinator = Coordinator()
    leader, follower = completing(coordinator)
    coordinator.sync(leader, 1, {follower: b"F"})
    assert TimerKey(SYNC, GROUP) in coordinator.timers
    assert coordinator.synced(coordinator.sync(follower, 1)).assignment == b"F"
    assert TimerKey(SYNC, GROUP) not in coordinator.timers


def test_a_member_that_the_leader_left_out_gets_nothing() -> None:
    coordinator = Coordinator()
    leader, follower = completing(coordinator)
    waiting = coordinator.sync(follower, 1)
    coordinator.sync(leader, 1, {leader: b"L"})
    assert coordinator.synced(waiting).assignment == b""


def test_a_sync_is_checked() -> None:
    coordinator = Coordinator()
    assert isinstance(coordinator.answers[coordinator.sync("nobody", 1)], UnknownMemberId)
    leader, follower = completing(coordinator)
    for token, refusal in (
        (coordinator.sync("nobody", 1), UnknownMemberId),
        (coordinator.sync(follower, 2), IllegalGeneration),
        (coordinator.sync(follower, 1, protocol="sticky"), InconsistentGroupProtocol),
        (coordinator.sync(follower, 1, protocol_type="connect"), InconsistentGroupProtocol),
        (coordinator.sync(follower, 1, instance_id="i9"), UnknownMemberId),
        (coordinator.sync(follower, 1, group=""), InvalidGroupId),
    ):
        assert isinstance(coordinator.answers[token], refusal)
    assert coordinator.sync(follower, 1, protocol=None, protocol_type=None) not in coordinator.answers
    coordinator.sync(leader, 1)
    coordinator.join(leader)
    assert isinstance(coordinator.answers[coordinator.sync(follower, 1)], RebalanceInProgress)


def test_a_sync_that_is_sent_twice_is_answered_twice() -> None:
    coordinator = Coordinator()
    leader, follower = completing(coordinator)
    first, second = coordinator.sync(follower, 1), coordinator.sync(follower, 1)
    assert isinstance(coordinator.answers[first], RebalanceInProgress)
    coordinator.sync(leader, 1, {follower: b"F"})
    assert coordinator.synced(second).assignment == b"F"


def test_a_leader_that_does_not_assign_is_dropped_and_the_others_start_over() -> None:
    coordinator = Coordinator()
    leader, follower = completing(coordinator)
    waiting = coordinator.sync(follower, 1)
    for _ in range(REBALANCE_MS // 5_000):
        coordinator.heartbeat(leader, 1)  # alive, and yet it does not assign
        coordinator.pass_ms(5_000)
    assert isinstance(coordinator.answers[waiting], RebalanceInProgress)
    assert isinstance(coordinator.heartbeat(leader, 1), UnknownMemberId)
    assert coordinator.joined(coordinator.join(follower)).leader == follower


def test_a_follower_that_does_not_fetch_its_assignment_is_dropped() -> None:
    coordinator = Coordinator()
    leader, follower = completing(coordinator)
    coordinator.sync(leader, 1)
    for _ in range(REBALANCE_MS // 5_000):
        coordinator.heartbeat(leader, 1)
        coordinator.heartbeat(follower, 1)
        coordinator.pass_ms(5_000)
    assert isinstance(coordinator.heartbeat(follower, 1), UnknownMemberId)
    assert isinstance(coordinator.heartbeat(leader, 1), RebalanceInProgress)


def test_who_waits_for_its_assignment_need_not_heartbeat() -> None:
    coordinator = Coordinator()
    leader, follower = completing(coordinator)
    waiting = coordinator.sync(follower, 1)
    for _ in range(3):
        coordinator.heartbeat(leader, 1)
        coordinator.pass_ms(SESSION_MS - 1)
    coordinator.sync(leader, 1, {follower: b"F"})
    assert coordinator.synced(waiting).assignment == b"F"
    assert coordinator.heartbeat(follower, 1) is None


def test_who_waited_longer_than_its_session_has_a_new_one_when_a_rebalance_begins() -> None:
    coordinator = Coordinator()
    leader, follower = completing(coordinator)
    coordinator.sync(follower, 1)
    for _ in range(2):
        coordinator.heartbeat(leader, 1)
        coordinator.pass_ms(SESSION_MS - 1)
    coordinator.join(version=3)
    assert coordinator.timers[TimerKey(SESSION, GROUP, follower)] == coordinator.now_ms + SESSION_MS


# Heartbeat and sessions


def test_a_heartbeat_is_checked() -> None:
    coordinator = Coordinator()
    assert isinstance(coordinator.heartbeat("nobody", 1), UnknownMemberId)
    ids = coordinator.stable_group(2, static=True)
    assert coordinator.heartbeat(ids[0], 1) is None
    assert isinstance(coordinator.heartbeat("nobody", 1), UnknownMemberId)
    assert isinstance(coordinator.heartbeat(ids[0], 2), IllegalGeneration)
    assert isinstance(coordinator.heartbeat(ids[0], 1, "i1"), FencedInstanceId)
    assert isinstance(coordinator.heartbeat(ids[0], 1, group=""), InvalidGroupId)
    coordinator.join(ids[0], "i0")
    assert isinstance(coordinator.heartbeat(ids[1], 1), RebalanceInProgress)


def test_heartbeats_keep_a_session_and_silence_ends_it() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    for _ in range(4):
        coordinator.pass_ms(SESSION_MS - 1)
        assert coordinator.heartbeat(ids[0], 1) is None or coordinator.state() is not ClassicState.STABLE
    assert isinstance(coordinator.heartbeat(ids[1], 1), UnknownMemberId)
    rejoined = coordinator.joined(coordinator.join(ids[0]))
    assert len(rejoined.members) == 1


def test_a_heartbeat_is_fine_while_the_assignment_is_awaited() -> None:
    coordinator = Coordinator()
    leader, _ = completing(coordinator)
    assert coordinator.heartbeat(leader, 1) is None


def test_a_group_whose_members_all_fall_silent_becomes_empty() -> None:
    coordinator = Coordinator()
    coordinator.stable_group(3)
    while coordinator.fire_next():
        pass
    assert coordinator.state() is ClassicState.EMPTY
    record = coordinator.record()
    assert (record.members, record.protocol, record.leader, record.protocol_type) == ((), None, None, "consumer")
    assert record.generation > 1
    assert not coordinator.soft.live


def test_the_generation_goes_on_from_where_it_was_when_members_come_back() -> None:
    coordinator = Coordinator()
    coordinator.stable_group(1)
    coordinator.pass_ms(SESSION_MS)
    generation = coordinator.record().generation
    token = coordinator.join(version=3, protocol_type="connect")  # an empty group takes any type
    coordinator.pass_ms(3_000)
    assert coordinator.joined(token).generation == generation + 1
    assert coordinator.joined(token).protocol_type == "connect"


# LeaveGroup


def test_a_member_that_leaves_is_gone_at_once() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    assert coordinator.left(LeavingMember(ids[1])) == [None]
    assert TimerKey(SESSION, GROUP, ids[1]) not in coordinator.timers
    assert isinstance(coordinator.heartbeat(ids[0], 1), RebalanceInProgress)
    assert coordinator.joined(coordinator.join(ids[0])).generation == 2


def test_the_last_member_that_leaves_makes_the_group_empty() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    assert coordinator.left(*map(LeavingMember, ids)) == [None, None]
    assert coordinator.state() is ClassicState.EMPTY
    assert not coordinator.timers


def test_each_of_several_that_leave_has_an_answer() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(3, static=True)
    assert coordinator.left(
        LeavingMember("", "i0"),
        LeavingMember("", "i9"),
        LeavingMember(""),
        LeavingMember("nobody"),
        LeavingMember(ids[1], "i2"),
        LeavingMember(ids[1], "i1"),
        LeavingMember(ids[1], "i1"),
    ) == [None, UnknownMemberId, UnknownMemberId, UnknownMemberId, FencedInstanceId, None, UnknownMemberId]
    assert coordinator.joined(coordinator.join(ids[2], "i2")).leader == ids[2]


def test_nobody_leaves_a_group_that_is_not_there() -> None:
    coordinator = Coordinator()
    assert isinstance(coordinator.leave(LeavingMember("m1")), UnknownMemberId)


def test_a_pending_member_may_leave_and_is_no_longer_awaited() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(1)
    coordinator.join()
    assert coordinator.soft.live[GROUP].pending
    rejoin = coordinator.join(ids[0])
    assert rejoin not in coordinator.answers
    assert coordinator.left(LeavingMember(next(iter(coordinator.soft.live[GROUP].pending)))) == [None]
    assert coordinator.joined(rejoin).generation == 2


@pytest.mark.parametrize("waits_for", ["join", "sync"])
def test_what_a_leaving_member_waits_for_is_refused(waits_for: str) -> None:
    coordinator = Coordinator()
    _, follower = completing(coordinator)
    waiting = coordinator.sync(follower, 1)
    if waits_for == "join":
        coordinator.join(version=3)
        waiting = coordinator.join(follower)
    coordinator.left(LeavingMember(follower))
    assert isinstance(coordinator.answers[waiting], UnknownMemberId)


def test_a_leave_lets_a_rebalance_end_that_waited_for_it() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    rejoin = coordinator.join(ids[0])
    coordinator.left(LeavingMember(ids[1]))
    assert coordinator.joined(rejoin).generation == 2
    assert TimerKey(JOIN, GROUP) not in coordinator.timers


# Failures and conversions


def test_a_new_coordinator_knows_the_last_generation_and_starts_sessions() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    coordinator.fail_over()
    assert coordinator.heartbeat(ids[0], 1) is None
    assert coordinator.synced(coordinator.sync(ids[1], 1)).assignment == ids[1].encode()
    coordinator.pass_ms(SESSION_MS)
    assert coordinator.state() is ClassicState.EMPTY


def test_members_join_again_after_a_failover_in_the_middle_of_a_rebalance() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    coordinator.join(ids[0])
    coordinator.fail_over()
    assert coordinator.state() is ClassicState.STABLE
    tokens = [coordinator.join(member_id) for member_id in ids]
    assert {coordinator.joined(token).generation for token in tokens} == {2}


def test_a_group_goes_back_to_its_record_when_an_append_fails() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    tokens = [coordinator.join(member_id) for member_id in ids]
    waiting = coordinator.sync(ids[1], 2)
    # What the leader's sync decided is not written.
    coordinator.run(classic.reset(coordinator.groups, coordinator.soft, GROUP, CoordinatorNotAvailable("disk")))
    assert isinstance(coordinator.answers[waiting], CoordinatorNotAvailable)
    assert coordinator.state() is ClassicState.STABLE
    assert {key.kind for key in coordinator.timers} == {SESSION}
    assert coordinator.heartbeat(ids[0], 1) is None
    assert isinstance(coordinator.heartbeat(ids[0], 2), IllegalGeneration)
    assert coordinator.joined(tokens[0]).generation == 2


def test_a_reset_of_a_group_that_nobody_speaks_to_does_nothing() -> None:
    coordinator = Coordinator()
    assert classic.reset(coordinator.groups, coordinator.soft, GROUP, CoordinatorNotAvailable("disk")) == ([], [], [])


def test_members_of_a_group_that_becomes_classic_join_again() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(1)
    record = coordinator.groups.classic[GROUP]
    coordinator.run(classic.take_over(coordinator.soft, record, now_ms=coordinator.now_ms))
    assert isinstance(coordinator.heartbeat(ids[0], 1), RebalanceInProgress)


def test_a_group_that_could_not_be_made_classic_keeps_the_timers_of_a_consumer_group() -> None:
    coordinator = Coordinator()
    coordinator.stable_group(1)
    record = coordinator.groups.classic.pop(GROUP)
    coordinator.groups.apply(ConsumerGroupRecord(GROUP, 1))
    coordinator.soft.live.clear()
    classic.take_over(coordinator.soft, record, now_ms=coordinator.now_ms)
    refused = CoordinatorNotAvailable("no room")
    assert classic.reset(coordinator.groups, coordinator.soft, GROUP, refused) == ([], [], [])
    assert GROUP not in coordinator.soft.live


def test_a_timer_of_what_is_gone_does_nothing() -> None:
    coordinator = Coordinator()
    for key in (TimerKey(JOIN, GROUP), TimerKey(SYNC, GROUP), TimerKey(SESSION, GROUP, "m")):
        assert classic.on_timer(coordinator.groups, coordinator.soft, key, now_ms=0) == ([], [], [])
    coordinator.stable_group(1)
    for key in (TimerKey(JOIN, GROUP), TimerKey(SYNC, GROUP), TimerKey(SESSION, GROUP, "m")):
        assert classic.on_timer(coordinator.groups, coordinator.soft, key, now_ms=0) == ([], [], [])


def test_a_classic_member_makes_an_empty_consumer_group_a_classic_one() -> None:
    coordinator = Coordinator()
    coordinator.groups.apply(ConsumerGroupRecord(GROUP, 3))
    token = coordinator.join(version=3)
    assert GROUP not in coordinator.groups.consumer
    coordinator.pass_ms(3_000)
    assert coordinator.joined(token).generation == 1


def test_a_consumer_group_with_members_is_not_touched() -> None:
    coordinator = Coordinator()
    coordinator.groups.apply(ConsumerGroupRecord(GROUP, 3))
    coordinator.groups.apply(ConsumerMemberRecord(GROUP, "m"))
    assert isinstance(coordinator.answers[coordinator.join()], InconsistentGroupProtocol)
    assert GROUP in coordinator.groups.consumer


def test_the_log_makes_the_groups_again() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2, static=True)
    coordinator.join(instance_id="i1")
    coordinator.left(LeavingMember(ids[0]))
    assert replay(coordinator.log) == coordinator.groups
