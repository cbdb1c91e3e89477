"""Spreading partitions evenly over members, with few moves: the work of the uniform assignor.

Two ways: `Even` when all members are subscribed to the same topics, which is exact and takes one pass, and `Uneven`
when they are not, which places and then levels until nothing moves.
"""

from collections import defaultdict
from collections.abc import Collection
from heapq import heapify, heappop, heappush
from typing import Final
from uuid import UUID

from barnabas.core.groups.consumer.placing import Placement

# A pass levels every topic; nearly always two or three are enough. A long chain of topics, each shared by two members
# alone, could take very many, for the last bit of evenness.
MAX_PASSES: Final = 100


class Even:
    """All members are subscribed to the same topics: each gets its share, and the first few one more.

    First by rack, then to the previous member, then to any: a partition moves only to get into the rack of a replica.
    """

    def __init__(self, placed: Placement) -> None:
        self.placed = placed
        self.share, self.extras = divmod(placed.partition_count(), len(placed.members))

    def fill(self) -> None:
        far = self._keep_near()
        if any(info.racks is not None for info in self.placed.infos.values()):
            self._fill_near()
        for member_id, topic_id, partition in far:
            if self.placed.is_free(topic_id, partition) and self.has_room(member_id):
                self._give(member_id, topic_id, partition)
        self._fill_rest()

    def has_room(self, member_id: str) -> bool:
        load = self.placed.loads[member_id]
        return load < self.share or (load == self.share and self.extras > 0)

    def _give(self, member_id: str, topic_id: UUID, partition: int) -> None:
        if self.placed.loads[member_id] == self.share:
            self.extras -= 1
        self.placed.give(member_id, topic_id, partition)

    def _keep_near(self) -> list[tuple[str, UUID, int]]:
        """Let members keep partitions in their rack; returns their other previous partitions."""
        far: list[tuple[str, UUID, int]] = []
        for member_id in self.placed.owned:
            room = self.share + (self.extras > 0)
            for topic_id, had in self.placed.previous_of(member_id):
                near = self.placed.near_of(member_id, topic_id, had)
                if near:
                    self.placed.give(member_id, topic_id, *near[:room])
                    room -= len(near[:room])
                if len(near) < len(had):
                    is_near = frozenset(near)
                    far += [(member_id, topic_id, partition) for partition in had if partition not in is_near]
            self.extras -= self.placed.loads[member_id] > self.share
        return far

    def _fill_near(self) -> None:
        """Assign free partitions to members in a rack of their replicas."""
        racks = _Racks(self)
        for topic_id in self.placed.topic_ids():
            near = self.placed.infos[topic_id].racks
            if near is None:
                continue
            for partition in list(self.placed.free_of(topic_id)):
                member_id = racks.find_room(near[partition])
                if member_id is not None:
                    self._give(member_id, topic_id, partition)

    def _fill_rest(self) -> None:
        """Assign the rest round robin, so that the partitions of one topic spread over the members."""
        free = [(t, p) for t in self.placed.topic_ids() for p in self.placed.free_of(t)]
        free.reverse()
        short = [member_id for member_id, load in self.placed.loads.items() if load < self.share]
        while short and free:
            for member_id in short:
                self._give(member_id, *free.pop())
            short = [member_id for member_id in short if self.placed.loads[member_id] < self.share]
        for member_id, load in self.placed.loads.items():
            if free and load == self.share:
                self._give(member_id, *free.pop())
        assert not free


class _Racks:
    """The members of each rack that can get more. The rack with most capacity comes first, so none runs out early."""

    def __init__(self, even: Even) -> None:
        self.even = even
        self.below: dict[str, list[str]] = defaultdict(list)
        self.full: dict[str, list[str]] = defaultdict(list)
        self.room: dict[str, int] = defaultdict(int)
        for member_id in sorted(even.placed.members, reverse=True):
            rack = even.placed.members[member_id].rack
            if rack is not None:
                self.below[rack].append(member_id)
                self.room[rack] += max(0, even.share - even.placed.loads[member_id])

    def find_room(self, racks: Collection[str]) -> str | None:
        """A member in one of the racks, below its share if there is one, or with room for one more. It takes it."""
        known = sorted((rack for rack in racks if rack in self.below), key=lambda rack: (-self.room[rack], rack))
        for rack in known:
            below = self.below[rack]
            while below and self.even.placed.loads[below[-1]] >= self.even.share:
                self.full[rack].append(below.pop())
            if below:
                self.room[rack] -= 1
                return below[-1]
        for rack in known:
            full = self.full[rack]
            while full and not self.even.has_room(full[-1]):
                full.pop()
            if full:
                return full[-1]
        return None


class Uneven:
    """Members are subscribed to different topics: in the result, no member could give a partition to one with two
    fewer.

    So any two members with the same subscription differ by one at most.
    """

    def __init__(self, placed: Placement) -> None:
        self.placed = placed
        self.subscribers: dict[UUID, list[str]] = {topic_id: [] for topic_id in placed.topic_ids()}
        for member_id in placed.owned:
            for topic_id in placed.members[member_id].topic_ids:
                self.subscribers[topic_id].append(member_id)

    def fill(self) -> None:
        self._keep()
        # Those with little choice first: what everybody may have can still level the rest.
        order = sorted(self.subscribers, key=lambda topic_id: len(self.subscribers[topic_id]))
        for topic_id in order:
            self._place(topic_id)
        for _ in range(MAX_PASSES):
            order.reverse()
            if not sum(self._level(topic_id) for topic_id in order):
                return

    def _keep(self) -> None:
        for member_id in self.placed.owned:
            for topic_id, had in self.placed.previous_of(member_id):
                near = frozenset(self.placed.near_of(member_id, topic_id, had))
                # What is far goes last, which is where levelling takes from.
                self.placed.give(
                    member_id, topic_id, *(p for p in had if p in near), *(p for p in had if p not in near)
                )

    def _place(self, topic_id: UUID) -> None:
        """Assign free partitions to the member with the fewest; among several, to one in a rack of the replicas."""
        free = list(self.placed.free_of(topic_id))
        if not free:
            return
        loads = self.placed.loads
        anyone = [(loads[member_id], member_id) for member_id in self.subscribers[topic_id]]
        heapify(anyone)
        racks = self.placed.infos[topic_id].racks
        by_rack: dict[str, list[tuple[int, str]]] = defaultdict(list)
        if racks is not None:
            for load, member_id in sorted(anyone):
                by_rack[self.placed.members[member_id].rack or ""].append((load, member_id))
        for partition in free:
            load, member_id = self._least(anyone)
            for rack in sorted(racks[partition]) if racks is not None else ():
                near = by_rack.get(rack)
                if near and self._least(near)[0] == load:
                    member_id = near[0][1]
                    break
            self.placed.give(member_id, topic_id, partition)
            entry = (loads[member_id], member_id)
            heappush(anyone, entry)
            if racks is not None:
                heappush(by_rack[self.placed.members[member_id].rack or ""], entry)

    def _least(self, heap: list[tuple[int, str]]) -> tuple[int, str]:
        """The top of a heap of loads, skipping outdated entries. Changing a load adds an entry."""
        while heap[0][0] != self.placed.loads[heap[0][1]]:
            heappop(heap)
        return heap[0]

    def _level(self, topic_id: UUID) -> bool:
        """Move partitions of a topic from the member with the most to the one with the fewest, while that helps."""
        placed, loads = self.placed, self.placed.loads
        least = [(loads[member_id], member_id) for member_id in self.subscribers[topic_id]]
        most = [(-load, member_id) for load, member_id in least if placed.owned[member_id].get(topic_id)]
        if not most or -min(most)[0] - min(least)[0] < 2:
            return False
        heapify(least)
        heapify(most)
        while True:
            while -most[0][0] != loads[most[0][1]] or not placed.owned[most[0][1]].get(topic_id):
                heappop(most)
            giver, (low, taker) = most[0][1], self._least(least)
            if loads[giver] - low < 2:
                return True
            placed.move(topic_id, giver=giver, taker=taker)
            for member_id in (giver, taker):
                heappush(least, (loads[member_id], member_id))
                heappush(most, (-loads[member_id], member_id))
