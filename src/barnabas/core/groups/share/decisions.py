"""Decisions about share groups (KIP-932): heartbeats, sessions, changes of topics, and whose state there is.

Members of a share group share partitions, so nobody waits for anybody to give one up: a member has its target with the
next heartbeat. A partition is assigned only once a share coordinator has its state: `initializing` says in the log that
this was begun, `initialized` that it is done, `deleting` that a topic's state is being deleted. Each is written before
the share coordinators are asked, so that whoever coordinates next goes on with it.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TypeVar
from uuid import UUID

import msgspec

from barnabas.core.coordination import CancelTimer, Decision, SetTimer, TimerChange
from barnabas.core.errors import FencedMemberEpoch, GroupIdNotFound, GroupMaxSizeReached, UnknownMemberId
from barnabas.core.groups.consumer.state import Topics, to_partitions
from barnabas.core.groups.decision import SESSION, GroupDecision, TimerKey
from barnabas.core.groups.records import (
    GroupEntry,
    ShareCurrentMemberRecord,
    ShareGroupRecord,
    ShareMemberRecord,
    ShareStatesRecord,
    ShareTargetEpochRecord,
    ShareTargetMemberRecord,
    StateTopic,
)
from barnabas.core.groups.settings import ShareConfig
from barnabas.core.groups.share.assigning import assign_simply
from barnabas.core.groups.share.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ShareHeartbeat,
    ShareHeartbeatReply,
    check_heartbeat,
)
from barnabas.core.groups.share.state import ShareEntry, ShareGroup, member_tombstones

T = TypeVar("T")


class ShareDraft:
    """A group with the changes of one decision: see `consumer.draft`."""

    def __init__(self, group: ShareGroup, *, topics: Topics, now_ms: int = 0) -> None:
        self.state = group
        self.topics = topics
        self.now_ms = now_ms
        self.records: list[GroupEntry] = []
        self.timers: list[TimerChange] = []
        self._is_copy = False

    def write(self, *entries: ShareEntry) -> None:
        """Add records, which take effect in this draft."""
        if entries and not self._is_copy:
            self.state, self._is_copy = self.state.copy(), True
        for entry in entries:
            self.records.append(entry)
            self.state.apply(entry)

    def decide(self, reply: T) -> GroupDecision[T]:
        return Decision(self.records, reply, self.timers)

    def bump_epoch(self) -> None:
        """Raise the group epoch: a new target is due."""
        self.write(ShareGroupRecord(self.state.group, self.state.epoch + 1, self.hash_metadata()))

    def hash_metadata(self) -> int:
        """A hash of the topics that the group is subscribed to, as far as the target depends on them; 0: none."""
        digest = blake2b(digest_size=7)
        names = [name for name in self.state.subscribed_topics() if name in self.topics]
        for name in names:
            info = self.topics[name]
            digest.update(repr((name, info.topic_id.hex, info.partition_count)).encode())
        return int.from_bytes(digest.digest(), "big") if names else 0

    def write_states(self, initializing: Mapping[UUID, StateTopic], initialized: Mapping[UUID, StateTopic]) -> None:
        """Record whose state is being made, and whose there is."""
        deleting = self.state.deleting
        self.write(states_record(self.state.group, initializing, initialized, deleting))

    def begin_initializing(self) -> None:
        """Record which partitions of subscribed topics need a state."""
        initializing, initialized = dict(self.state.initializing), self.state.initialized
        is_news = False
        for name in self.state.subscribed_topics():
            info = self.topics.get(name)
            if info is None or info.topic_id in self.state.deleting:
                continue
            known = {
                *initialized.get(info.topic_id, StateTopic(info.topic_id, name)).partitions,
                *initializing.get(info.topic_id, StateTopic(info.topic_id, name)).partitions,
            }
            if len(known) < info.partition_count:
                before = initializing.get(info.topic_id, StateTopic(info.topic_id, name)).partitions
                missing = set(range(info.partition_count)) - known
                initializing[info.topic_id] = StateTopic(info.topic_id, name, tuple(sorted({*before, *missing})))
                is_news = True
        if is_news:
            self.write_states(initializing, initialized)

    def update_target(self) -> None:
        """Compute the target of each member, if that is due."""
        state = self.state
        if state.target_epoch >= state.epoch:
            return
        ids = {name: info.topic_id for name, info in self.topics.items()}
        subscriptions = {
            member_id: frozenset(ids[name] for name in member.topics if name in ids)
            for member_id, member in state.members.items()
        }
        partitions = {topic_id: topic.partitions for topic_id, topic in state.initialized.items()}
        previous = {
            member_id: [(held.topic_id, index) for held in state.target_of(member_id) for index in held.partitions]
            for member_id in state.members
        }
        for member_id, target in sorted(assign_simply(subscriptions, partitions, previous).items()):
            found = to_partitions(target)
            known = state.targets.get(member_id)
            if known is None or known.partitions != found:
                self.write(ShareTargetMemberRecord(state.group, member_id, found))
        self.write(ShareTargetEpochRecord(state.group, self.state.epoch, self.now_ms))

    def reconcile(self, member_id: str) -> ShareCurrentMemberRecord:
        """Give a member its target."""
        current, target = self.state.current_of(member_id), self.state.target_of(member_id)
        if current.epoch == self.state.target_epoch and current.assigned == target:
            return current
        after = ShareCurrentMemberRecord(self.state.group, member_id, self.state.target_epoch, current.epoch, 0, target)
        self.write(after)
        return after

    def remove_members(self, member_ids: Iterable[str]) -> None:
        """Remove members: their partitions go to the others."""
        ids = list(member_ids)
        self.timers += [CancelTimer(TimerKey(SESSION, self.state.group, member_id)) for member_id in ids]
        self.write(*member_tombstones(self.state, ids))
        self.bump_epoch()
        if not self.state.members:
            self.write(ShareTargetEpochRecord(self.state.group, self.state.epoch))


def decide_heartbeat(
    group: ShareGroup | None,
    request: ShareHeartbeat,
    *,
    is_taken: bool,
    now_ms: int,
    topics: Topics,
    config: ShareConfig,
) -> GroupDecision[ShareHeartbeatReply]:
    """Decide on a heartbeat. The group may not exist (None); `is_taken`: there is one of another type of that name."""
    check_heartbeat(request)
    if is_taken:
        raise GroupIdNotFound(f"Group {request.group} is not a share group.")
    if group is None:
        if request.member_epoch != JOIN_EPOCH:
            raise GroupIdNotFound(f"Share group {request.group} not found.")
        group = ShareGroup(request.group)
    draft = ShareDraft(group, topics=topics, now_ms=now_ms)
    if request.member_epoch == LEAVE_EPOCH:
        _find_member(group, request.member_id)
        draft.remove_members([request.member_id])
        return draft.decide(ShareHeartbeatReply(member_id=request.member_id, member_epoch=LEAVE_EPOCH))
    if request.member_id not in group.members and len(group.members) >= config.max_size:
        raise GroupMaxSizeReached(f"The share group has reached its maximum capacity of {config.max_size} members.")
    if request.member_epoch != JOIN_EPOCH:
        _check_epoch(group, _find_member(group, request.member_id), request.member_epoch)
    return _take_heartbeat(draft, request, config)


def _take_heartbeat(
    draft: ShareDraft, request: ShareHeartbeat, config: ShareConfig
) -> GroupDecision[ShareHeartbeatReply]:
    member_id = request.member_id
    had = draft.state.current_of(member_id)
    before = draft.state.members.get(member_id)
    member = _updated(draft.state, request)
    if member != before:
        draft.write(member)
    is_new = before is None or before.topics != member.topics
    if is_new or draft.state.epoch == 0 or draft.hash_metadata() != draft.state.metadata_hash:
        draft.bump_epoch()
    draft.begin_initializing()
    draft.update_target()
    current = draft.reconcile(member_id)
    draft.timers.append(SetTimer(TimerKey(SESSION, request.group, member_id), config.session_timeout_ms))
    # In an epoch before its last one: the answer was lost that told it of that, and its assignment with it.
    is_full = request.topics is not None or request.member_epoch != had.epoch
    return draft.decide(
        ShareHeartbeatReply(
            member_id=member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            assignment=current.assigned if is_full or current.assigned != had.assigned else None,
            initialize=_to_initialize(draft.state),
        )
    )


def _to_initialize(group: ShareGroup) -> tuple[StateTopic, ...]:
    """The partitions that have no state yet. One that has keeps it, even if it was to be made anew."""
    initialized = group.initialized
    found = []
    for topic_id, topic in group.initializing.items():
        has = set(initialized[topic_id].partitions) if topic_id in initialized else set()
        missing = tuple(index for index in topic.partitions if index not in has)
        if missing:
            found.append(StateTopic(topic_id, topic.name, missing))
    return tuple(found)


def _find_member(group: ShareGroup, member_id: str) -> ShareMemberRecord:
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"Member {member_id} is not a member of group {group.group}.")
    return member


def _check_epoch(group: ShareGroup, member: ShareMemberRecord, epoch: int) -> None:
    """A member must be in the epoch of its last answer, or in that before it: the answer may have been lost."""
    current = group.current_of(member.member_id)
    if epoch in (current.epoch, current.previous_epoch):
        return
    how = "greater" if epoch > current.epoch else "smaller"
    raise FencedMemberEpoch(
        f"The share group member has a {how} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.epoch}). The member must abandon all its partitions and rejoin."
    )


def _updated(group: ShareGroup, request: ShareHeartbeat) -> ShareMemberRecord:
    known = group.members.get(request.member_id) or ShareMemberRecord(group.group, request.member_id)
    return msgspec.structs.replace(
        known,
        rack=known.rack if request.rack is None else request.rack,
        topics=known.topics if request.topics is None else tuple(sorted(set(request.topics))),
        client_id=request.client_id,
        client_host=request.client_host,
    )


# Time and topics.


def on_timer(group: ShareGroup, key: TimerKey, *, topics: Topics, now_ms: int) -> GroupDecision[bool]:
    """A member's session has ended; whether it was still a member."""
    draft = ShareDraft(group, topics=topics, now_ms=now_ms)
    if key.member_id not in group.members:
        return draft.decide(False)
    draft.remove_members([key.member_id])
    return draft.decide(True)


def timers_after_load(group: ShareGroup, config: ShareConfig) -> list[TimerChange]:
    """All members get their full time again."""
    return [
        SetTimer(TimerKey(SESSION, group.group, member_id), config.session_timeout_ms) for member_id in group.members
    ]


def on_topics_change(group: ShareGroup, *, topics: Topics, now_ms: int) -> GroupDecision[bool]:
    """Topics have changed: raise the epoch if the group is affected, and forget the states of deleted ones.

    The share coordinators hear of deleted topics by themselves.
    """
    draft = ShareDraft(group, topics=topics, now_ms=now_ms)
    there = {info.topic_id for info in topics.values()}
    known = (group.initializing, group.initialized, group.deleting)
    if any(topic_id not in there for states in known for topic_id in states):
        initializing, initialized, deleting = (
            {topic_id: topic for topic_id, topic in states.items() if topic_id in there} for states in known
        )
        draft.write(states_record(group.group, initializing, initialized, deleting))
    if group.members and draft.hash_metadata() != group.metadata_hash:
        draft.bump_epoch()
    return draft.decide(bool(draft.records))


# Whose state there is.


def states_record(
    group: str,
    initializing: Mapping[UUID, StateTopic],
    initialized: Mapping[UUID, StateTopic],
    deleting: Mapping[UUID, StateTopic],
) -> ShareStatesRecord:
    """The record of these, in order and without empty ones."""

    def in_order(topics: Mapping[UUID, StateTopic]) -> tuple[StateTopic, ...]:
        return tuple(topics[topic_id] for topic_id in sorted(topics) if topics[topic_id].partitions)

    names = tuple(StateTopic(topic_id, deleting[topic_id].name) for topic_id in sorted(deleting))
    return ShareStatesRecord(group, in_order(initializing), in_order(initialized), names)


def decide_initializing(group: ShareGroup, wanted: Iterable[StateTopic], *, topics: Topics) -> GroupDecision[None]:
    """The states of these are about to be made, or made anew."""
    draft = ShareDraft(group, topics=topics)
    initializing = dict(group.initializing)
    if not group.is_recorded:
        draft.bump_epoch()
    for topic in wanted:
        before = initializing.get(topic.topic_id, topic).partitions
        initializing[topic.topic_id] = StateTopic(
            topic.topic_id, topic.name, tuple(sorted({*before, *topic.partitions}))
        )
    draft.write_states(initializing, group.initialized)
    return draft.decide(None)


def decide_initialized(group: ShareGroup, done: Iterable[StateTopic], *, topics: Topics) -> GroupDecision[None]:
    """Share coordinators have the states of these: they can be assigned."""
    draft = ShareDraft(group, topics=topics)
    initializing, initialized = dict(group.initializing), dict(group.initialized)
    for topic in done:
        waiting = initializing.get(topic.topic_id)
        if waiting is None:
            continue  # deleted meanwhile
        ready = set(topic.partitions) & set(waiting.partitions)
        initializing[topic.topic_id] = StateTopic(
            topic.topic_id, topic.name, tuple(sorted(set(waiting.partitions) - ready))
        )
        known = initialized.get(topic.topic_id, StateTopic(topic.topic_id, topic.name)).partitions
        initialized[topic.topic_id] = StateTopic(topic.topic_id, topic.name, tuple(sorted({*known, *ready})))
    if initialized != group.initialized or initializing != group.initializing:
        draft.write_states(initializing, initialized)
        if group.members:
            draft.bump_epoch()
    return draft.decide(None)


def decide_deleting(group: ShareGroup, topic_ids: Iterable[UUID]) -> GroupDecision[list[StateTopic]]:
    """The states of these topics are about to be deleted: the partitions that have one, by topic."""
    initializing, initialized, deleting = dict(group.initializing), dict(group.initialized), dict(group.deleting)
    gone: list[StateTopic] = []
    for topic_id in topic_ids:
        parts = [states.pop(topic_id) for states in (initializing, initialized) if topic_id in states]
        if parts:
            partitions = tuple(sorted({index for part in parts for index in part.partitions}))
            gone.append(StateTopic(topic_id, parts[0].name, partitions))
            deleting[topic_id] = gone[-1]
    if not gone:
        return Decision([], gone)
    return Decision([states_record(group.group, initializing, initialized, deleting)], gone)


def decide_deleted(group: ShareGroup, topic_ids: Iterable[UUID]) -> GroupDecision[None]:
    """The states of these topics are deleted."""
    gone = set(topic_ids)
    deleting = {topic_id: topic for topic_id, topic in group.deleting.items() if topic_id not in gone}
    if deleting == group.deleting:
        return Decision([], None)
    return Decision([states_record(group.group, group.initializing, group.initialized, deleting)], None)
