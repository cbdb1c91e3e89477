"""A classic group under any schedule: members join, sync, heartbeat, leave, hang, restart and change what they read,
time passes, coordinators fail over and appends fail. What must hold is checked after every step.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.core.coordination import Token
from barnabas.core.errors import (
    BarnabasError,
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from barnabas.core.groups.classic import decisions as classic
from barnabas.core.groups.classic.messages import JoinReply, LeavingMember, Protocol, SyncReply
from barnabas.core.groups.classic.state import ClassicState, LiveGroup
from barnabas.core.groups.decision import JOIN, SESSION, SYNC, TimerKey
from barnabas.core.groups.encoding import decode
from barnabas.core.groups.records import ClassicGroupRecord
from barnabas.core.groups.settings import ClassicConfig
from tests.support.examples import examples
from tests.unit.core.groups.classic.driver import GROUP, Coordinator, replay, subscription

ACTORS = 8
TOPICS = ("t", "u")


@dataclass
class Actor:
    """A client: what it believes, and the request it waits for."""

    instance_id: str | None
    version: int
    topic: str = "t"
    member_id: str = ""
    generation: int = -1
    is_leader: bool = False
    others: tuple[str, ...] = ()
    assignment: bytes | None = None
    waits_for: Token[Any] | None = None

    def forget(self) -> None:
        self.member_id, self.generation, self.assignment, self.waits_for = "", -1, None, None


class ClassicMachine(RuleBasedStateMachine):
    @initialize(
        static=st.lists(st.booleans(), min_size=ACTORS, max_size=ACTORS),
        versions=st.lists(st.sampled_from((3, 5, 9)), min_size=ACTORS, max_size=ACTORS),
        size=st.integers(1, ACTORS),
        max_size=st.sampled_from((3, 100)),
        delay_ms=st.sampled_from((0, 3_000)),
    )
    def start(self, static: list[bool], versions: list[int], size: int, max_size: int, delay_ms: int) -> None:
        config = ClassicConfig(
            max_size=max_size, initial_rebalance_delay_ms=delay_ms, new_member_join_timeout_ms=20_000
        )
        self.coordinator = Coordinator(config)
        self.actors = [
            Actor(f"i{number}" if is_static else None, version)
            for number, (is_static, version) in enumerate(zip(static, versions, strict=True))
        ][:size]
        self.assignments: dict[tuple[int, str], bytes] = {}
        self.rounds = 0
        self.checked = 0

    def actor(self, number: int) -> Actor:
        return self.actors[number % len(self.actors)]

    # What clients do.

    @rule(number=st.integers(0, ACTORS - 1), rebalance_ms=st.sampled_from((0, 7_000, 60_000)))
    def join(self, number: int, rebalance_ms: int) -> None:
        actor = self.actor(number)
        protocols = (Protocol("range", subscription(actor.topic)), Protocol("sticky", b""))
        actor.waits_for = self.coordinator.join(
            actor.member_id,
            actor.instance_id,
            protocols=protocols,
            rebalance_timeout_ms=rebalance_ms,
            session_timeout_ms=6_000,
            version=actor.version,
        )
        self.listen()

    @rule(number=st.integers(0, ACTORS - 1))
    def sync(self, number: int) -> None:
        actor = self.actor(number)
        self.rounds += 1
        assigned = {other: f"{self.rounds} {other}".encode() for other in actor.others} if actor.is_leader else {}
        actor.waits_for = self.coordinator.sync(
            actor.member_id, actor.generation, assigned, instance_id=actor.instance_id
        )
        self.listen()

    @rule(count=st.integers(1, ACTORS), rounds=st.integers(1, 4), leaders_hang=st.booleans())
    def clients_do_what_clients_do(self, count: int, rounds: int, leaders_hang: bool) -> None:
        """Some of them, for a while: join until they are in, sync, heartbeat."""
        for _ in range(rounds):
            for number, actor in enumerate(self.actors[:count]):
                if actor.waits_for is None and actor.generation < 0:
                    self.join(number, 7_000)
                    if actor.waits_for is None and actor.generation < 0:
                        self.join(number, 7_000)  # with the id it was given
            self.time_passes(3_000)
            for number, actor in enumerate(self.actors[:count]):
                if actor.waits_for is None and actor.generation >= 0:
                    self.heartbeat(number)
                if leaders_hang and actor.is_leader:
                    continue
                if actor.waits_for is None and actor.generation >= 0 and actor.assignment is None:
                    self.sync(number)

    @rule(number=st.integers(0, ACTORS - 1))
    def heartbeat(self, number: int) -> None:
        actor = self.actor(number)
        answer = self.coordinator.heartbeat(actor.member_id, actor.generation, actor.instance_id)
        if isinstance(answer, BarnabasError):
            self.refused(actor, answer)

    @rule(number=st.integers(0, ACTORS - 1), by_instance=st.booleans())
    def leave(self, number: int, by_instance: bool) -> None:
        actor = self.actor(number)
        self.coordinator.leave(LeavingMember("" if by_instance else actor.member_id, actor.instance_id))
        actor.forget()
        self.listen()

    @rule(number=st.integers(0, ACTORS - 1), topic=st.sampled_from(TOPICS))
    def restart(self, number: int, topic: str) -> None:
        actor = self.actor(number)
        actor.forget()
        actor.topic = topic

    @rule(number=st.integers(0, ACTORS - 1), topic=st.sampled_from(TOPICS))
    def subscribe(self, number: int, topic: str) -> None:
        self.actor(number).topic = topic

    @rule(number=st.integers(0, ACTORS - 1))
    def commit(self, number: int) -> None:
        actor = self.actor(number)
        try:
            self.coordinator.commit(
                generation=actor.generation, member_id=actor.member_id, instance_id=actor.instance_id
            )
        except BarnabasError as refusal:
            self.refused(actor, refusal)

    # What time and failures do.

    @rule(delay_ms=st.sampled_from((1, 1_000, 5_999, 30_000)))
    def time_passes(self, delay_ms: int) -> None:
        self.coordinator.pass_ms(delay_ms)
        self.listen()

    @rule()
    def fail_over(self) -> None:
        self.coordinator.fail_over()
        for actor in self.actors:
            actor.waits_for = None

    @rule()
    def append_fails(self) -> None:
        refusal = CoordinatorNotAvailable("the append failed")
        self.coordinator.run(classic.reset(self.coordinator.groups, self.coordinator.soft, GROUP, refusal))
        self.listen()

    def listen(self) -> None:
        """Clients take the answers that have come."""
        for actor in self.actors:
            if actor.waits_for is None or actor.waits_for not in self.coordinator.answers:
                continue
            answer = self.coordinator.answers[actor.waits_for]
            actor.waits_for = None
            if isinstance(answer, JoinReply):
                self.joined(actor, answer)
            elif isinstance(answer, SyncReply):
                self.synced(actor, answer)
            else:
                assert isinstance(answer, BarnabasError)
                self.refused(actor, answer)

    def joined(self, actor: Actor, reply: JoinReply) -> None:
        assert reply.generation >= 1
        assert reply.protocol in ("range", "sticky")
        actor.member_id, actor.generation, actor.assignment = reply.member_id, reply.generation, None
        actor.is_leader = reply.leader == reply.member_id and not reply.skip_assignment
        actor.others = tuple(member.member_id for member in reply.members)
        assert bool(actor.others) == (reply.leader == reply.member_id)

    def synced(self, actor: Actor, reply: SyncReply) -> None:
        """One generation has one assignment for each member, and it is the one in the log."""
        known = self.assignments.setdefault((actor.generation, actor.member_id), reply.assignment)
        assert known == reply.assignment
        record = self.coordinator.record()
        assert record.generation == actor.generation
        assert {member.member_id: member.assignment for member in record.members}[actor.member_id] == known
        actor.assignment = reply.assignment

    def refused(self, actor: Actor, refusal: BarnabasError) -> None:
        if isinstance(refusal, MemberIdRequired):
            actor.member_id = refusal.member_id
        elif isinstance(refusal, UnknownMemberId | FencedInstanceId):
            actor.forget()
        elif isinstance(refusal, IllegalGeneration | RebalanceInProgress):
            actor.generation, actor.assignment, actor.waits_for = -1, None, None

    # What must hold.

    @invariant()
    def the_log_makes_the_same_groups(self) -> None:
        log = self.coordinator.log
        generation = 0
        for key, value in log if len(log) > self.checked else ():
            entry = decode(key, value)
            if isinstance(entry, ClassicGroupRecord):
                assert entry.generation >= generation
                generation = entry.generation
        assert replay(log) == self.coordinator.groups
        assert replay(dict(log).items()) == self.coordinator.groups  # compacted
        self.checked = len(log)

    @invariant()
    def the_group_fits_itself(self) -> None:
        live = self.coordinator.soft.live.get(GROUP)
        if live is not None:
            assert not live.is_idle
            check_counts(live)
            check_timers(live, self.coordinator.timers)
            if live.state is ClassicState.STABLE:
                assert live.to_record() == self.coordinator.record()

    @invariant()
    def members_of_a_stable_group_have_the_assignment_of_its_generation(self) -> None:
        if self.coordinator.state() is not ClassicState.STABLE:
            return
        record = self.coordinator.record()
        kept = {member.member_id: member.assignment for member in record.members}
        for actor in self.actors:
            if actor.generation == record.generation and actor.member_id in kept and actor.assignment is not None:
                assert kept[actor.member_id] == actor.assignment

    def teardown(self) -> None:
        """Everybody hangs: every request that waits is answered, and nothing is left of the group's members."""
        if not hasattr(self, "coordinator"):
            return
        for _ in range(500):
            if not self.coordinator.fire_next():
                break
        assert not self.coordinator.timers
        assert set(self.coordinator.asked) == set(self.coordinator.answers)
        assert not self.coordinator.soft.live
        assert self.coordinator.state() in (ClassicState.EMPTY, ClassicState.DEAD)
        assert replay(self.coordinator.log) == self.coordinator.groups


def check_counts(live: LiveGroup) -> None:
    members = live.members.values()
    assert live.joins_waiting == sum(member.join_token is not None for member in members)
    assert live.static_members == {
        member.instance_id: member.member_id for member in members if member.instance_id is not None
    }
    support: dict[str, int] = {}
    for member in members:
        for name in {offered.name for offered in member.protocols}:
            support[name] = support.get(name, 0) + 1
    assert live.support == support
    assert not members or max(support.values()) == len(members)
    assert all(member_id == member.member_id for member_id, member in live.members.items())
    assert live.leader in live.members if members else live.leader is None
    assert not live.pending.keys() & live.members.keys()
    assert live.unsynced.keys() <= live.members.keys()


def check_timers(live: LiveGroup, timers: dict[TimerKey, int]) -> None:
    """Whatever waits has something that ends the wait."""
    assert live.state is not ClassicState.PREPARING_REBALANCE or TimerKey(JOIN, GROUP) in timers
    assert not live.unsynced or TimerKey(SYNC, GROUP) in timers
    for member in live.members.values():
        assert member.join_token is None or live.state is ClassicState.PREPARING_REBALANCE
        assert member.sync_token is None or live.state is ClassicState.COMPLETING_REBALANCE
        waits_safely = member.is_waiting and not member.is_new
        assert waits_safely or TimerKey(SESSION, GROUP, member.member_id) in timers
    for member_id in live.pending:
        assert TimerKey(SESSION, GROUP, member_id) in timers


TestClassicMachine = ClassicMachine.TestCase
TestClassicMachine.settings = settings(max_examples=examples(60), stateful_step_count=60, deadline=None)
