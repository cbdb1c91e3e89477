"""A consumer group under random members that join, leave, are slow to revoke, lose answers and expire."""

from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas.core.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    IllegalGeneration,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from barnabas.core.groups.consumer.assignors import TopicInfo
from barnabas.core.groups.consumer.messages import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from barnabas.core.groups.consumer.state import MemberState
from barnabas.core.groups.decision import REBALANCE, SESSION
from barnabas.core.groups.settings import RANGE, ConsumerConfig
from tests.support.examples import examples
from tests.unit.core.groups.consumer.world import GROUP, ClassicClient, Client, World, topic_id

NAMES = ("a", "b", "c")
SUBSCRIPTIONS = st.sampled_from([("a",), ("a", "b"), ("a", "b", "c"), ("c",), ()])


class ConsumerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World({name: TopicInfo(topic_id(name), 3) for name in NAMES})
        self.clients: list[Client] = []
        self.epochs: dict[str, int] = {}
        self.group_epoch = 0
        self.target_epoch = 0
        self.names = 0

    def _beat(self, client: Client, *, loses_answer: bool = False) -> None:
        try:
            client.beat(loses_answer=loses_answer)
        except (FencedMemberEpoch, UnknownMemberId, IllegalGeneration):
            client.abandon()

    @rule(subscription=SUBSCRIPTIONS)
    def join(self, subscription: tuple[str, ...]) -> None:
        if len(self.clients) < 6:
            self.names += 1
            client = Client(self.world, f"m{self.names}", subscription)
            self.clients.append(client)
            self._beat(client)

    @rule(subscription=SUBSCRIPTIONS, number=st.integers(0, 1))
    def join_static(self, subscription: tuple[str, ...], number: int) -> None:
        instance_id = f"i{number}"
        if all(client.instance_id != instance_id for client in self.clients):
            self.names += 1
            client = Client(self.world, f"m{self.names}", subscription, instance_id)
            try:
                client.beat()
            except UnreleasedInstanceId:
                return  # its predecessor has crashed, and its session runs
            self.clients.append(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), loses_answer=st.booleans())
    def heartbeat(self, data: st.DataObject, loses_answer: bool) -> None:
        self._beat(self._any(data), loses_answer=loses_answer)

    @precondition(lambda self: self.clients)
    @rule()
    def all_heartbeat(self) -> None:
        for client in self.clients:
            self._beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def become_slow_or_quick(self, data: st.DataObject) -> None:
        client = self._any(data)
        client.is_slow = not client.is_slow

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), subscription=SUBSCRIPTIONS)
    def subscribe(self, data: st.DataObject, subscription: tuple[str, ...]) -> None:
        client = self._any(data)
        client.subscription = subscription
        self._beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), comes_back=st.booleans())
    def leave(self, data: st.DataObject, comes_back: bool) -> None:
        client = self._any(data)
        self.clients.remove(client)
        client.abandon()
        epoch = STATIC_LEAVE_EPOCH if comes_back and client.instance_id is not None else LEAVE_EPOCH
        try:
            self.world.beat(client.member_id, epoch, instance_id=client.instance_id)
        except (UnknownMemberId, GroupIdNotFound):
            return  # it was fenced before, and has not heard

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.clients.remove(self._any(data))

    @rule(ms=st.sampled_from([1_000, 11_000, 46_000]))
    def pass_time(self, ms: int) -> None:
        """A member whose time is up knows it by its own clock, before the coordinator does."""
        for key in self.world.advance(ms):
            for client in self.clients:
                if client.member_id == key.member_id:
                    client.abandon()

    @rule(name=st.sampled_from(NAMES), count=st.integers(0, 8))
    def change_topics(self, name: str, count: int) -> None:
        changed = dict(self.world.topics)
        known = changed.get(name)
        if not count:
            changed.pop(name, None)
        elif known is None or count > known.partition_count:
            changed[name] = TopicInfo(topic_id(name), count)
        self.world.set_topics(changed)

    def _any(self, data: st.DataObject) -> Client:
        return self.clients[data.draw(st.integers(0, len(self.clients) - 1))]

    @invariant()
    def no_partition_is_owned_twice(self) -> None:
        owners: dict[tuple[UUID, int], str] = {}
        for client in self.clients:
            for at in client.owned:
                assert at not in owners, f"{at} is owned by {owners[at]} and {client.member_id}"
                owners[at] = client.member_id
        if GROUP not in self.world.groups.consumer:
            return
        given = [
            (held.topic_id, partition)
            for current in self.world.group.currents.values()
            for held in (*current.assigned, *current.pending_revocation)
            for partition in held.partitions
        ]
        assert len(given) == len(set(given))
        assert {(t, p) for t, ps in self.world.group.owners.items() for p in ps} == set(given)

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self.world.groups.consumer.get(GROUP)
        if group is None:
            return
        assert group.epoch >= self.group_epoch
        assert group.target_epoch >= self.target_epoch
        assert group.target_epoch <= group.epoch
        self.group_epoch, self.target_epoch = group.epoch, group.target_epoch
        for member_id, current in group.currents.items():
            assert member_id in group.members
            if current.epoch != STATIC_LEAVE_EPOCH:
                assert current.epoch >= self.epochs.get(member_id, 0)
                self.epochs[member_id] = current.epoch

    @invariant()
    def a_replay_gives_the_same(self) -> None:
        assert self.world.replay() == self.world.groups
        for group in self.world.groups.consumer.values():
            again = type(group)(group.group)
            for record in group.to_records():
                again.apply(record)
            assert again == group

    @invariant()
    def every_member_has_a_session_and_every_revocation_a_deadline(self) -> None:
        for group in self.world.groups.consumer.values():
            for member_id in group.members:
                assert self.world.has_timer(SESSION, member_id)
                late = group.current_of(member_id).state == MemberState.UNREVOKED_PARTITIONS
                if group.current_of(member_id).epoch != STATIC_LEAVE_EPOCH and group.members[member_id].classic is None:
                    assert self.world.has_timer(REBALANCE, member_id) == late

    def teardown(self) -> None:
        """Once everybody is quick and the dead have expired, everybody reaches the target and all is owned."""
        alive = {client.member_id for client in self.clients}
        for client in self.clients:
            client.is_slow = False
        for _ in range(18):
            for client in self.clients:
                self._beat(client)
            self.world.advance(4_000)  # the dead expire, and what they had is dealt out
        if not self.clients:
            assert GROUP not in self.world.groups.consumer or not self.world.group.members
            return
        group = self.world.group
        assert set(group.members) == alive
        assert all(group.is_reconciled(member_id) for member_id in alive)
        assert group.epoch == group.target_epoch
        wanted = {
            (self.world.topics[name].topic_id, partition)
            for client in self.clients
            for name in client.subscription
            if name in self.world.topics
            for partition in range(self.world.topics[name].partition_count)
        }
        assert {at for client in self.clients for at in client.owned} == wanted
        for client in self.clients:
            assert client.epoch == group.target_epoch
            reads = {topic_id(name) for name in client.subscription}
            assert all(at[0] in reads for at in client.owned)


class RangeMachine(ConsumerMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world.config = ConsumerConfig(assignors=(RANGE,))


class LargeGroupMachine(ConsumerMachine):
    """Targets are made once in an interval, as in groups of a hundred and more."""

    def __init__(self) -> None:
        super().__init__()
        self.world.config = ConsumerConfig(large_group_members=2, assignment_interval_ms=3_000)


class MixedMachine(ConsumerMachine):
    """Classic members among the others, in a group that never becomes classic."""

    def __init__(self) -> None:
        super().__init__()
        self.world.config = ConsumerConfig(downgrades=False)

    @precondition(lambda self: GROUP in self.world.groups.consumer)
    @rule(subscription=SUBSCRIPTIONS)
    def join_classic(self, subscription: tuple[str, ...]) -> None:
        if len(self.clients) < 6:
            self.names += 1
            client = ClassicClient(self.world, f"m{self.names}", subscription)
            self.clients.append(client)
            self._beat(client)


TestConsumerMachine = ConsumerMachine.TestCase
TestConsumerMachine.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestRangeMachine = RangeMachine.TestCase
TestRangeMachine.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestLargeGroupMachine = LargeGroupMachine.TestCase
TestLargeGroupMachine.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestMixedMachine = MixedMachine.TestCase
TestMixedMachine.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
