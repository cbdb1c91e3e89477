"""The assignor of share groups, `simple`: who fetches which partition. Several members may have the same one.

Balance first: every partition has the same number of members, and every member about the same number of partitions.
Then stickiness: a member keeps what it had, as far as that leaves the balance. Topics with the same subscribers are
assigned together, others by themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final
from uuid import UUID

SIMPLE: Final = "simple"

Place = tuple[UUID, int]
"""A partition, by topic id and number."""


def assign_simply(
    subscriptions: Mapping[str, frozenset[UUID]],
    partitions: Mapping[UUID, Sequence[int]],
    previous: Mapping[str, Iterable[Place]],
) -> dict[str, dict[UUID, set[int]]]:
    """The partitions of each member, of those that may be assigned."""
    pools: dict[tuple[str, ...], list[Place]] = {}
    for topic_id in sorted(partitions):
        members = tuple(sorted(name for name, topics in subscriptions.items() if topic_id in topics))
        if members:
            pools.setdefault(members, []).extend((topic_id, index) for index in sorted(partitions[topic_id]))
    assigned: dict[str, dict[UUID, set[int]]] = {member: {} for member in subscriptions}
    for members, places in pools.items():
        for member, held in _assign_pool(members, places, previous).items():
            for topic_id, index in held:
                assigned[member].setdefault(topic_id, set()).add(index)
    return assigned


def _assign_pool(
    members: Sequence[str], places: Sequence[Place], previous: Mapping[str, Iterable[Place]]
) -> dict[str, set[Place]]:
    """Members that are subscribed to the same."""
    held: dict[str, set[Place]] = {member: set() for member in members}
    if not places:
        return held
    sharing = -(-len(members) // len(places))  # members of each partition
    room = dict(zip(members, _even_parts(sharing * len(places), len(members)), strict=True))
    shared = dict.fromkeys(places, 0)
    for member in members:
        for place in sorted(previous.get(member, ())):
            if len(held[member]) < room[member] and shared.get(place, sharing) < sharing:
                held[member].add(place)
                shared[place] += 1
    waiting = [member for member in members if len(held[member]) < room[member]]
    for place in sorted(places, key=lambda each: (shared[each], each)):
        for member in list(waiting):
            if shared[place] >= sharing:
                break
            if place in held[member]:
                continue
            held[member].add(place)
            shared[place] += 1
            waiting.remove(member)
            if len(held[member]) < room[member]:
                waiting.append(member)
        if shared[place] == 0:  # those with room have it all by now: it must not be left out
            held[min(members, key=lambda each: (len(held[each]), each))].add(place)
    return held


def _even_parts(total: int, count: int) -> list[int]:
    """A number in so many parts that differ by one at most."""
    ends = [-(-total * number // count) for number in range(count + 1)]
    return [after - before for before, after in pairwise(ends)]
