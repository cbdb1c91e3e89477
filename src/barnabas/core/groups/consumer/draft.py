"""A decision about a consumer group while it is being made: the group as it will be, and the records for that.

Owns the changes that decisions consist of: raise the epoch, remove members, compute the target, move one member. Each
is written as records and applied to a copy of the group by the very `apply` that will take them from the log, so a
later step of a decision sees the earlier ones, and the group itself is not changed.
"""

from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Final, TypeVar
from uuid import UUID

from barnabas.core.coordination import CancelTimer, Decision, SetTimer, TimerChange
from barnabas.core.groups.consumer.assignors import MemberSpec, assign
from barnabas.core.groups.consumer.reconcile import Goal, reconcile
from barnabas.core.groups.consumer.regexes import Visible, all_visible, match_topics
from barnabas.core.groups.consumer.state import (
    ConsumerEntry,
    ConsumerGroup,
    MemberState,
    Topics,
    preferred_assignor,
    to_partitions,
    tombstones,
    unmatched_regexes,
)
from barnabas.core.groups.decision import JOIN, REBALANCE, REGEX, SESSION, SYNC, GroupDecision, TimerKey, TimerKind
from barnabas.core.groups.records import (
    ConsumerCurrentMemberRecord,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerRegexRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetMemberRecord,
    GroupEntry,
    GroupTombstone,
    TopicPartitions,
)
from barnabas.core.groups.settings import ConsumerConfig

T = TypeVar("T")

NEVER_MS: Final = 0  # when a target was made that no interval counts from


class Draft:
    """A group with the changes of one decision."""

    def __init__(self, group: ConsumerGroup, *, topics: Topics, config: ConsumerConfig, now_ms: int) -> None:
        self.state = group
        self.topics = topics
        self.config = config
        self.now_ms = now_ms
        self.records: list[GroupEntry] = []
        self.timers: list[TimerChange] = []
        self._is_copy = False

    def write(self, *entries: ConsumerEntry) -> None:
        """Add records, which take effect in this draft."""
        if entries and not self._is_copy:
            self.state, self._is_copy = self.state.copy(), True
        for entry in entries:
            self.records.append(entry)
            self.state.apply(entry)

    def decide(self, reply: T) -> GroupDecision[T]:
        return Decision(self.records, reply, self.timers)

    # Timers.

    def set_timer(self, kind: TimerKind, member_id: str, delay_ms: int) -> None:
        self.timers.append(SetTimer(TimerKey(kind, self.state.group, member_id), delay_ms))

    def cancel_timer(self, kind: TimerKind, member_id: str) -> None:
        self.timers.append(CancelTimer(TimerKey(kind, self.state.group, member_id)))

    def cancel_timers(self, member: ConsumerMemberRecord) -> None:
        """Cancel all timers of a member."""
        kinds: tuple[TimerKind, ...] = (SESSION, REBALANCE) if member.classic is None else (SESSION, JOIN, SYNC)
        for kind in kinds:
            self.cancel_timer(kind, member.member_id)
        self.state.awaited.discard(member.member_id)

    # Steps.

    def bump_epoch(self) -> None:
        """Raise the group epoch: a new target is due."""
        self.write(ConsumerGroupRecord(self.state.group, self.state.epoch + 1, self.hash_metadata()))

    def hash_metadata(self) -> int:
        """A hash of the topics that the group is subscribed to, as far as the target depends on them; 0: none."""
        digest = blake2b(digest_size=7)
        names = sorted(name for name in self.state.subscribed_topics() if name in self.topics)
        for name in names:
            info = self.topics[name]
            racks = [sorted(racks) for racks in info.racks] if info.racks is not None else None
            digest.update(repr((name, info.topic_id.hex, info.partition_count, racks)).encode())
        return int.from_bytes(digest.digest(), "big") if names else 0

    def preferred_assignor(self) -> str:
        """The assignor that computes the target; one that is no longer configured is ignored."""
        asked = preferred_assignor(self.state)
        return asked if asked is not None and asked in self.config.assignors else self.config.assignors[0]

    def match_regexes(self, regexes: Iterable[str], visible: Visible = all_visible) -> bool:
        """Match expressions with topics, and raise the epoch if the result, or the topics, changed; returns whether.

        Topics that the subscribers may not see do not match. While it is not known who they are, none is added.
        """
        is_news = False
        for regex in regexes:
            known = self.state.regexes.get(regex)
            sees = visible(self.state.group, regex)
            if sees is None:
                if known is None:
                    continue
                sees = frozenset(known.topics).__contains__
            found = tuple(filter(sees, match_topics(regex, self.topics)))
            if known is None or known.topics != found:
                self.write(ConsumerRegexRecord(self.state.group, regex, found, time_ms=self.now_ms))
                is_news |= found != (() if known is None else known.topics)
        if not is_news and self.hash_metadata() == self.state.metadata_hash:
            return False
        self.bump_epoch()
        return True

    def match_soon(self) -> None:
        """Schedule matching of new expressions: not now, so that no answer waits for it."""
        if unmatched_regexes(self.state):
            self.set_timer(REGEX, "", 0)

    def forget_regexes(self) -> None:
        """Drop expressions that no member uses any more."""
        used = {member.regex for member in self.state.members.values()}
        unused = sorted(regex for regex in self.state.regexes if regex not in used)
        self.write(*(GroupTombstone(ConsumerRegexRecord, (self.state.group, regex)) for regex in unused))

    def remove_members(self, member_ids: Collection[str]) -> None:
        """Remove members, which frees their partitions."""
        for member_id in member_ids:
            self.cancel_timers(self.state.members[member_id])
        self.write(*tombstones(self.state, member_ids))
        self.forget_regexes()
        self.bump_epoch()
        if not self.state.members:
            self.write(ConsumerTargetEpochRecord(self.state.group, self.state.epoch, NEVER_MS))

    def update_target(self) -> None:
        """Compute the target of each member, if that is due."""
        if self.state.target_epoch >= self.state.epoch or not self._may_assign():
            return
        infos = {info.topic_id: info for info in self.topics.values()}
        subscriptions: dict[tuple[tuple[str, ...], str | None], frozenset[UUID]] = {}
        specs: dict[str, MemberSpec] = {}
        for member_id, member in self.state.members.items():
            asked = (member.topics, member.regex)
            if asked not in subscriptions:
                subscriptions[asked] = self.state.topic_ids_of(member, self.topics)
            previous = {held.topic_id: held.partitions for held in self.state.target_of(member_id)}
            specs[member_id] = MemberSpec(subscriptions[asked], previous, member.rack, member.instance_id)
        for member_id, target in assign(self.preferred_assignor(), specs, infos).items():
            partitions = to_partitions(target)
            known = self.state.targets.get(member_id)
            if known is None or known.partitions != partitions:
                self.write(ConsumerTargetMemberRecord(self.state.group, member_id, partitions))
        self.write(ConsumerTargetEpochRecord(self.state.group, self.state.epoch, self.now_ms))

    def _may_assign(self) -> bool:
        return (
            len(self.state.members) < self.config.large_group_members
            or self.state.target_time_ms <= NEVER_MS
            or self.now_ms - self.state.target_time_ms >= self.config.assignment_interval_ms
        )

    def reconcile(
        self, member: ConsumerMemberRecord, owned: tuple[TopicPartitions, ...] | None, *, has_new_subscription: bool
    ) -> ConsumerCurrentMemberRecord:
        """Move a member towards its target as far as possible now."""
        member_id = member.member_id
        current = self.state.current_of(member_id)
        if self.state.is_reconciled(member_id) and not has_new_subscription:
            return current
        goal = Goal(
            self.state.target_epoch,
            self.state.target_of(member_id),
            self.state.topic_ids_of(member, self.topics),
            owned,
            self.state.owner_of,
            has_new_subscription,
        )
        after = reconcile(current, goal)
        if after != current:
            self.write(after)
            if member.classic is None:
                self._time_revocation(member, before=current, after=after)
        return after

    def _time_revocation(
        self,
        member: ConsumerMemberRecord,
        *,
        before: ConsumerCurrentMemberRecord,
        after: ConsumerCurrentMemberRecord,
    ) -> None:
        if after.state == MemberState.UNREVOKED_PARTITIONS:
            self.set_timer(REBALANCE, member.member_id, member.rebalance_timeout_ms)
        elif before.state == MemberState.UNREVOKED_PARTITIONS:
            self.cancel_timer(REBALANCE, member.member_id)
