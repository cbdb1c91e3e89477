"""A share group (KIP-932) as the coordinator log has it. Only `apply` changes it, one entry of the log at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from uuid import UUID

from barnabas.core.groups.records import (
    GroupRecord,
    GroupTombstone,
    ShareCurrentMemberRecord,
    ShareGroupRecord,
    ShareMemberRecord,
    ShareRecord,
    ShareStatesRecord,
    ShareTargetEpochRecord,
    ShareTargetMemberRecord,
    StateTopic,
    TopicPartitions,
)

ShareEntry: TypeAlias = ShareRecord | GroupTombstone

SHARE_RECORDS: Final = (
    ShareMemberRecord,
    ShareGroupRecord,
    ShareTargetEpochRecord,
    ShareTargetMemberRecord,
    ShareCurrentMemberRecord,
    ShareStatesRecord,
)


@dataclass(slots=True)
class ShareGroup:
    """A group, its members, what they have, and the partitions whose state there is."""

    group: str
    is_recorded: bool = False
    epoch: int = 0
    metadata_hash: int = 0
    target_epoch: int = 0
    target_time_ms: int = 0
    members: dict[str, ShareMemberRecord] = field(default_factory=dict)
    targets: dict[str, ShareTargetMemberRecord] = field(default_factory=dict)
    currents: dict[str, ShareCurrentMemberRecord] = field(default_factory=dict)
    states: ShareStatesRecord | None = None

    @property
    def is_gone(self) -> bool:
        """Whether nothing of the group is left in the log."""
        return not (
            self.is_recorded
            or self.target_epoch
            or self.members
            or self.targets
            or self.currents
            or self.states is not None
        )

    def current_of(self, member_id: str) -> ShareCurrentMemberRecord:
        """What a member has; nothing, in epoch 0, if it just joined."""
        current = self.currents.get(member_id)
        return ShareCurrentMemberRecord(self.group, member_id, 0, 0) if current is None else current

    def target_of(self, member_id: str) -> tuple[TopicPartitions, ...]:
        target = self.targets.get(member_id)
        return () if target is None else target.partitions

    def subscribed_topics(self) -> list[str]:
        """Every topic name with a subscriber, whether the topic exists or not, in order."""
        asked = {member.topics for member in self.members.values()}
        return sorted({name for topics in asked for name in topics})

    @property
    def initializing(self) -> Mapping[UUID, StateTopic]:
        return {} if self.states is None else {each.topic_id: each for each in self.states.initializing}

    @property
    def initialized(self) -> Mapping[UUID, StateTopic]:
        return {} if self.states is None else {each.topic_id: each for each in self.states.initialized}

    @property
    def deleting(self) -> Mapping[UUID, StateTopic]:
        return {} if self.states is None else {each.topic_id: each for each in self.states.deleting}

    def copy(self) -> "ShareGroup":
        """A copy that can be changed independently."""
        return ShareGroup(
            self.group,
            self.is_recorded,
            self.epoch,
            self.metadata_hash,
            self.target_epoch,
            self.target_time_ms,
            self.members.copy(),
            self.targets.copy(),
            self.currents.copy(),
            self.states,
        )

    def apply(self, entry: ShareEntry) -> None:
        """Apply one entry of the log about this group."""
        if isinstance(entry, GroupTombstone):
            _REMOVE[entry.of](self, str(entry.key[-1]))
        else:
            _APPLY[type(entry)](self, entry)

    def to_records(self) -> Iterator[ShareRecord]:
        """The records that make an empty group equal to this one."""
        for member_id in sorted(self.members):
            yield self.members[member_id]
        if self.is_recorded:
            yield ShareGroupRecord(self.group, self.epoch, self.metadata_hash)
        for member_id in sorted(self.targets):
            yield self.targets[member_id]
        if self.target_epoch:
            yield ShareTargetEpochRecord(self.group, self.target_epoch, self.target_time_ms)
        for member_id in sorted(self.currents):
            yield self.currents[member_id]
        if self.states is not None:
            yield self.states

    # One for each type of record, and of what removes it.

    def _apply_group(self, record: ShareGroupRecord) -> None:
        self.is_recorded, self.epoch, self.metadata_hash = True, record.epoch, record.metadata_hash

    def _remove_group(self, _: str) -> None:
        self.is_recorded, self.epoch, self.metadata_hash = False, 0, 0

    def _apply_member(self, record: ShareMemberRecord) -> None:
        self.members[record.member_id] = record

    def _remove_member(self, member_id: str) -> None:
        self.members.pop(member_id, None)

    def _apply_target_epoch(self, record: ShareTargetEpochRecord) -> None:
        self.target_epoch, self.target_time_ms = record.epoch, record.time_ms

    def _remove_target_epoch(self, _: str) -> None:
        self.target_epoch, self.target_time_ms = 0, 0

    def _apply_target(self, record: ShareTargetMemberRecord) -> None:
        self.targets[record.member_id] = record

    def _remove_target(self, member_id: str) -> None:
        self.targets.pop(member_id, None)

    def _apply_current(self, record: ShareCurrentMemberRecord) -> None:
        self.currents[record.member_id] = record

    def _remove_current(self, member_id: str) -> None:
        self.currents.pop(member_id, None)

    def _apply_states(self, record: ShareStatesRecord) -> None:
        self.states = record

    def _remove_states(self, _: str) -> None:
        self.states = None


_APPLY: Final[dict[type, Callable[[ShareGroup, Any], None]]] = {
    ShareMemberRecord: ShareGroup._apply_member,
    ShareGroupRecord: ShareGroup._apply_group,
    ShareTargetEpochRecord: ShareGroup._apply_target_epoch,
    ShareTargetMemberRecord: ShareGroup._apply_target,
    ShareCurrentMemberRecord: ShareGroup._apply_current,
    ShareStatesRecord: ShareGroup._apply_states,
}
_REMOVE: Final[dict[type[GroupRecord], Callable[[ShareGroup, str], None]]] = {
    ShareMemberRecord: ShareGroup._remove_member,
    ShareGroupRecord: ShareGroup._remove_group,
    ShareTargetEpochRecord: ShareGroup._remove_target_epoch,
    ShareTargetMemberRecord: ShareGroup._remove_target,
    ShareCurrentMemberRecord: ShareGroup._remove_current,
    ShareStatesRecord: ShareGroup._remove_states,
}


def member_tombstones(group: ShareGroup, member_ids: Iterable[str]) -> list[GroupTombstone]:
    """The tombstones of members."""
    return [
        GroupTombstone(of, (group.group, member_id))
        for member_id in member_ids
        for of in (ShareCurrentMemberRecord, ShareTargetMemberRecord, ShareMemberRecord)
    ]


def share_group_tombstones(group: ShareGroup) -> list[GroupTombstone]:
    """The tombstones of the whole group."""
    return [
        *member_tombstones(group, sorted({**group.members, **group.targets, **group.currents})),
        GroupTombstone(ShareTargetEpochRecord, (group.group,)),
        *([] if group.states is None else [GroupTombstone(ShareStatesRecord, (group.group,))]),
        GroupTombstone(ShareGroupRecord, (group.group,)),
    ]
