"""The replicated state of all groups of one partition of the coordinator log.

Owns that state; only `apply` changes it, one entry at a time, live and in a replay. The log is compacted, so an entry
may come without those it followed: each is applied on its own, and a tombstone of an unknown key changes nothing. The
same entries yield equal groups on every node.

A group has one type, by its records: a record of a classic group, records of a consumer group (KIP-848) or of a share
group (KIP-932), or only offsets, which is a simple group. A simple group exists from its first commit, also in a
transaction, until it is deleted or expires: it may have lost its offsets meanwhile, for example with their topics. A
compacted log has nothing of that, so after a restart such a group may be gone, as in Kafka.

Offsets that were committed in a transaction are pending until it ends. Of all commits for a partition the last one
counts, by its place in the log and not by when its transaction ended: compaction keeps the last, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from barnabas.core.groups.consumer.state import ConsumerEntry, ConsumerGroup, group_tombstones
from barnabas.core.groups.records import (
    ClassicGroupRecord,
    GroupEntry,
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
)
from barnabas.core.groups.share.state import SHARE_RECORDS, ShareEntry, ShareGroup, share_group_tombstones


class GroupType(Enum):
    """The type of a group, with the names that clients see."""

    CLASSIC = "Classic"  # simple groups too
    CONSUMER = "Consumer"
    SHARE = "Share"


# By topic and partition.
GroupOffsets: TypeAlias = Mapping[str, Mapping[int, OffsetRecord]]

# Group, topic and partition.
OffsetKey: TypeAlias = tuple[str, str, int]


class PendingOffset(NamedTuple):
    """An offset that takes effect once its transaction is committed."""

    number: int  # in the order of the log
    record: OffsetRecord


_NO_OFFSETS: Final[GroupOffsets] = MappingProxyType({})


@dataclass(slots=True)
class Groups:
    """The groups as of the log. Reading is free; only `apply` may change them."""

    classic: dict[str, ClassicGroupRecord] = field(default_factory=dict)
    consumer: dict[str, ConsumerGroup] = field(default_factory=dict)
    share: dict[str, ShareGroup] = field(default_factory=dict)
    offsets: dict[str, dict[str, dict[int, OffsetRecord]]] = field(default_factory=dict)
    pending: dict[int, dict[OffsetKey, PendingOffset]] = field(default_factory=dict)  # by the transaction's producer id
    # Groups of offsets alone, with or without any now. Not part of what a compacted log says.
    simple: set[str] = field(default_factory=set, compare=False)
    _pending_count: int = field(default=0, compare=False)

    def type_of(self, group: str) -> GroupType | None:
        """The type of a group; None if it does not exist."""
        if group in self.consumer:
            return GroupType.CONSUMER
        if group in self.share:
            return GroupType.SHARE
        is_there = group in self.classic or group in self.simple or group in self.offsets
        return GroupType.CLASSIC if is_there or self.has_pending(group) else None

    def offsets_of(self, group: str) -> GroupOffsets:
        """The committed offsets of a group."""
        return self.offsets.get(group, _NO_OFFSETS)

    def find_offset(self, group: str, topic: str, partition: int) -> OffsetRecord | None:
        """The committed offset of a group for a partition."""
        return self.offsets_of(group).get(topic, {}).get(partition)

    def has_pending(self, group: str) -> bool:
        """Whether a group has pending offsets."""
        return any(key[0] == group for keys in self.pending.values() for key in keys)

    def pending_of(self, group: str) -> set[tuple[str, int]]:
        """The partitions, by topic and number, with a pending offset of a group."""
        return {(key[1], key[2]) for keys in self.pending.values() for key in keys if key[0] == group}

    def all_pending(self) -> list[tuple[int, PendingOffset]]:
        """All pending offsets, with their producer ids, in the order of the log."""
        pending = [(producer_id, each) for producer_id, keys in self.pending.items() for each in keys.values()]
        return sorted(pending, key=lambda each: each[1].number)

    def ended_in_old_log(self) -> list[GroupTombstone]:
        """The ends of groups that earlier versions did not write: a simple group was gone with its last offset."""
        pending = {key[0] for keys in self.pending.values() for key in keys}
        gone = sorted(self.simple - self.offsets.keys() - pending)
        return [GroupTombstone(ClassicGroupRecord, (group,)) for group in gone]

    def find(self, tombstone: GroupTombstone) -> GroupRecord | None:
        """The records that a tombstone would remove."""
        group = tombstone.group
        if tombstone.of is OffsetRecord:
            return self.find_offset(group, str(tombstone.key[1]), int(tombstone.key[2]))
        if tombstone.of is ClassicGroupRecord:
            return self.classic.get(group)
        if tombstone.of in SHARE_RECORDS:
            return None  # earlier versions wrote none
        consumer = self.consumer.get(group)
        return None if consumer is None else consumer.find(tombstone.of, str(tombstone.key[-1]))

    def names(self) -> list[str]:
        """All groups, in order."""
        return sorted({*self.classic, *self.consumer, *self.share, *self.offsets, *self.simple})

    def tombstones_of_group(self, group: str) -> Iterator[GroupTombstone]:
        """The tombstones of a group, without its offsets."""
        if group in self.classic or group in self.simple:
            yield GroupTombstone(ClassicGroupRecord, (group,))
        yield from self.tombstones_of_consumer_group(group)
        if group in self.share:
            yield from share_group_tombstones(self.share[group])

    def tombstones_of_consumer_group(self, group: str) -> Iterator[GroupTombstone]:
        """The tombstones of a consumer group, without its offsets."""
        if group in self.consumer:
            yield from group_tombstones(self.consumer[group])

    def tombstones_of_offsets(self, group: str) -> Iterator[GroupTombstone]:
        """The tombstones of all offsets of a group, including pending ones."""
        committed = self.offsets_of(group)
        for topic, found in committed.items():
            for partition in found:
                yield GroupTombstone(OffsetRecord, (group, topic, partition))
        for topic, partition in sorted(self.pending_of(group)):
            if partition not in committed.get(topic, {}):
                yield GroupTombstone(OffsetRecord, (group, topic, partition))

    def apply(self, entry: GroupEntry) -> None:
        """Apply one entry of the log."""
        if isinstance(entry, OffsetRecord):
            self._set_offset(entry)
            if self.pending:
                self._supersede((entry.group, entry.topic, entry.partition), self._pending_count)
        elif isinstance(entry, GroupTombstone):
            self._remove(entry)
        elif isinstance(entry, ClassicGroupRecord):
            self.classic[entry.group] = entry
            self.simple.discard(entry.group)
        elif isinstance(entry, SHARE_RECORDS):
            self._apply_share(entry)
        else:
            self._apply_consumer(entry)

    def restore(self, entry: GroupEntry) -> None:
        """Apply again an entry from earlier in the log: it supersedes nothing that came after the original."""
        if isinstance(entry, OffsetRecord):
            self._set_offset(entry)
        else:
            self.apply(entry)

    def apply_pending(self, producer_id: int, entry: GroupEntry) -> None:
        """Apply one entry of a transaction. Transactions contain only offsets."""
        if isinstance(entry, OffsetRecord):
            self._note_simple(entry.group)
            self._pending_count += 1
            key = (entry.group, entry.topic, entry.partition)
            self.pending.setdefault(producer_id, {})[key] = PendingOffset(self._pending_count, entry)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply the end of a producer's transaction."""
        ended = self.pending.pop(producer_id, {})
        for key, pending in ended.items() if is_commit else ():
            self._set_offset(pending.record)
            self._supersede(key, pending.number)

    def _note_simple(self, group: str) -> None:
        if group not in self.classic and group not in self.consumer and group not in self.share:
            self.simple.add(group)

    def _set_offset(self, record: OffsetRecord) -> None:
        self._note_simple(record.group)
        topics = self.offsets.setdefault(record.group, {})
        topics.setdefault(record.topic, {})[record.partition] = record

    def _supersede(self, key: OffsetKey, number: int) -> None:
        """An earlier pending offset of the same partition never takes effect, however its transaction ends."""
        for producer_id, keys in list(self.pending.items()):
            if key in keys and keys[key].number <= number:
                del keys[key]
                if not keys:
                    del self.pending[producer_id]

    def _remove(self, tombstone: GroupTombstone) -> None:
        group = tombstone.group
        if tombstone.of is ClassicGroupRecord:
            self.classic.pop(group, None)
            self.simple.discard(group)
        elif tombstone.of is OffsetRecord:
            topic, partition = str(tombstone.key[1]), int(tombstone.key[2])
            self._remove_offset(group, topic, partition)
            self._supersede((group, topic, partition), self._pending_count)
        elif tombstone.of in SHARE_RECORDS:
            self._apply_share(tombstone)
        else:
            self._apply_consumer(tombstone)

    def _apply_share(self, entry: ShareEntry) -> None:
        group = self.share.get(entry.group)
        if group is None:
            group = self.share[entry.group] = ShareGroup(entry.group)
            self.simple.discard(entry.group)
        group.apply(entry)
        if group.is_gone:
            del self.share[entry.group]

    def _apply_consumer(self, entry: ConsumerEntry) -> None:
        group = self.consumer.get(entry.group)
        if group is None:
            group = self.consumer[entry.group] = ConsumerGroup(entry.group)
            self.simple.discard(entry.group)
        group.apply(entry)
        if group.is_gone:
            del self.consumer[entry.group]

    def _remove_offset(self, group: str, topic: str, partition: int) -> None:
        topics = self.offsets.get(group, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self.offsets.pop(group, None)

    def to_records(self) -> Iterator[GroupRecord]:
        """The records that make empty groups equal to these."""
        for _, record in sorted(self.classic.items()):
            yield record
        for name in sorted(self.consumer):
            yield from self.consumer[name].to_records()
        for name in sorted(self.share):
            yield from self.share[name].to_records()
        for _, topics in sorted(self.offsets.items()):
            for _, partitions in sorted(topics.items()):
                for _, offset in sorted(partitions.items()):
                    yield offset
