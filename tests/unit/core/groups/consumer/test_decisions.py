"""Consumer groups (KIP-848), rule by rule: transcripts of members and their coordinator."""

import pytest

from barnabas.core.coordination import SetTimer
from barnabas.core.errors import (
    BarnabasError,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRegularExpression,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from barnabas.core.groups.consumer.assignors import TopicInfo
from barnabas.core.groups.consumer.decisions import timers_after_load
from barnabas.core.groups.consumer.describe import ConsumerGroupState, describe, state_of
from barnabas.core.groups.consumer.state import ConsumerGroup, MemberState, group_tombstones
from barnabas.core.groups.decision import REBALANCE, REGEX, SESSION, TimerKey
from barnabas.core.groups.records import ConsumerTargetMemberRecord
from barnabas.core.groups.settings import ConsumerConfig
from tests.unit.core.groups.consumer.world import GROUP, World, held, join_request, topic_id, topics


def world(**counts: int) -> World:
    return World(topics(**(counts or {"orders": 4})))


# Joining and staying.


def test_the_first_member_gets_everything_at_once() -> None:
    reply = world(orders=3).join("a", "orders")
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("a", 1, 5_000)
    assert reply.assignment == held(orders=(0, 1, 2))


def test_a_member_without_an_id_is_given_one_where_the_version_has_it_so() -> None:
    assert world().join("", "orders", names_itself=False).member_id == "made-by-server"
    with pytest.raises(InvalidRequest, match="MemberId can't be empty"):
        world().join("", "orders")


def test_an_assignment_is_told_once_and_again_when_all_is_said_again() -> None:
    group = world(orders=2)
    group.join("a", "orders")
    assert group.beat("a", 1).assignment is None
    again = group.beat("a", 1, topics=("orders",), rebalance_timeout_ms=10_000, owned=held(orders=(0, 1)))
    assert again.assignment == held(orders=(0, 1))


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    group = world()
    group.join("a", "orders")
    written = len(group.log)
    group.beat("a", 1)
    group.beat("a", 1, topics=("orders",))
    assert len(group.log) == written


def test_a_member_that_joins_again_in_epoch_0_is_given_all_it_has() -> None:
    group = world(orders=2)
    group.join("a", "orders")
    reply = group.join("a", "orders")
    assert (reply.member_epoch, reply.assignment) == (1, held(orders=(0, 1)))


def test_a_subscription_to_what_is_not_there_is_kept_until_it_is() -> None:
    group = world(orders=1)
    assert group.join("a", "nowhere").assignment == ()
    group.set_topics(topics(orders=1, nowhere=2))
    reply = group.beat("a", 1)
    assert (reply.member_epoch, reply.assignment) == (2, held(nowhere=(0, 1)))


# Handing over.


def test_a_partition_is_given_to_a_new_owner_only_after_the_old_one_released_it() -> None:
    group = world(orders=4)
    group.join("a", "orders")
    newcomer = group.join("b", "orders")
    assert (newcomer.member_epoch, newcomer.assignment) == (2, ())
    assert group.group.current_of("b").state == MemberState.UNRELEASED_PARTITIONS

    told = group.beat("a", 1)  # to give up two
    assert (told.member_epoch, told.assignment) == (1, held(orders=(0, 1)))
    assert group.group.current_of("a").state == MemberState.UNREVOKED_PARTITIONS
    assert group.beat("b", 2).assignment is None

    done = group.beat("a", 1, owned=held(orders=(0, 1)))
    assert done.member_epoch == 2
    reply = group.beat("b", 2)
    assert (reply.member_epoch, reply.assignment) == (2, held(orders=(2, 3)))
    assert state_of(group.group) is ConsumerGroupState.STABLE


def test_a_member_that_still_owns_what_it_is_to_give_up_stays_in_its_epoch() -> None:
    group = world(orders=4)
    group.join("a", "orders")
    group.join("b", "orders")
    for owned in (None, held(orders=(0, 1, 2, 3)), held(orders=(0, 1, 2))):
        assert group.beat("a", 1, owned=owned).member_epoch == 1
    assert group.beat("a", 1, owned=held(orders=(0, 1))).member_epoch == 2


def test_a_member_that_does_not_revoke_in_time_is_fenced() -> None:
    group = world(orders=4)
    group.join("a", "orders")
    group.join("b", "orders")
    group.beat("a", 1)
    assert group.has_timer(REBALANCE, "a")
    assert group.advance(10_000) == [TimerKey(REBALANCE, GROUP, "a")]
    with pytest.raises(UnknownMemberId):
        group.beat("a", 1)
    assert group.beat("b", 2).assignment == held(orders=(0, 1, 2, 3))


def test_a_member_that_revoked_in_time_is_not_fenced() -> None:
    group = world(orders=4)
    group.join("a", "orders")
    group.join("b", "orders")
    group.beat("a", 1)
    group.beat("a", 1, owned=held(orders=(0, 1)))
    assert not group.has_timer(REBALANCE, "a")
    assert group.advance(10_000) == []


def test_a_member_that_is_not_heard_of_is_fenced_and_its_partitions_are_free() -> None:
    group = world(orders=2)
    group.join("a", "orders")
    group.advance(30_000)
    group.join("b", "orders")
    assert group.advance(15_000) == [TimerKey(SESSION, GROUP, "a")]
    assert group.beat("b", 2).assignment == held(orders=(0, 1))


def test_each_heartbeat_starts_the_session_over() -> None:
    group = world()
    group.join("a", "orders")
    group.advance(44_999)
    group.beat("a", 1)
    assert group.advance(44_999) == []


# Leaving.


def test_what_a_leaver_had_is_dealt_out() -> None:
    group = world(orders=2)
    group.join("a", "orders")
    group.join("b", "orders")
    left = group.beat("a", -1)
    assert (left.member_id, left.member_epoch) == ("a", -1)
    assert not group.has_timer(SESSION, "a")
    assert group.beat("b", 2).assignment == held(orders=(0, 1))


def test_the_last_one_leaves_an_empty_group_with_its_epochs() -> None:
    group = world()
    group.join("a", "orders")
    group.beat("a", -1)
    assert state_of(group.group) is ConsumerGroupState.EMPTY
    assert (group.group.epoch, group.group.target_epoch) == (2, 2)
    assert group.join("b", "orders").member_epoch == 3


def test_a_group_that_is_removed_is_gone() -> None:
    group = world()
    group.join("a", regex="o.*", topics=None)
    for tombstone in group_tombstones(group.group):
        group.groups.apply(tombstone)
    assert GROUP not in group.groups.consumer


@pytest.mark.parametrize("epoch", [-1, 3])
def test_who_is_unknown_can_neither_leave_nor_stay(epoch: int) -> None:
    group = world()
    with pytest.raises(GroupIdNotFound):
        group.beat("a", epoch)
    group.join("a", "orders")
    with pytest.raises(UnknownMemberId):
        group.beat("b", epoch)


# Epochs.


def test_an_epoch_that_was_never_given_is_fenced() -> None:
    group = world()
    group.join("a", "orders")
    with pytest.raises(FencedMemberEpoch, match="greater"):
        group.beat("a", 2)


def test_the_epoch_before_is_taken_when_the_answer_may_be_lost() -> None:
    group = world(orders=2)
    group.join("a", "orders")
    group.set_topics(topics(orders=4))
    assert group.beat("a", 1).member_epoch == 2  # lost on the way
    retry = group.beat("a", 1, owned=held(orders=(0, 1)), topics=("orders",), rebalance_timeout_ms=10_000)
    assert (retry.member_epoch, retry.assignment) == (2, held(orders=(0, 1, 2, 3)))


def test_the_epoch_before_is_fenced_when_the_member_may_own_what_is_not_its() -> None:
    group = world(orders=2)
    group.join("a", "orders")
    group.set_topics(topics(orders=4))
    group.beat("a", 1)
    for owned in (None, held(orders=(0, 7))):
        with pytest.raises(FencedMemberEpoch, match="smaller"):
            group.beat("a", 1, owned=owned)


# Subscriptions.


def test_a_topic_that_is_no_longer_read_is_given_up_and_another_is_given() -> None:
    group = world(orders=1, bills=2)
    group.join("a", "orders")
    told = group.beat("a", 1, topics=("bills",))
    assert (told.member_epoch, told.assignment) == (1, ())
    done = group.beat("a", 1, owned=())
    assert (done.member_epoch, done.assignment) == (2, held(bills=(0, 1)))


def test_members_may_read_different_topics() -> None:
    group = world(orders=2, bills=2)
    assert group.join("a", "orders").assignment == held(orders=(0, 1))
    assert group.join("b", "bills").assignment == held(bills=(0, 1))


def test_a_topic_that_grows_or_goes_is_a_new_epoch_and_others_are_not() -> None:
    group = world(orders=1)
    group.join("a", "orders")
    group.set_topics(topics(orders=1, other=5))
    assert group.group.epoch == 1
    group.set_topics(topics(orders=2))
    assert group.beat("a", 1).assignment == held(orders=(0, 1))
    group.set_topics({})
    assert group.beat("a", 2).assignment == ()
    assert group.beat("a", 2, owned=()).member_epoch == 3


def test_a_topic_that_was_made_anew_is_another_topic() -> None:
    group = world(orders=1)
    group.join("a", "orders")
    group.set_topics({"orders": TopicInfo(topic_id("orders2"), 1)})
    assert group.group.epoch == 2


def test_racks_that_change_are_a_new_epoch() -> None:
    group = world(orders=1)
    group.join("a", "orders")
    group.set_topics({"orders": TopicInfo(topic_id("orders"), 1, [("r",)])})
    assert group.group.epoch == 2


def test_a_member_that_moves_to_another_rack_is_a_new_epoch_and_is_assigned_what_is_near() -> None:
    group = world()
    group.set_topics({"orders": TopicInfo(topic_id("orders"), 3, [("r1",), ("r2",), ("r2",)])})
    group.join("a", "orders", rack="r1")
    group.join("b", "orders")
    epoch = group.group.epoch
    reply = group.join("b", "orders", rack="r2")
    assert group.group.epoch == epoch + 1
    assert reply.member_epoch == group.group.epoch
    assert group.group.target_of("a") == held(orders=(0,))
    assert group.group.target_of("b") == held(orders=(1, 2))


# Regular expressions.


def test_an_expression_is_matched_after_the_heartbeat_that_brings_it() -> None:
    group = World(topics(order=1, bill=1, other=1))
    reply = group.join("a", "bill", regex="ord.*")
    assert (reply.member_epoch, reply.assignment) == (1, held(bill=(0,)))
    assert group.advance(0) == [TimerKey(REGEX, GROUP)]
    assert (group.group.epoch, group.group.target_epoch) == (2, 1)
    reply = group.beat("a", 1)
    assert (reply.member_epoch, reply.assignment) == (2, held(order=(0,), bill=(0,)))
    assert group.advance(0) == []


def test_an_expression_reads_what_it_matches_and_what_comes_to_match() -> None:
    group = World(topics(order_a=1, order_b=1, bill=1))
    reply = group.join("a", regex="order_.*", topics=None)
    assert (reply.member_epoch, reply.assignment) == (1, ())
    group.advance(0)
    assert group.beat("a", 1).assignment == held(order_a=(0,), order_b=(0,))
    group.set_topics(topics(order_a=1, order_b=1, order_c=1, bill=1))
    assert group.beat("a", 2).assignment == held(order_a=(0,), order_b=(0,), order_c=(0,))


def test_an_expression_that_matches_nothing_moves_nobody() -> None:
    group = World(topics(order=1, bill=1))
    group.join("a", "order", regex="none.*")
    group.advance(0)
    assert group.group.epoch == 1
    assert group.group.regexes["none.*"].topics == ()


def test_somebody_who_brings_a_new_expression_moves_nobody_before_it_is_matched() -> None:
    group = World(topics(order=2, bill=1))
    group.join("a", "order")
    reply = group.join("b", regex="ord.*", topics=None)
    assert (reply.member_epoch, reply.assignment, group.group.epoch) == (1, (), 1)
    group.advance(0)
    assert group.group.epoch == 2
    group.beat("b", 1)
    assert group.group.target_of("b") == held(order=(1,))


def test_an_expression_that_is_known_is_read_at_once() -> None:
    group = World(topics(order=2))
    group.join("a", regex="ord.*", topics=None)
    group.advance(0)
    group.beat("a", 1)
    group.join("b", regex="ord.*", topics=None)
    assert group.group.epoch == 3
    assert group.group.target_of("b") == held(order=(1,))
    assert not group.has_timer(REGEX, "")


def test_an_expression_that_was_not_matched_before_a_restart_is_matched_after_it() -> None:
    group = World(topics(order=1))
    group.join("a", regex="ord.*", topics=None)
    again = group.replay().consumer[GROUP]
    assert SetTimer(TimerKey(REGEX, GROUP), 0) in timers_after_load(again, group.config)
    group.advance(0)
    again = group.replay().consumer[GROUP]
    assert SetTimer(TimerKey(REGEX, GROUP), 0) not in timers_after_load(again, group.config)


def test_an_expression_is_taken_back_by_an_empty_one() -> None:
    group = World(topics(order=1, bill=1))
    group.join("a", "bill", regex="ord.*")
    group.advance(0)
    group.beat("a", 1)
    group.beat("a", 2, regex="")
    assert group.group.regexes == {}
    assert group.beat("a", 2, owned=held(bill=(0,))).member_epoch == 3


def test_an_expression_is_replaced_by_another() -> None:
    group = World(topics(order=1, bill=1))
    group.join("a", regex="ord.*", topics=None)
    group.advance(0)
    assert group.beat("a", 1).assignment == held(order=(0,))
    assert group.beat("a", 2, regex="bil.*", owned=held(order=(0,))).assignment == ()
    assert group.group.regexes == {}
    group.advance(0)
    reply = group.beat("a", 2, owned=())
    assert (reply.member_epoch, reply.assignment) == (3, held(bill=(0,)))


def test_an_expression_that_was_taken_back_meanwhile_is_not_matched() -> None:
    group = World(topics(order=1, bill=1))
    group.join("a", "bill", regex="ord.*")
    group.beat("a", 1, regex="")
    group.advance(0)
    assert group.group.regexes == {}


def test_an_expression_is_kept_while_somebody_has_it() -> None:
    group = World(topics(order=1))
    group.join("a", regex="ord.*", topics=None)
    group.join("b", regex="ord.*", topics=None)
    group.advance(0)
    group.beat("a", -1)
    assert list(group.group.regexes) == ["ord.*"]
    group.beat("b", -1)
    assert group.group.regexes == {}


def test_an_expression_that_is_none_is_refused_and_changes_nothing() -> None:
    group = world()
    with pytest.raises(InvalidRegularExpression):
        group.join("a", regex="(a", topics=None)
    assert group.log == []
    group.join("a", "orders")
    with pytest.raises(InvalidRegularExpression):
        group.beat("a", 1, regex="(?=a)")


# Static members.


def test_a_static_member_that_comes_back_has_what_it_had_and_nobody_else_hears_of_it() -> None:
    group = world(orders=2)
    group.join("a", "orders", instance_id="i")
    group.join("b", "orders")
    group.beat("a", 1)
    group.beat("a", 1, owned=held(orders=(0,)))
    group.beat("b", 2)
    assert group.beat("a", -2, instance_id="i").member_epoch == -2
    assert group.beat("b", 2).assignment is None

    back = group.join("a2", "orders", instance_id="i")
    assert (back.member_epoch, back.assignment) == (2, held(orders=(0,)))
    assert group.group.epoch == 2
    assert sorted(group.group.members) == ["a2", "b"]


def test_a_static_member_that_does_not_come_back_in_its_session_is_fenced() -> None:
    group = world(orders=2)
    group.join("a", "orders", instance_id="i")
    group.beat("a", -2, instance_id="i")
    group.join("b", "orders")
    assert group.beat("b", 2).assignment is None
    group.advance(44_000)
    group.beat("b", 2)
    group.advance(1_000)
    assert group.beat("b", 2).assignment == held(orders=(0, 1))


def test_an_instance_id_is_not_taken_from_one_that_has_not_left() -> None:
    group = world()
    group.join("a", "orders", instance_id="i")
    with pytest.raises(UnreleasedInstanceId):
        group.join("b", "orders", instance_id="i")


def test_the_same_static_member_may_join_again() -> None:
    group = world(orders=1)
    group.join("a", "orders", instance_id="i")
    assert group.join("a", "orders", instance_id="i").assignment == held(orders=(0,))


def test_one_that_was_replaced_is_fenced() -> None:
    group = world()
    group.join("a", "orders", instance_id="i")
    group.beat("a", -2, instance_id="i")
    group.join("b", "orders", instance_id="i")
    for epoch in (1, -1, -2):
        with pytest.raises(FencedInstanceId):
            group.beat("a", epoch, instance_id="i")
    with pytest.raises(UnknownMemberId):
        group.beat("a", 1, instance_id="j")


def test_a_static_member_may_leave_for_good() -> None:
    group = world()
    group.join("a", "orders", instance_id="i")
    group.beat("a", -1, instance_id="i")
    assert group.group.members == {}
    assert group.group.static_members == {}


# Refusals of what no group takes.


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided"),
        ({"owned": None}, "TopicPartitions must be empty"),
        ({"owned": held(orders=(0,))}, "TopicPartitions must be empty"),
        ({"topics": None}, "Either SubscribedTopicNames or SubscribedTopicRegex"),
        ({"instance_id": ""}, "InstanceId can't be empty"),
        ({"rack": " "}, "RackId can't be empty"),
    ],
)
def test_a_join_that_lacks_something_is_refused(fields: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        world().join("a", **fields)


@pytest.mark.parametrize(("epoch", "member_id"), [(-3, "a"), (-2, "a"), (1, ""), (-1, "")])
def test_a_heartbeat_that_cannot_be_is_refused(epoch: int, member_id: str) -> None:
    with pytest.raises(InvalidRequest):
        world().beat(member_id, epoch, names_itself=False)


def test_an_assignor_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnsupportedAssignor, match="Supported assignors: uniform, range"):
        world().join("a", "orders", assignor="sticky")


def test_a_full_group_takes_only_those_it_knows() -> None:
    group = World(topics(orders=1), ConsumerConfig(max_size=1))
    group.join("a", "orders", instance_id="i")
    with pytest.raises(GroupMaxSizeReached):
        group.join("b", "orders")
    group.join("a", "orders")
    group.beat("a", -2, instance_id="i")
    group.join("b", "orders", instance_id="i")


# Assignors.


def test_the_assignor_that_most_ask_for_is_used_and_another_is_a_new_epoch() -> None:
    group = world(orders=2, bills=2)
    group.join("a", "orders", "bills")
    group.join("b", "orders", "bills", assignor="range")
    assert describe(group.group, group.config).assignor == "range"
    assert group.group.target_of("a") == held(orders=(0,), bills=(0,))
    epoch = group.group.epoch
    group.beat("a", group.group.current_of("a").epoch, assignor="uniform", owned=held(orders=(0,), bills=(0,)))
    assert group.group.epoch == epoch  # a tie stays with the first name
    assert describe(group.group, group.config).assignor == "range"


def test_a_large_group_gets_a_target_once_in_an_interval() -> None:
    group = World(topics(orders=4), ConsumerConfig(large_group_members=2))
    group.join("a", "orders")
    group.join("b", "orders")
    assert (group.group.epoch, group.group.target_epoch) == (2, 1)
    assert state_of(group.group) is ConsumerGroupState.ASSIGNING
    group.advance(1_000)
    group.beat("a", 1)
    assert group.group.target_epoch == 2
    targets = [entry for entry in group.log if isinstance(entry, ConsumerTargetMemberRecord)]
    assert [target.member_id for target in targets] == ["a", "a", "b"]


# Seen from outside.


def test_a_description_has_what_a_member_has_and_is_to_have() -> None:
    group = world(orders=4)
    group.join("a", "orders", rack="r", client_id="c")
    group.join("b", "orders", instance_id="i")
    group.beat("a", 1)
    described = describe(group.group, group.config)
    a, b = described.members
    assert (described.state.value, described.epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    assert (described.assignor, a.rack, a.client_id, a.client_host) == ("uniform", "r", "", "/h")
    assert a.assignment == held(orders=(0, 1, 2, 3))
    assert (a.target, a.epoch, a.topics) == (held(orders=(0, 1)), 1, ("orders",))
    assert (b.assignment, b.target, b.instance_id, b.is_classic) == ((), held(orders=(2, 3)), "i", False)


def test_a_group_that_was_loaded_gives_everybody_its_time_again() -> None:
    group = world(orders=4)
    group.join("a", "orders")
    group.join("b", "orders")
    group.beat("a", 1)
    timers = timers_after_load(group.replay().consumer[GROUP], group.config)
    assert [timer.key for timer in timers] == [
        TimerKey(SESSION, GROUP, "a"),
        TimerKey(REBALANCE, GROUP, "a"),
        TimerKey(SESSION, GROUP, "b"),
    ]


def test_records_may_come_in_any_order_that_compaction_leaves() -> None:
    group = world(orders=4, bills=1)
    group.join("a", "orders", instance_id="i")
    group.join("b", "orders", regex="b.*")
    group.advance(0)
    group.beat("a", 1)
    group.beat("a", 1, owned=held(orders=(0, 1)))
    group.beat("b", 2)
    again = ConsumerGroup(GROUP)
    for record in reversed(list(group.group.to_records())):
        again.apply(record)
    assert again == group.group


def test_a_timer_of_one_that_is_gone_changes_nothing() -> None:
    group = world()
    group.join("a", "orders")
    group.join("b", "orders")
    written = len(group.log)
    group.timers = {TimerKey(REBALANCE, GROUP, "a"): 0, TimerKey(SESSION, GROUP, "gone"): 0}
    group.advance(1)
    assert len(group.log) == written


def test_a_refused_request_leaves_the_group_as_it_was() -> None:
    group = world()
    group.join("a", "orders")
    before = group.group.copy()
    for request in (join_request("b", regex="(", topics=None), join_request("b", "orders", assignor="none")):
        with pytest.raises(BarnabasError):
            group.heartbeat(request)
    assert group.group == before
