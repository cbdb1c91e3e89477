"""The stage for scenarios of groups: one coordinator with a log in memory, and a clock that moves when it is told to.

Every request goes to `core.groups.routing` or `core.groups.offsets`, as those of the runtime do. A command prints who
was answered with what, then what was written. Members of both protocols are told apart by their commands: `join`,
`sync`, `beat` and `leave` are of the classic protocol, `consume` is of that of KIP-848.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from barnabas.core.coordination import Outcome, SetTimer, TimerChange
from barnabas.core.errors import CoordinatorNotAvailable
from barnabas.core.groups import offsets, routing
from barnabas.core.groups.classic.messages import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    Protocol,
    SyncRequest,
)
from barnabas.core.groups.classic.state import ClassicSoft
from barnabas.core.groups.consumer.messages import ConsumerHeartbeat
from barnabas.core.groups.consumer.placing import TopicInfo
from barnabas.core.groups.decision import GroupOutcome, TimerKey
from barnabas.core.groups.embedded import EmbeddedAssignment, Subscription, build_assignment, build_subscription
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.listing import list_groups
from barnabas.core.groups.offsets import CommitRequest, NewOffset
from barnabas.core.groups.records import GroupEntry, TopicPartitions
from barnabas.core.groups.routing import GroupView
from barnabas.core.groups.settings import ClassicConfig, ConsumerConfig, OffsetsConfig
from tests.scenarios.group_words import GroupWords, parse_partitions
from tests.scenarios.transcript import Stage

GROUP = "g"
START_MS = 1_000_000
NOBODY = "nobody"  # commits from outside of any protocol


class Asker(NamedTuple):
    """Who waits for an answer, and to what."""

    member: str
    verb: str

    def set_result(self, _answer: object, /) -> None:
        raise AssertionError("a decision hands its tokens back, and the runtime answers")


class GroupStage(Stage):
    """One group, ``g``, and whoever speaks to it."""

    def __init__(self) -> None:
        self._groups = Groups()
        self._topics: dict[str, TopicInfo] = {}
        self._soft = ClassicSoft(ClassicConfig(initial_rebalance_delay_ms=3_000))
        self._config = ConsumerConfig()
        self._log: list[GroupEntry] = []
        self._timers: dict[TimerKey, int] = {}
        self._now_ms = START_MS
        self._is_full = False
        self._words = GroupWords(self._topics)

    # The world

    def topic(self, name: str, partitions: int) -> Iterator[str]:
        """``topic NAME PARTITIONS``: there is such a topic from now on; a consumer group that reads it hears of it."""
        self._topics[name] = TopicInfo(UUID(int=ord(name[0])), partitions)
        outcome = routing.on_topics_change(self._view, GROUP, now_ms=self._now_ms)
        yield from self._carry_out(outcome) if outcome.records else ()

    def full(self, *, disk: bool) -> None:
        """``full disk=yes|no``: whether the log takes no records."""
        self._is_full = disk

    def wait(self, seconds: int) -> Iterator[str]:
        """``wait SECONDS``: the clock moves, and timers that are due fire, in order."""
        end_ms = self._now_ms + seconds * 1000
        while self._timers and min(self._timers.values()) <= end_ms:
            key = min(self._timers, key=lambda each: (self._timers[each], each))
            self._now_ms = max(self._now_ms, self._timers.pop(key))
            of = f" of {key.member_id}" if key.member_id else ""
            yield f"{(self._now_ms - START_MS) / 1000:g} s: the {key.kind} timer{of} fires"
            yield from self._carry_out(routing.on_timer(self._view, key, now_ms=self._now_ms))
        self._now_ms = end_ms

    def restart(self) -> Iterator[str]:
        """``restart``: another node coordinates, which has the log and nothing else."""
        self._groups, self._soft, self._timers = Groups(), ClassicSoft(self._soft.config), {}
        for entry in self._log:
            self._groups.apply(entry)
        self._change(routing.timers_after_load(self._view))
        yield from self.show()

    def show(self) -> Iterator[str]:
        """``show``: the group as it is listed, and what is committed."""
        for listed in list_groups(self._groups, self._soft):
            yield f"{listed.group}: {listed.type.value}, {listed.state}"
        for topic, found in sorted(self._groups.offsets_of(GROUP).items()):
            for number, record in sorted(found.items()):
                yield f"{topic}:{number} is read up to {record.offset}"

    # Members of the classic protocol

    def join(
        self,
        member: str,
        topics: str = "t",
        *,
        instance: str | None = None,
        id: str | None = None,  # noqa: A002 - a word of the transcripts
        asks: bool = False,
        owned: str = "nothing",
        by: str = "range",
        session: int = 10,
    ) -> Iterator[str]:
        """``join MEMBER [TOPICS] [instance=I] [id=MEMBER] [asks=yes] [owned=t:0,1] [by=ASSIGNORS] [session=SECONDS]``

        MEMBER is the id that the coordinator gives it, `id` the one it comes with. `asks`: a client of today, which is
        told its id before it joins.
        """
        subscription = build_subscription(Subscription(3, tuple(topics.split(",")), owned=parse_partitions(owned)))
        request = JoinRequest(
            group=GROUP,
            member_id=id or "",
            instance_id=instance,
            session_timeout_ms=session * 1000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=tuple(Protocol(name, subscription) for name in by.split(",")),
            requires_member_id=asks,
        )
        asker = Asker(member, "join")
        yield from self._carry_out(
            routing.join(self._view, request, token=asker, now_ms=self._now_ms, new_member_id=member)
        )

    def sync(self, member: str, generation: int, *assignments: str, instance: str | None = None) -> Iterator[str]:
        """``sync MEMBER GENERATION [MEMBER->t:0,1 ...] [instance=I]``: the leader brings what each is to have."""
        given = []
        for assignment in assignments:
            name, _, partitions = assignment.partition("->")
            given.append((name, build_assignment(EmbeddedAssignment(3, parse_partitions(partitions)))))
        request = SyncRequest(
            group=GROUP, generation=generation, member_id=member, instance_id=instance, assignments=tuple(given)
        )
        yield from self._carry_out(routing.sync(self._view, request, token=Asker(member, "sync"), now_ms=self._now_ms))

    def beat(self, member: str, generation: int, *, instance: str | None = None) -> Iterator[str]:
        """``beat MEMBER GENERATION [instance=I]``: Heartbeat."""
        request = HeartbeatRequest(group=GROUP, generation=generation, member_id=member, instance_id=instance)
        asker = Asker(member, "beat")
        yield from self._carry_out(routing.heartbeat(self._view, request, token=asker, now_ms=self._now_ms))

    def leave(self, member: str, *, instance: str | None = None) -> Iterator[str]:
        """``leave MEMBER [instance=I]``: LeaveGroup; an instance alone leaves as ``leave none instance=I``."""
        leaving = LeavingMember("" if member == "none" else member, instance)
        request = LeaveRequest(group=GROUP, members=(leaving,))
        asker = Asker(instance or member, "leave")
        yield from self._carry_out(routing.leave(self._view, request, token=asker, now_ms=self._now_ms))

    # Members of the protocol of KIP-848

    def consume(
        self,
        member: str,
        epoch: int,
        *,
        topics: str | None = None,
        owned: str | None = None,
        instance: str | None = None,
    ) -> Iterator[str]:
        """``consume MEMBER EPOCH [topics=t,u] [owned=t:0,1|nothing] [instance=I]``: ConsumerGroupHeartbeat.

        Epoch 0 joins, -1 leaves, -2 leaves for a while. What is not said has not changed.
        """
        is_joining = epoch == 0
        held = () if is_joining else None if owned is None else self._held(owned)
        request = ConsumerHeartbeat(
            group=GROUP,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=60_000 if is_joining else -1,
            topics=tuple(topics.split(",")) if topics else ("t",) if is_joining else None,
            owned=held,
        )
        asker = Asker(member, "consume")
        yield from self._carry_out(
            routing.consumer_heartbeat(self._view, request, token=asker, now_ms=self._now_ms, new_member_id=member)
        )

    def _held(self, text: str) -> tuple[TopicPartitions, ...]:
        return tuple(
            TopicPartitions(self._topics[topic].topic_id, numbers) for topic, numbers in parse_partitions(text).items()
        )

    # Offsets

    def commit(self, member: str, epoch: int, *places: str, instance: str | None = None) -> Iterator[str]:
        """``commit MEMBER|nobody EPOCH t:0@OFFSET ... [instance=I]``: OffsetCommit, in a generation or member epoch."""
        new = []
        for place in places:
            at, _, offset = place.partition("@")
            ((topic, (partition,)),) = parse_partitions(at).items()
            new.append(NewOffset(topic, partition, int(offset), topic_id=self._topics[topic].topic_id))
        request = CommitRequest(
            group=GROUP,
            offsets=new,
            generation=epoch,
            member_id="" if member == NOBODY else member,
            instance_id=instance,
        )
        decision = offsets.commit(self._groups, self._soft, request, config=OffsetsConfig(), now_ms=self._now_ms)
        yield from self._carry_out(Outcome(decision.records, (), decision.timers))

    # What the runtime does

    @property
    def _view(self) -> GroupView:
        return GroupView(self._groups, self._soft, self._topics, lambda _: self._config)

    def _carry_out(self, outcome: GroupOutcome) -> Iterator[str]:
        if outcome.records and self._is_full:
            error = CoordinatorNotAvailable("there is no room")
            refused = [reply._replace(answer=error) for reply in outcome.replies]
            given_up = routing.give_up(self._view, outcome.records, error)
            yield from self._answers(Outcome((), [*refused, *given_up.replies]))
            self._change(given_up.timers)
            return
        for entry in outcome.records:
            self._log.append(entry)
            self._groups.apply(entry)
        self._change(outcome.timers)
        yield from self._answers(outcome)
        for entry in outcome.records:
            yield self._words.entry(entry)
        if not outcome.records and not outcome.replies:
            yield "nobody is answered"

    def _answers(self, outcome: GroupOutcome) -> Iterator[str]:
        for token, answer in outcome.replies:
            assert isinstance(token, Asker)
            yield f"{token.verb} of {token.member}: {self._words.answer(answer)}"

    def _change(self, changes: Iterable[TimerChange]) -> None:
        for change in changes:
            assert isinstance(change.key, TimerKey)
            self._timers.pop(change.key, None)
            if isinstance(change, SetTimer):
                self._timers[change.key] = self._now_ms + change.delay_ms
