"""Since when a member of a consumer group has each of its partitions (KIP-1251).

A commit in an older epoch is valid for a partition that the member has had ever since. A record leaves out epochs that
equal its own: so do records from before epochs were stored, whose members have their partitions since the epoch of the
record.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

from barnabas.core.groups.records import ConsumerCurrentMemberRecord, TopicPartitions

Epochs: TypeAlias = tuple[tuple[int, ...], ...]
Since: TypeAlias = Mapping[tuple[UUID, int], int]


def assigned_since(current: ConsumerCurrentMemberRecord) -> Since:
    """The epoch in which each partition was assigned to the member."""
    return _since(current.assigned, current.assigned_epochs, current.epoch)


def held_since(current: ConsumerCurrentMemberRecord) -> Since:
    """As `assigned_since`, with those that the member has yet to give up."""
    pending = _since(current.pending_revocation, current.pending_epochs, current.epoch)
    return {**pending, **assigned_since(current)}


def _since(held: Sequence[TopicPartitions], epochs: Epochs, own_epoch: int) -> dict[tuple[UUID, int], int]:
    if not epochs:
        epoch = max(own_epoch, 0)  # a static member that is away for a moment has none
        return {(each.topic_id, partition): epoch for each in held for partition in each.partitions}
    return {
        (each.topic_id, partition): epoch
        for each, numbers in zip(held, epochs, strict=True)
        for partition, epoch in zip(each.partitions, numbers, strict=True)
    }


def epochs_of(held: Iterable[TopicPartitions], since: Since, *, own_epoch: int) -> Epochs:
    """The epochs of partitions as a record of `own_epoch` holds them: those known, and its own for the others."""
    epochs = tuple(
        tuple(since.get((each.topic_id, partition), own_epoch) for partition in each.partitions) for each in held
    )
    return () if all(epoch == own_epoch for numbers in epochs for epoch in numbers) else epochs
