"""A consumer group (KIP-848) as the coordinator log has it.

Owns the state; only `apply` changes it, one entry of the log at a time. A record is complete, so it is also the state,
and the order in which compaction left the records does not matter.

Invariants: `owners` has exactly the partitions of the `currents`, those still to be revoked too, each with one member;
`static_members` has exactly the members with an instance id.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeAlias
from uuid import UUID

from barnabas.core.groups.consumer.assignors import TopicInfo
from barnabas.core.groups.consumer.placing import Assignment
from barnabas.core.groups.records import (
    ConsumerCurrentMemberRecord,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerRecord,
    ConsumerRegexRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetMemberRecord,
    GroupRecord,
    GroupTombstone,
    TopicPartitions,
)

# Every topic of the cluster, by name.
Topics: TypeAlias = Mapping[str, TopicInfo]

ConsumerEntry: TypeAlias = ConsumerRecord | GroupTombstone


class MemberState(IntEnum):
    """The state of a member in its reconciliation, with Kafka's numbers."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it has yet to say that it gave up some
    UNRELEASED_PARTITIONS = 2  # it waits for others to give up some


def to_partitions(assignment: Assignment) -> tuple[TopicPartitions, ...]:
    """An assignment as in records: sorted, without empty topics."""
    return tuple(
        TopicPartitions(topic_id, tuple(sorted(assignment[topic_id])))
        for topic_id in sorted(assignment)
        if assignment[topic_id]
    )


@dataclass(slots=True)
class ConsumerGroup:
    """A group, its members, and their target and current assignments."""

    group: str
    is_recorded: bool = False
    epoch: int = 0
    metadata_hash: int = 0
    target_epoch: int = 0
    target_time_ms: int = -1
    members: dict[str, ConsumerMemberRecord] = field(default_factory=dict)
    targets: dict[str, ConsumerTargetMemberRecord] = field(default_factory=dict)
    currents: dict[str, ConsumerCurrentMemberRecord] = field(default_factory=dict)
    regexes: dict[str, ConsumerRegexRecord] = field(default_factory=dict)
    owners: dict[UUID, dict[int, str]] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    # Soft: the classic members that were told to join again, whose time for that runs.
    awaited: set[str] = field(default_factory=set, compare=False)

    # Questions.

    @property
    def is_gone(self) -> bool:
        """Whether nothing of the group is left in the log."""
        return not (
            self.is_recorded or self.target_epoch or self.members or self.targets or self.currents or self.regexes
        )

    def current_of(self, member_id: str) -> ConsumerCurrentMemberRecord:
        """The current assignment of a member; empty, in epoch 0, if it just joined."""
        current = self.currents.get(member_id)
        return ConsumerCurrentMemberRecord(self.group, member_id, 0, 0) if current is None else current

    def target_of(self, member_id: str) -> tuple[TopicPartitions, ...]:
        target = self.targets.get(member_id)
        return () if target is None else target.partitions

    def owner_of(self, topic_id: UUID, partition: int) -> str | None:
        """The member that has a partition, or has yet to revoke it."""
        return self.owners.get(topic_id, {}).get(partition)

    def is_reconciled(self, member_id: str) -> bool:
        """Whether a member has reached its target."""
        current = self.current_of(member_id)
        return current.state == MemberState.STABLE and current.epoch == self.target_epoch

    def topics_of(self, member: ConsumerMemberRecord) -> Iterator[str]:
        """The names that a member is subscribed to, by name or by its expression."""
        yield from member.topics
        if member.regex is not None and member.regex in self.regexes:
            yield from self.regexes[member.regex].topics

    def subscribed_topics(self) -> frozenset[str]:
        """Every topic name with a subscriber, whether the topic exists or not."""
        # Members mostly ask for the same: each thing that is asked for is looked at once.
        asked = {(member.topics, member.regex): member for member in self.members.values()}
        return frozenset(name for member in asked.values() for name in self.topics_of(member))

    def topic_ids_of(self, member: ConsumerMemberRecord, topics: Topics) -> frozenset[UUID]:
        """The existing topics that a member is subscribed to."""
        return frozenset(topics[name].topic_id for name in self.topics_of(member) if name in topics)

    # Changes.

    def copy(self) -> "ConsumerGroup":
        """A copy that can be changed independently."""
        return ConsumerGroup(
            self.group,
            self.is_recorded,
            self.epoch,
            self.metadata_hash,
            self.target_epoch,
            self.target_time_ms,
            self.members.copy(),
            self.targets.copy(),
            self.currents.copy(),
            self.regexes.copy(),
            {topic_id: owners.copy() for topic_id, owners in self.owners.items()},
            self.static_members.copy(),
            self.awaited,
        )

    def apply(self, entry: ConsumerEntry) -> None:
        """Apply one entry of the log about this group."""
        if isinstance(entry, GroupTombstone):
            _REMOVE[entry.of](self, str(entry.key[-1]))
        else:
            _APPLY[type(entry)](self, entry)

    def to_records(self) -> Iterator[ConsumerRecord]:
        """The records that make an empty group equal to this one."""
        if self.is_recorded:
            yield ConsumerGroupRecord(self.group, self.epoch, self.metadata_hash)
        for member_id in sorted(self.members):
            yield self.members[member_id]
        for regex in sorted(self.regexes):
            yield self.regexes[regex]
        for member_id in sorted(self.targets):
            yield self.targets[member_id]
        if self.target_epoch:
            yield ConsumerTargetEpochRecord(self.group, self.target_epoch, self.target_time_ms)
        for member_id in sorted(self.currents):
            yield self.currents[member_id]

    def find(self, of: type[GroupRecord], name: str) -> ConsumerRecord | None:
        """The record of a type, by the end of its key: a member, an expression, or the group."""
        if of is ConsumerGroupRecord:
            return ConsumerGroupRecord(self.group, self.epoch, self.metadata_hash) if self.is_recorded else None
        if of is ConsumerTargetEpochRecord:
            is_there = self.target_epoch > 0
            return ConsumerTargetEpochRecord(self.group, self.target_epoch, self.target_time_ms) if is_there else None
        held: dict[type, Mapping[str, ConsumerRecord]] = {
            ConsumerMemberRecord: self.members,
            ConsumerTargetMemberRecord: self.targets,
            ConsumerCurrentMemberRecord: self.currents,
            ConsumerRegexRecord: self.regexes,
        }
        return held[of].get(name)

    # One for each type of record, and of what removes it.

    def _apply_group(self, record: ConsumerGroupRecord) -> None:
        self.is_recorded, self.epoch, self.metadata_hash = True, record.epoch, record.metadata_hash

    def _remove_group(self, _: str) -> None:
        self.is_recorded, self.epoch, self.metadata_hash = False, 0, 0

    def _apply_member(self, record: ConsumerMemberRecord) -> None:
        self._remove_member(record.member_id)
        self.members[record.member_id] = record
        if record.instance_id is not None:
            self.static_members[record.instance_id] = record.member_id

    def _remove_member(self, member_id: str) -> None:
        old = self.members.pop(member_id, None)
        if old is not None and old.instance_id is not None and self.static_members[old.instance_id] == member_id:
            del self.static_members[old.instance_id]

    def _apply_target_epoch(self, record: ConsumerTargetEpochRecord) -> None:
        self.target_epoch, self.target_time_ms = record.epoch, record.time_ms

    def _remove_target_epoch(self, _: str) -> None:
        self.target_epoch, self.target_time_ms = 0, -1

    def _apply_target(self, record: ConsumerTargetMemberRecord) -> None:
        self.targets[record.member_id] = record

    def _remove_target(self, member_id: str) -> None:
        self.targets.pop(member_id, None)

    def _apply_current(self, record: ConsumerCurrentMemberRecord) -> None:
        self._remove_current(record.member_id)
        self.currents[record.member_id] = record
        for held in (*record.assigned, *record.pending_revocation):
            self.owners.setdefault(held.topic_id, {}).update(dict.fromkeys(held.partitions, record.member_id))

    def _remove_current(self, member_id: str) -> None:
        old = self.currents.pop(member_id, None)
        if old is None:
            return
        for held in (*old.assigned, *old.pending_revocation):
            owners = self.owners[held.topic_id]
            for partition in held.partitions:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                del self.owners[held.topic_id]

    def _apply_regex(self, record: ConsumerRegexRecord) -> None:
        self.regexes[record.regex] = record

    def _remove_regex(self, regex: str) -> None:
        self.regexes.pop(regex, None)


_APPLY: Final[dict[type, Callable[[ConsumerGroup, Any], None]]] = {
    ConsumerGroupRecord: ConsumerGroup._apply_group,
    ConsumerMemberRecord: ConsumerGroup._apply_member,
    ConsumerTargetEpochRecord: ConsumerGroup._apply_target_epoch,
    ConsumerTargetMemberRecord: ConsumerGroup._apply_target,
    ConsumerCurrentMemberRecord: ConsumerGroup._apply_current,
    ConsumerRegexRecord: ConsumerGroup._apply_regex,
}
_REMOVE: Final[dict[type[GroupRecord], Callable[[ConsumerGroup, str], None]]] = {
    ConsumerGroupRecord: ConsumerGroup._remove_group,
    ConsumerMemberRecord: ConsumerGroup._remove_member,
    ConsumerTargetEpochRecord: ConsumerGroup._remove_target_epoch,
    ConsumerTargetMemberRecord: ConsumerGroup._remove_target,
    ConsumerCurrentMemberRecord: ConsumerGroup._remove_current,
    ConsumerRegexRecord: ConsumerGroup._remove_regex,
}


def preferred_assignor(group: ConsumerGroup) -> str | None:
    """The assignor that most members ask for, the first by name of several; None if no member asks for any."""
    votes = Counter(member.assignor for member in group.members.values() if member.assignor is not None)
    return min(votes, key=lambda name: (-votes[name], name), default=None)


def unmatched_regexes(group: ConsumerGroup) -> list[str]:
    """The expressions of members that have not been matched with the topics yet, in order."""
    asked = {member.regex for member in group.members.values() if member.regex is not None}
    return sorted(asked - group.regexes.keys())


def tombstones(group: ConsumerGroup, member_ids: Iterable[str]) -> list[GroupTombstone]:
    """The tombstones of members: of their current and target assignments, and of the members themselves."""
    return [
        GroupTombstone(of, (group.group, member_id))
        for member_id in member_ids
        for of in (ConsumerCurrentMemberRecord, ConsumerTargetMemberRecord, ConsumerMemberRecord)
    ]


def group_tombstones(group: ConsumerGroup) -> list[GroupTombstone]:
    """The tombstones of the whole group."""
    member_ids = sorted({**group.members, **group.targets, **group.currents})
    return [
        *tombstones(group, member_ids),
        *(GroupTombstone(ConsumerRegexRecord, (group.group, regex)) for regex in sorted(group.regexes)),
        GroupTombstone(ConsumerTargetEpochRecord, (group.group,)),
        GroupTombstone(ConsumerGroupRecord, (group.group,)),
    ]
