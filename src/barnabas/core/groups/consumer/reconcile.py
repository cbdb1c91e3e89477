"""Reconciliation: the next step of one member from its current to its target assignment.

Owns the rule that makes incremental rebalances safe: a partition is assigned to a member only when no other has it, and
a member has it until it acknowledges its revocation. Revocation comes first: until it is acknowledged, the member stays
in its epoch. Must not know of groups, requests or records other than the member's own.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

import msgspec

from barnabas.core.groups.consumer.assignment_epochs import assigned_since, epochs_of, held_since
from barnabas.core.groups.consumer.state import MemberState, to_partitions
from barnabas.core.groups.records import ConsumerCurrentMemberRecord, TopicPartitions


class Goal(NamedTuple):
    """The target of a member, and what is needed to get there."""

    epoch: int
    target: tuple[TopicPartitions, ...]
    subscribed: Collection[UUID]
    owned: tuple[TopicPartitions, ...] | None  # what the member says it has; None when it does not say
    owner_of: Callable[[UUID, int], str | None]
    has_new_subscription: bool = False


def reconcile(current: ConsumerCurrentMemberRecord, goal: Goal) -> ConsumerCurrentMemberRecord:
    """The assignment of the member after this step; unchanged if it cannot proceed yet."""
    waits = current.state == MemberState.UNREVOKED_PARTITIONS and _still_owns(goal.owned, current.pending_revocation)
    arrived = current.state == MemberState.STABLE and current.epoch == goal.epoch
    if not waits and not arrived:
        return _step(current, goal)
    return _drop_unsubscribed(current, goal) if goal.has_new_subscription else current


def _step(current: ConsumerCurrentMemberRecord, goal: Goal) -> ConsumerCurrentMemberRecord:
    had = _sets(current.assigned)
    wanted = {topic_id: wants for topic_id, wants in _sets(goal.target).items() if topic_id in goal.subscribed}
    kept = {topic_id: has & wanted[topic_id] for topic_id, has in had.items() if topic_id in wanted}
    revoked = to_partitions({topic_id: has - wanted.get(topic_id, set()) for topic_id, has in had.items()})
    if revoked and _still_owns(goal.owned, revoked):
        return _moved(
            current,
            epoch=current.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=to_partitions(kept),
            pending_revocation=revoked,
        )
    free = {
        topic_id: {
            partition
            for partition in sorted(wants - kept.get(topic_id, set()))
            if goal.owner_of(topic_id, partition) in (None, current.member_id)
        }
        for topic_id, wants in wanted.items()
    }
    assigned = {topic_id: kept.get(topic_id, set()) | free[topic_id] for topic_id in wanted}
    is_whole = all(len(assigned[topic_id]) == len(wants) for topic_id, wants in wanted.items())
    return _moved(
        current,
        epoch=goal.epoch,
        state=MemberState.STABLE if is_whole else MemberState.UNRELEASED_PARTITIONS,
        assigned=to_partitions(assigned),
        pending_revocation=(),
    )


def _drop_unsubscribed(current: ConsumerCurrentMemberRecord, goal: Goal) -> ConsumerCurrentMemberRecord:
    """A member loses topics that it has unsubscribed from, even before its next target is computed."""
    dropped = {held.topic_id: held.partitions for held in current.assigned if held.topic_id not in goal.subscribed}
    if not dropped:
        return current
    kept = tuple(held for held in current.assigned if held.topic_id in goal.subscribed)
    pending = {topic_id: frozenset(held) for topic_id, held in _sets(current.pending_revocation).items()}
    for topic_id, partitions in dropped.items():
        pending[topic_id] = pending.get(topic_id, frozenset()) | frozenset(partitions)
    revoked = to_partitions(pending)
    if not _still_owns(goal.owned, revoked):
        epochs = epochs_of(kept, assigned_since(current), own_epoch=current.epoch)
        return msgspec.structs.replace(current, previous_epoch=current.epoch, assigned=kept, assigned_epochs=epochs)
    return _moved(
        current,
        epoch=current.epoch,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned=kept,
        pending_revocation=revoked,
    )


def _moved(
    current: ConsumerCurrentMemberRecord,
    *,
    epoch: int,
    state: MemberState,
    assigned: tuple[TopicPartitions, ...],
    pending_revocation: tuple[TopicPartitions, ...],
) -> ConsumerCurrentMemberRecord:
    same_place = (epoch, state, assigned, pending_revocation) == (
        current.epoch,
        current.state,
        current.assigned,
        current.pending_revocation,
    )
    if same_place:
        return current
    return ConsumerCurrentMemberRecord(
        current.group,
        current.member_id,
        epoch,
        current.epoch,
        int(state),
        assigned,
        pending_revocation,
        epochs_of(assigned, assigned_since(current), own_epoch=epoch),
        epochs_of(pending_revocation, held_since(current), own_epoch=epoch),
    )


def _still_owns(owned: tuple[TopicPartitions, ...] | None, revoked: Iterable[TopicPartitions]) -> bool:
    """Whether the member has not acknowledged the revocation of all of these."""
    if owned is None:
        return True
    gone = _sets(revoked)
    return any(not gone[held.topic_id].isdisjoint(held.partitions) for held in owned if held.topic_id in gone)


def owns_only(owned: tuple[TopicPartitions, ...] | None, assigned: Iterable[TopicPartitions]) -> bool:
    """Whether the member reports its partitions, and all of them are assigned to it."""
    if owned is None:
        return False
    allowed = _sets(assigned)
    return all(allowed.get(held.topic_id, set()).issuperset(held.partitions) for held in owned)


def _sets(partitions: Iterable[TopicPartitions]) -> Mapping[UUID, set[int]]:
    return {held.topic_id: set(held.partitions) for held in partitions}
