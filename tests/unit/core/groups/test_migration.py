"""Groups that change from the classic protocol to the consumer protocol and back while their members are at work."""

import pytest

from barnabas.core.errors import (
    BarnabasError,
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from barnabas.core.groups.classic import decisions as classic
from barnabas.core.groups.classic.messages import JoinReply, JoinRequest, LeaveRequest, LeavingMember
from barnabas.core.groups.classic.state import ClassicState
from barnabas.core.groups.consumer import classic_members
from barnabas.core.groups.consumer.decisions import on_timer
from barnabas.core.groups.consumer.describe import describe
from barnabas.core.groups.decision import JOIN, SESSION, SYNC, TimerKey
from barnabas.core.groups.embedded import (
    EmbeddedAssignment,
    Subscription,
    build_assignment,
    build_subscription,
    parse_assignment,
)
from barnabas.core.groups.migration import MAX_UPGRADED_BYTES, downgraded_to
from barnabas.core.groups.records import ClassicProtocol
from barnabas.core.groups.settings import ConsumerConfig
from tests.unit.core.groups.classic.driver import Ticket
from tests.unit.core.groups.consumer.world import GROUP, held, topics
from tests.unit.core.groups.migration_town import Town, town_with_classic_group

# Up.


def test_a_classic_group_becomes_a_consumer_group_when_a_new_member_joins_it() -> None:
    town = town_with_classic_group()
    reply = town.join("n", "orders")
    assert (reply.member_epoch, reply.assignment) == (2, ())
    assert GROUP not in town.groups.classic
    group = town.group
    assert (group.epoch, group.target_epoch) == (2, 2)
    assert group.current_of("a").assigned == held(orders=(0, 1))
    assert group.current_of("a").epoch == 1
    assert [member.is_classic for member in describe(group, town.config).members] == [True, True, False]
    assert town.has_timer(SESSION, "a")


def test_classic_members_hand_over_by_joining_again() -> None:
    town = town_with_classic_group()
    town.join("n", "orders")
    giver = next(member_id for member_id in ("a", "b") if len(town.group.target_of(member_id)[0].partitions) == 1)
    had = town.group.current_of(giver).assigned[0].partitions

    assert isinstance(town.classic_beat(giver, 1), RebalanceInProgress)
    told = town.classic_join(giver, "orders", owned={"orders": had})
    assert isinstance(told, JoinReply)
    assert told.generation == 1  # it has to give one up first
    kept = town.classic_sync(giver, 1)
    assert isinstance(kept, dict)
    assert len(kept["orders"]) == 1

    done = town.classic_join(giver, "orders", owned=kept)
    assert isinstance(done, JoinReply)
    assert (done.generation, done.protocol, done.leader, done.members) == (2, "range", "", ())
    assert town.classic_sync(giver, 2) == kept
    assert town.classic_beat(giver, 2) is None
    reply = town.beat("n", 2)
    assert reply.assignment is not None
    assert set(had) - set(kept["orders"]) == set(reply.assignment[0].partitions)


def test_a_member_of_the_eager_kind_has_given_up_all_when_it_joins() -> None:
    town = town_with_classic_group()
    town.join("n", "orders")
    reply = town.classic_join("a", "orders", protocols=(ClassicProtocol("range", subscription_v0("orders")),))
    assert isinstance(reply, JoinReply)
    assert reply.generation == 2


def test_an_upgrade_refuses_what_waits_and_the_members_join_again() -> None:
    town = Town()
    town.classic_join("a", "orders")  # waits for the first rebalance
    assert town.answers == {}
    town.join("n", "orders")
    assert isinstance(town.answers["a"], RebalanceInProgress)
    assert not town.has_timer(JOIN, "")
    reply = town.classic_join("a", "orders")
    assert isinstance(reply, JoinReply)


def test_an_empty_classic_group_is_replaced() -> None:
    town = Town()
    town.stable_classic_group(a=(0, 1, 2, 3))
    left = LeaveRequest(group=GROUP, members=(LeavingMember("a"),))
    town.take_outcome(classic.leave(town.groups, town.soft, left, token=Ticket("leave"), now_ms=town.now_ms))
    assert town.join("n", "orders").assignment == held(orders=(0, 1, 2, 3))
    assert GROUP not in town.groups.classic


def test_a_partition_that_a_client_assigned_twice_has_one_owner_after_the_upgrade() -> None:
    town = Town()
    town.stable_classic_group(a=(0, 1, 2, 3), b=(2, 3))
    town.join("n", "orders")
    assert town.group.current_of("b").assigned == ()


def test_topics_that_are_gone_are_not_taken_along() -> None:
    town = town_with_classic_group()
    town.topics = {}
    town.join("n", "orders")
    assert town.group.current_of("a").assigned == ()


def test_a_group_that_cannot_be_upgraded_is_refused_and_stays() -> None:
    disabled = Town(ConsumerConfig(upgrades=False))
    disabled.stable_classic_group(a=(0,))
    small = Town(ConsumerConfig(max_size=1))
    small.stable_classic_group(a=(0,), b=(1,))
    other = Town()
    other.classic_join("a", "orders", protocol_type="connect")
    broken = Town()
    broken.classic_join("a", protocols=(ClassicProtocol("range", b"\x00"),))
    large = Town()
    large.classic_join("a", protocols=(ClassicProtocol("range", bytes(MAX_UPGRADED_BYTES + 1)),))
    for town in (disabled, small, other, broken, large):
        with pytest.raises(GroupIdNotFound, match="Cannot upgrade"):
            town.join("n", "orders")
        assert GROUP not in town.groups.consumer
    with pytest.raises(GroupIdNotFound, match="is not a consumer group"):
        other.beat("n", 3)


def test_an_assignor_with_data_of_its_own_is_not_upgraded() -> None:
    town = town_with_classic_group()
    live = classic.find(town.groups, town.soft, GROUP)
    assert live is not None
    live.members["a"].assignment = build_assignment(EmbeddedAssignment(1, {"orders": (0,)}, b"mine"))
    with pytest.raises(GroupIdNotFound, match="custom assignor"):
        town.join("n", "orders")


# Classic members in a consumer group.


def consumer_town(**fields: bool) -> Town:
    town = Town(ConsumerConfig(**fields))  # type: ignore[arg-type]
    town.join("n", "orders")
    return town


def subscription_v0(*names: str) -> bytes:
    return build_subscription(Subscription(0, names))


def new_join(instance_id: str | None) -> JoinRequest:
    return JoinRequest(
        group=GROUP,
        instance_id=instance_id,
        session_timeout_ms=20_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(ClassicProtocol("range", subscription_v0("orders")),),
    )


def test_a_classic_member_joins_a_consumer_group_and_is_told_its_id_first() -> None:
    town = consumer_town()
    request = new_join(None)
    with pytest.raises(MemberIdRequired) as refusal:
        town.join_consumer(request, "c")
    assert refusal.value.member_id == "c"
    reply = town.classic_join("c", "orders")
    assert isinstance(reply, JoinReply)
    assert reply.generation == 2
    assert town.classic_sync("c", 2) == {}
    assert town.classic_beat("c", 2) is None  # waits for the other to give up its share
    town.beat("n", 1)
    town.beat("n", 1, owned=held(orders=(0, 1)))
    assert isinstance(town.classic_beat("c", 2), RebalanceInProgress)
    town.classic_join("c", "orders")
    assert town.classic_sync("c", 2) == {"orders": (2, 3)}


def test_a_classic_member_that_does_not_join_again_in_time_is_fenced() -> None:
    town = consumer_town()
    town.classic_join("c", "orders")
    town.classic_sync("c", 2)
    town.set_topics(topics(orders=8))
    assert isinstance(town.classic_beat("c", 2), BarnabasError)
    town.advance(6_000)
    assert isinstance(town.classic_beat("c", 2), BarnabasError)  # does not start its time over
    assert TimerKey(JOIN, GROUP, "c") in town.advance(6_000)
    assert "c" not in town.group.members


def test_a_classic_member_that_does_not_sync_in_time_is_fenced() -> None:
    town = consumer_town()
    town.classic_join("c", "orders")
    assert town.advance(10_000) == [TimerKey(SYNC, GROUP, "c")]
    with pytest.raises(UnknownMemberId):
        town.classic_beat("c", 2)


def test_a_classic_member_out_of_step_is_told_so() -> None:
    town = consumer_town()
    town.classic_join("c", "orders")
    with pytest.raises(IllegalGeneration):
        town.classic_beat("c", 1)
    with pytest.raises(IllegalGeneration):
        town.classic_sync("c", 3)
    with pytest.raises(UnknownMemberId, match="does not use the classic protocol"):
        town.classic_beat("n", 1)
    town.set_topics(topics(orders=8))
    town.beat("n", 1)
    assert isinstance(town.classic_sync("c", 2), RebalanceInProgress)


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect"},
        {"protocols": ()},
        {"protocols": (ClassicProtocol("range", b"\x00\x00\x00\x00"),)},
        {"protocols": (ClassicProtocol("sticky", subscription_v0("orders")),)},
    ],
)
def test_a_classic_member_that_does_not_fit_is_refused(fields: dict[str, object]) -> None:
    town = consumer_town()
    town.classic_join("c", "orders")
    with pytest.raises(InconsistentGroupProtocol):
        town.classic_join("d", "orders", **fields)


def test_no_classic_member_joins_where_migration_is_off() -> None:
    with pytest.raises(InconsistentGroupProtocol, match="disabled"):
        consumer_town(upgrades=False, downgrades=False).classic_join("c", "orders")


def test_a_classic_member_that_comes_with_the_new_protocol_goes_on_where_it_was() -> None:
    town = consumer_town(downgrades=False)
    town.join_consumer(new_join("i"), "c")
    town.classic_sync("c", town.group.current_of("c").epoch)
    assert town.group.members["c"].classic is not None
    reply = town.join("c2", "orders", instance_id="i")
    assert town.group.members["c2"].classic is None
    assert reply.member_epoch == town.group.epoch
    assert "c" not in town.group.members


# Down.


def test_a_group_is_classic_again_when_the_last_new_member_leaves() -> None:
    town = town_with_classic_group()
    town.join("n", "orders")
    town.beat("n", -1)
    assert GROUP not in town.groups.consumer
    record = town.groups.classic[GROUP]
    assert (record.protocol_type, record.protocol, record.generation) == ("consumer", "range", 2)
    assert [member.member_id for member in record.members] == ["a", "b"]
    live = classic.find(town.groups, town.soft, GROUP)
    assert live is not None
    assert live.state is ClassicState.PREPARING_REBALANCE  # what the leaver had is dealt out
    assert town.has_timer(SESSION, "a")
    assert town.replay() == town.groups


def test_a_group_is_classic_again_when_the_last_new_member_expires() -> None:
    town = town_with_classic_group()
    town.join("n", "orders")
    decision = on_timer(town.group, TimerKey(SESSION, GROUP, "n"), now_ms=0, topics=town.topics, config=town.config)
    assert downgraded_to(decision) is not None


def test_a_group_is_classic_again_when_the_last_new_member_is_replaced_by_a_classic_one() -> None:
    town = Town()
    town.join("n", "orders", instance_id="i")
    reply = town.join_consumer(new_join("i"), "c")
    assert reply.member_id == "c"
    record = town.groups.classic[GROUP]
    assert record.generation == reply.generation
    assert parse_assignment(record.members[0].assignment).partitions == {"orders": (0, 1, 2, 3)}
    assert town.replay() == town.groups


def test_a_group_stays_when_new_members_remain_or_downgrades_are_off() -> None:
    town = consumer_town()
    town.classic_join("c", "orders")
    town.join("n2", "orders")
    town.beat("n", -1)
    assert sorted(town.group.members) == ["c", "n2"]
    off = consumer_town(downgrades=False)
    off.classic_join("c", "orders")
    off.beat("n", -1)
    assert sorted(off.group.members) == ["c"]
    assert isinstance(off.classic_beat("c", 2), RebalanceInProgress)  # its heartbeat makes the target


def test_members_of_both_kinds_leave_through_the_classic_request() -> None:
    town = consumer_town()
    town.classic_join("c", "orders")
    town.join("s", "orders", instance_id="i")
    request = LeaveRequest(
        group=GROUP,
        members=(LeavingMember("c"), LeavingMember("", "i"), LeavingMember("x"), LeavingMember("y", "i")),
    )
    decision = classic_members.decide_leave(town.group, request, now_ms=0, topics=town.topics, config=town.config)
    town.take(decision)
    codes = [left.error.kafka_code if left.error is not None else 0 for left in decision.reply]
    assert codes == [0, 0, 25, 82]
    assert list(town.group.members) == ["n"]


def test_there_and_back_again_nobody_loses_its_place() -> None:
    town = town_with_classic_group()
    town.join("n", "orders")
    town.beat("n", -1)
    town.join("n", "orders")
    assert sorted(town.group.members) == ["a", "b", "n"]
    assert town.replay() == town.groups
