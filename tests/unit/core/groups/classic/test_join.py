"""JoinGroup, as transcripts: who gets in, when a generation is made, who leads it."""

import pytest

from barnabas.core.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from barnabas.core.groups.classic.messages import JoinedMember, Protocol
from barnabas.core.groups.classic.state import ClassicState
from barnabas.core.groups.decision import SESSION, TimerKey
from barnabas.core.groups.settings import ClassicConfig
from tests.unit.core.groups.classic.driver import GROUP, RANGE, SESSION_MS, Coordinator, subscription


def test_a_new_member_is_told_its_id_and_joins_again() -> None:
    coordinator = Coordinator()
    first = coordinator.join()
    refusal = coordinator.answers[first]
    assert isinstance(refusal, MemberIdRequired)
    assert refusal.member_id == "m1"
    second = coordinator.join("m1")
    assert second not in coordinator.answers
    coordinator.pass_ms(3_000)
    reply = coordinator.joined(second)
    assert (reply.member_id, reply.generation, reply.leader, reply.protocol) == ("m1", 1, "m1", "range")
    assert reply.members == (JoinedMember("m1", None, subscription("t")),)
    assert coordinator.state() is ClassicState.COMPLETING_REBALANCE


def test_an_old_client_is_let_in_without_knowing_its_id() -> None:
    coordinator = Coordinator()
    token = coordinator.join(version=3)
    coordinator.pass_ms(3_000)
    assert coordinator.joined(token).generation == 1


def test_an_id_that_is_not_used_in_time_is_forgotten() -> None:
    coordinator = Coordinator()
    coordinator.join()
    coordinator.pass_ms(SESSION_MS)
    assert not coordinator.soft.live
    assert isinstance(coordinator.answers[coordinator.join("m1")], UnknownMemberId)


def test_ids_are_not_given_out_without_limit() -> None:
    coordinator = Coordinator(ClassicConfig(max_pending=2))
    answers = [coordinator.answers[coordinator.join()] for _ in range(3)]
    assert [type(answer) for answer in answers] == [MemberIdRequired, MemberIdRequired, CoordinatorNotAvailable]


def test_a_static_member_need_not_come_again() -> None:
    coordinator = Coordinator()
    token = coordinator.join(instance_id="i1")
    coordinator.pass_ms(3_000)
    assert coordinator.joined(token).members[0].instance_id == "i1"


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001, -1])
def test_a_session_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    coordinator = Coordinator()
    assert isinstance(coordinator.answers[coordinator.join(session_timeout_ms=timeout_ms)], InvalidSessionTimeout)


def test_a_group_without_a_name_is_refused() -> None:
    coordinator = Coordinator()
    assert isinstance(coordinator.answers[coordinator.join(group="")], InvalidGroupId)


def test_a_member_without_protocols_is_refused_and_leaves_no_trace() -> None:
    coordinator = Coordinator()
    assert isinstance(coordinator.answers[coordinator.join(protocols=())], InconsistentGroupProtocol)
    assert isinstance(coordinator.answers[coordinator.join(protocol_type="")], InconsistentGroupProtocol)
    assert not coordinator.soft.live
    assert not coordinator.timers


def test_an_unknown_id_is_refused_where_there_is_a_group_and_where_there_is_none() -> None:
    coordinator = Coordinator()
    assert isinstance(coordinator.answers[coordinator.join("nobody")], UnknownMemberId)
    coordinator.stable_group()
    assert isinstance(coordinator.answers[coordinator.join("nobody")], UnknownMemberId)


def test_members_that_share_no_protocol_do_not_meet() -> None:
    coordinator = Coordinator()
    coordinator.stable_group()
    sticky = (Protocol("sticky", b""),)
    assert isinstance(coordinator.answers[coordinator.join(protocols=sticky)], InconsistentGroupProtocol)
    assert isinstance(coordinator.answers[coordinator.join(protocol_type="connect")], InconsistentGroupProtocol)
    assert coordinator.state() is ClassicState.STABLE


def test_the_protocol_with_most_votes_of_those_that_all_have_is_chosen() -> None:
    coordinator = Coordinator()
    a, b, c = (Protocol(name, b"") for name in "abc")
    tokens = [coordinator.join(version=3, protocols=offered) for offered in ((a, b, c), (b, a), (b, c, a))]
    coordinator.pass_ms(60_000)
    assert {coordinator.joined(token).protocol for token in tokens} == {"b"}


def test_only_the_leader_hears_of_the_members() -> None:
    coordinator = Coordinator()
    tokens = [coordinator.join(version=3) for _ in range(3)]
    coordinator.pass_ms(60_000)
    assert [len(coordinator.joined(token).members) for token in tokens] == [3, 0, 0]
    assert {coordinator.joined(token).leader for token in tokens} == {"m1"}


def test_a_new_group_waits_for_as_long_as_members_come_up_to_the_rebalance_timeout() -> None:
    coordinator = Coordinator()
    first = coordinator.join(version=3, rebalance_timeout_ms=10_000)
    for _ in range(3):
        coordinator.pass_ms(2_900)
        coordinator.join(version=3, rebalance_timeout_ms=10_000)
        assert first not in coordinator.answers
    coordinator.pass_ms(1_300)  # 10 s in all
    assert len(coordinator.joined(first).members) == 4


def test_a_new_group_waits_no_longer_when_nobody_else_comes() -> None:
    coordinator = Coordinator()
    first = coordinator.join(version=3)
    coordinator.pass_ms(2_999)
    assert first not in coordinator.answers
    coordinator.pass_ms(1)
    assert first in coordinator.answers


def test_a_join_to_a_stable_group_rebalances_it() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    newcomer = coordinator.join(version=3)
    assert coordinator.state() is ClassicState.PREPARING_REBALANCE
    assert isinstance(coordinator.heartbeat(ids[0], 1), RebalanceInProgress)
    rejoins = [coordinator.join(member_id) for member_id in ids]
    assert {coordinator.joined(token).generation for token in (newcomer, *rejoins)} == {2}
    assert len(coordinator.joined(rejoins[0]).members) == 3


def test_members_that_do_not_join_again_in_time_are_dropped() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(3)
    rejoin = coordinator.join(ids[0])
    while rejoin not in coordinator.answers:
        for silent in ids[1:]:
            coordinator.heartbeat(silent, 1)  # alive, and yet it does not join
        coordinator.pass_ms(5_000)
    assert [member.member_id for member in coordinator.joined(rejoin).members] == [ids[0]]
    assert isinstance(coordinator.heartbeat(ids[1], 1), UnknownMemberId)


def test_another_leads_when_the_leader_does_not_join_again() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    newcomer = coordinator.join(version=3)
    rejoin = coordinator.join(ids[1])
    coordinator.pass_ms(60_000)
    assert coordinator.joined(rejoin).leader == ids[1]
    assert coordinator.joined(newcomer).members == ()


def test_a_leader_that_joins_again_rebalances_a_stable_group() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    token = coordinator.join(ids[0])
    assert token not in coordinator.answers
    assert coordinator.state() is ClassicState.PREPARING_REBALANCE


def test_a_follower_that_joins_again_unchanged_hears_of_the_generation_there_is() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    reply = coordinator.joined(coordinator.join(ids[1]))
    assert (reply.generation, reply.leader, reply.members) == (1, ids[0], ())
    assert coordinator.state() is ClassicState.STABLE


def test_a_follower_that_reads_something_else_rebalances_the_group() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    coordinator.join(ids[1], protocols=(Protocol("range", subscription("t", "u")),))
    assert coordinator.state() is ClassicState.PREPARING_REBALANCE


def test_a_member_that_lost_its_answer_gets_it_again_while_assignments_are_made() -> None:
    coordinator = Coordinator()
    tokens = [coordinator.join(version=3) for _ in range(2)]
    coordinator.pass_ms(6_000)
    leader = coordinator.joined(tokens[0])
    assert coordinator.joined(coordinator.join(leader.member_id)) == leader


def test_a_changed_member_while_assignments_are_made_starts_over() -> None:
    coordinator = Coordinator()
    tokens = [coordinator.join(version=3) for _ in range(2)]
    coordinator.pass_ms(6_000)
    ids = [coordinator.joined(token).member_id for token in tokens]
    waiting = coordinator.sync(ids[1], 1)
    coordinator.join(ids[0], protocols=(Protocol("range", subscription("u")),))
    assert isinstance(coordinator.answers[waiting], RebalanceInProgress)
    assert coordinator.state() is ClassicState.PREPARING_REBALANCE


def test_a_join_that_is_sent_twice_is_answered_twice() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    first = coordinator.join(ids[0])
    second = coordinator.join(ids[0])
    assert isinstance(coordinator.answers[first], RebalanceInProgress)
    coordinator.join(ids[1])
    assert coordinator.joined(second).generation == 2


def test_a_new_member_whose_join_waits_too_long_is_dropped() -> None:
    coordinator = Coordinator(ClassicConfig(new_member_join_timeout_ms=5_000))
    ids = coordinator.stable_group(1)
    newcomer = coordinator.join(version=3)
    for _ in range(2):
        coordinator.pass_ms(2_500)
        coordinator.heartbeat(ids[0], 1)
    assert isinstance(coordinator.answers[newcomer], UnknownMemberId)


def test_a_full_group_takes_no_more() -> None:
    coordinator = Coordinator(ClassicConfig(max_size=2))
    ids = coordinator.stable_group(2)
    assert isinstance(coordinator.answers[coordinator.join()], GroupMaxSizeReached)
    assert coordinator.state() is ClassicState.STABLE
    assert coordinator.join(ids[0]) not in coordinator.answers


def test_a_full_rebalance_turns_away_who_comes_last() -> None:
    coordinator = Coordinator(ClassicConfig(max_size=2))
    tokens = [coordinator.join() for _ in range(3)]
    assert all(isinstance(coordinator.answers[token], MemberIdRequired) for token in tokens)
    joins = [coordinator.join(f"m{number}") for number in (1, 2, 3)]
    assert isinstance(coordinator.answers[joins[2]], GroupMaxSizeReached)
    assert TimerKey(SESSION, GROUP, "m3") not in coordinator.timers
    coordinator.pass_ms(6_000)
    assert len(coordinator.joined(joins[0]).members) == 2


# Static members.


def test_a_static_member_comes_back_under_a_new_id_without_a_rebalance() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2, static=True)
    reply = coordinator.joined(coordinator.join(instance_id="i1"))
    assert coordinator.state() is ClassicState.STABLE
    assert (reply.generation, reply.skip_assignment, reply.members, reply.leader) == (1, False, (), ids[0])
    assert reply.member_id != ids[1]
    assert coordinator.record().members[1].member_id == reply.member_id
    assert coordinator.synced(coordinator.sync(reply.member_id, 1)).assignment == ids[1].encode()


def test_the_old_id_of_a_static_member_is_fenced() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2, static=True)
    coordinator.join(instance_id="i1")
    assert isinstance(coordinator.heartbeat(ids[1], 1, "i1"), FencedInstanceId)
    assert isinstance(coordinator.answers[coordinator.sync(ids[1], 1, instance_id="i1")], FencedInstanceId)
    assert isinstance(coordinator.answers[coordinator.join(ids[1], "i1")], FencedInstanceId)
    assert isinstance(coordinator.heartbeat(ids[1], 1), UnknownMemberId)


def test_a_static_leader_that_comes_back_is_told_to_skip_the_assignment() -> None:
    coordinator = Coordinator()
    coordinator.stable_group(2, static=True)
    reply = coordinator.joined(coordinator.join(instance_id="i0"))
    assert (reply.skip_assignment, reply.leader, len(reply.members)) == (True, reply.member_id, 2)
    assert coordinator.record().leader == reply.member_id


def test_a_static_leader_of_an_old_version_is_told_that_its_old_id_leads() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2, static=True)
    reply = coordinator.joined(coordinator.join(instance_id="i0", version=8))
    assert (reply.skip_assignment, reply.leader, reply.members) == (False, ids[0], ())


def test_a_static_member_that_owns_something_by_now_still_keeps_its_place() -> None:
    coordinator = Coordinator()
    coordinator.stable_group(2, static=True)
    other_bytes = (Protocol("range", subscription("t") + b"owned"),)
    coordinator.joined(coordinator.join(instance_id="i1", protocols=other_bytes))
    assert coordinator.record().members[1].subscription == other_bytes[0].metadata


def test_a_static_member_that_reads_something_else_rebalances_the_group() -> None:
    coordinator = Coordinator()
    coordinator.stable_group(2, static=True)
    token = coordinator.join(instance_id="i1", protocols=(Protocol("range", subscription("u")),))
    assert token not in coordinator.answers
    assert coordinator.state() is ClassicState.PREPARING_REBALANCE


def test_a_static_member_that_comes_back_while_assignments_are_made_starts_over() -> None:
    coordinator = Coordinator()
    tokens = [coordinator.join(instance_id=f"i{number}") for number in range(2)]
    coordinator.pass_ms(6_000)
    ids = [coordinator.joined(token).member_id for token in tokens]
    waiting = coordinator.sync(ids[1], 1, instance_id="i1")
    coordinator.join(instance_id="i1")
    assert isinstance(coordinator.answers[waiting], FencedInstanceId)
    assert coordinator.state() is ClassicState.PREPARING_REBALANCE


def test_a_static_member_that_comes_back_while_its_join_waits_takes_its_place() -> None:
    coordinator = Coordinator()
    old = coordinator.join(instance_id="i1")
    new = coordinator.join(instance_id="i1")
    assert isinstance(coordinator.answers[old], FencedInstanceId)
    coordinator.pass_ms(3_000)
    assert len(coordinator.joined(new).members) == 1


def test_a_static_member_finds_its_place_in_a_full_group() -> None:
    coordinator = Coordinator(ClassicConfig(max_size=2))
    coordinator.stable_group(2, static=True)
    assert coordinator.joined(coordinator.join(instance_id="i1")).generation == 1


def test_a_static_member_that_does_not_join_again_stays_in_the_generation() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2, static=True)
    rejoin = coordinator.join(ids[0], "i0", rebalance_timeout_ms=6_000)
    coordinator.heartbeat(ids[1], 1, "i1")
    while rejoin not in coordinator.answers:
        coordinator.pass_ms(4_000)
        coordinator.heartbeat(ids[1], 1, "i1")
    assert [member.member_id for member in coordinator.joined(rejoin).members] == ids


def test_another_leads_while_a_static_leader_is_away() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2, static=True)
    changed = (Protocol("range", subscription("u")),)
    rejoin = coordinator.join(ids[1], "i1", protocols=changed, rebalance_timeout_ms=6_000)
    while rejoin not in coordinator.answers:
        coordinator.heartbeat(ids[0], 1, "i0")  # alive, and yet it does not join
        coordinator.pass_ms(5_000)
    reply = coordinator.joined(rejoin)
    assert (reply.leader, [member.member_id for member in reply.members]) == (ids[1], ids)


def test_a_group_of_absent_static_members_waits_for_their_sessions_to_end() -> None:
    coordinator = Coordinator()
    coordinator.stable_group(3, static=True)
    other = (Protocol("range", subscription("u")),)
    token = coordinator.join(instance_id="i2", protocols=other)
    while token not in coordinator.answers:
        coordinator.fire_next()
    assert [member.instance_id for member in coordinator.joined(token).members] == ["i2"]


def test_an_id_given_to_a_dynamic_member_is_not_one_of_a_static_member() -> None:
    coordinator = Coordinator()
    coordinator.join()
    assert isinstance(coordinator.answers[coordinator.join("m1", "i1")], UnknownMemberId)


def test_protocols_named_twice_count_once() -> None:
    coordinator = Coordinator()
    token = coordinator.join(version=3, protocols=RANGE * 2)
    coordinator.join(version=3, protocols=(Protocol("sticky", b""), *RANGE))
    coordinator.pass_ms(6_000)
    assert coordinator.joined(token).protocol == "range"
