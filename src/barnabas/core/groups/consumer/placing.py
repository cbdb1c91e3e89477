"""An assignment in progress: the input of assignors, and their result so far.

Owns the input values, and the invariant that no partition is assigned twice.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

Assignment: TypeAlias = Mapping[UUID, Collection[int]]
Target: TypeAlias = dict[UUID, tuple[int, ...]]

NOTHING: Final[Mapping[UUID, tuple[int, ...]]] = MappingProxyType({})


class TopicInfo(NamedTuple):
    """A topic in the metadata: its id, the number of its partitions, and the racks of their replicas."""

    topic_id: UUID
    partition_count: int
    racks: Sequence[Collection[str]] | None = None


class MemberSpec(NamedTuple):
    """A member to assign to: the topics it is subscribed to, and its previous target."""

    topic_ids: frozenset[UUID]
    previous: Assignment = NOTHING
    rack: str | None = None
    instance_id: str | None = None


Members: TypeAlias = Mapping[str, MemberSpec]
Infos: TypeAlias = Mapping[UUID, TopicInfo]


class Placement:
    """An assignment in progress: the partitions of each member, and those not yet assigned."""

    def __init__(self, members: Members, infos: Infos) -> None:
        self.members = members
        self.infos = infos
        self.owned: dict[str, dict[UUID, list[int]]] = {member_id: {} for member_id in sorted(members)}
        self.loads = dict.fromkeys(self.owned, 0)
        self._taken: dict[UUID, bytearray] = {}
        for member in members.values():
            for topic_id in member.topic_ids:
                if topic_id not in self._taken:
                    self._taken[topic_id] = bytearray(infos[topic_id].partition_count)

    def give(self, member_id: str, topic_id: UUID, *partitions: int) -> None:
        """Assign free partitions to a member."""
        taken = self._taken[topic_id]
        for partition in partitions:
            assert not taken[partition]
            taken[partition] = 1
        self.owned[member_id].setdefault(topic_id, []).extend(partitions)
        self.loads[member_id] += len(partitions)

    def move(self, topic_id: UUID, *, giver: str, taker: str) -> None:
        """Move the last partition of a topic from one member to another."""
        partition = self.owned[giver][topic_id].pop()
        self.owned[taker].setdefault(topic_id, []).append(partition)
        self.loads[giver] -= 1
        self.loads[taker] += 1

    def is_free(self, topic_id: UUID, partition: int) -> bool:
        return not self._taken[topic_id][partition]

    def topic_ids(self) -> list[UUID]:
        """Every topic with a subscriber, in order."""
        return sorted(self._taken)

    def partition_count(self) -> int:
        return sum(map(len, self._taken.values()))

    def free_of(self, topic_id: UUID) -> Iterator[int]:
        """The free partitions of a topic."""
        taken = self._taken[topic_id]
        partition = taken.find(0)
        while partition >= 0:
            yield partition
            partition = taken.find(0, partition + 1)

    def previous_of(self, member_id: str) -> Iterator[tuple[UUID, list[int]]]:
        """The previous partitions of a member that still exist, are still subscribed to, and free, by topic."""
        member = self.members[member_id]
        for topic_id in sorted(member.previous):
            if topic_id in member.topic_ids:
                taken = self._taken[topic_id]
                count = len(taken)
                yield topic_id, [p for p in sorted(member.previous[topic_id]) if p < count and not taken[p]]

    def near_of(self, member_id: str, topic_id: UUID, partitions: list[int]) -> list[int]:
        """The partitions with a replica in the member's rack; all, if racks are unknown."""
        rack = self.members[member_id].rack
        racks = self.infos[topic_id].racks
        if rack is None or racks is None:
            return partitions
        return [partition for partition in partitions if rack in racks[partition]]

    def result(self) -> dict[str, Target]:
        return {
            member_id: {topic_id: tuple(sorted(owned[topic_id])) for topic_id in sorted(owned) if owned[topic_id]}
            for member_id, owned in self.owned.items()
        }
