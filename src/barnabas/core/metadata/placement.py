"""Where replicas go: consistent hashing with bounded load, over racks.

Each node has points on a ring, each partition one; its replicas are the nodes that come next, skipping full ones and
racks that already have as many replicas as others. So a node that joins takes over its share and little else moves.
Nothing is random: the same nodes and the same name give the same places everywhere.

Racks count more than loads: no rack holds a second replica of a partition while another, with room for it, holds none.
A node has at most 1.25 times its share, rounded up; its share is the average, unless racks are so unequal that small
ones have to take more than that. With racks of one size, or none, the limit holds for partitions to lead, too.

When the ring leaves too few nodes that may take more, a replica goes where the load is least, and what is over the
limit afterwards is moved, over others between if need be.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fractions import Fraction

_POINT_SIZE: Final = 8
_POINTS_PER_HASH: Final = 8
_HASHES_PER_NODE: Final = 16  # 128 points a node: shares within about a tenth of each other


def place(
    partition_count: int, replication_factor: int, nodes: Mapping[int, str | None], seed: str
) -> list[tuple[int, ...]]:
    """The replicas of partitions 0, 1, ..., each beginning with its leader. `nodes` gives the rack of each, if any.

    `seed` is the name of the topic. There must be as many nodes as replicas.
    """
    assert 0 < replication_factor <= len(nodes)
    if len(nodes) == 1:
        return [tuple(nodes)] * partition_count
    placing = _Placing(partition_count, replication_factor, nodes)
    for partition in range(partition_count):
        placing.add(_hash_points(f"{seed}-{partition}", digest_size=_POINT_SIZE)[0])
    placing.even_out()
    return placing.with_leaders()


def load_limit(total: int, node_count: int) -> int:
    """The most of `total` that one of so many nodes takes: 1.25 times the average, rounded up."""
    return -(-5 * total // (4 * node_count))


class _Placing:
    """The placing of one topic; lives as long as that takes."""

    def __init__(self, partition_count: int, replication_factor: int, nodes: Mapping[int, str | None]) -> None:
        self._replication_factor = replication_factor
        self._node_ids = sorted(nodes)
        # A node without a rack is one of its own.
        self._racks = {node: rack if rack is not None else node for node, rack in nodes.items()}
        self._sizes = Counter(self._racks.values())
        self._most_in_rack = _most_in_rack(self._sizes, replication_factor)
        self._limits = self._find_limits(partition_count)
        self._leader_limit = load_limit(partition_count, len(nodes))
        ring = sorted(
            (point, node)
            for node in self._node_ids
            for number in range(_HASHES_PER_NODE)
            for point in _hash_points(f"node {node} {number}")
        )
        self._points = [point for point, _ in ring]
        self._owners = [node for _, node in ring]
        self._orders: dict[int, tuple[int, ...]] = {}
        self._loads = dict.fromkeys(self._node_ids, 0)
        self._placed: list[list[int]] = []

    def _find_limits(self, partition_count: int) -> dict[int, int]:
        """How many replicas each node takes at most: its share of what its rack has to hold, and a quarter more."""
        bounds = {
            rack: (self._fewest(rack) * partition_count, min(self._most_in_rack, size) * partition_count)
            for rack, size in self._sizes.items()
        }
        shares = _shares(self._sizes, bounds, partition_count * self._replication_factor)
        return {node: -(-5 * shares[rack] // (4 * self._sizes[rack])) for node, rack in self._racks.items()}

    def _fewest(self, rack: str | int) -> int:
        """How many replicas of each partition a rack holds at least."""
        return min(self._most_in_rack - 1, self._sizes[rack])

    def add(self, point: int) -> None:
        """Find a place for the next partition."""
        replicas = self._choose(self._order_at(bisect_right(self._points, point) % len(self._points)))
        for node in replicas:
            self._loads[node] += 1
        self._placed.append(replicas)

    def _order_at(self, start: int) -> tuple[int, ...]:
        """All nodes in the order of the ring."""
        order = self._orders.get(start)
        if order is None:
            seen: dict[int, None] = {}
            for index in range(start, start + len(self._owners)):
                seen[self._owners[index % len(self._owners)]] = None
                if len(seen) == len(self._node_ids):
                    break
            order = self._orders[start] = tuple(seen)
        return order

    def _choose(self, order: Sequence[int]) -> list[int]:
        chosen: list[int] = []
        in_rack: dict[str | int, int] = {}
        for most_in_rack in range(1, self._most_in_rack + 1):
            for has_room in (True, False):
                for node in order if has_room else sorted(order, key=lambda node: (self._loads[node], node)):
                    held = in_rack.get(self._racks[node], 0)
                    if held >= most_in_rack or (has_room and self._loads[node] >= self._limits[node]) or node in chosen:
                        continue
                    chosen.append(node)
                    in_rack[self._racks[node]] = held + 1
                    if len(chosen) == self._replication_factor:
                        return chosen
        raise AssertionError("there are as many nodes as replicas")

    def even_out(self) -> None:
        """Move replicas from nodes over their limit to those below, if need be over others between."""
        for fullest in self._node_ids:
            while self._loads[fullest] > self._limits[fullest]:
                path = self._path_from(fullest)
                if not path:
                    break
                for replicas, giver, taker in path:
                    replicas[replicas.index(giver)] = taker
                self._loads[fullest] -= 1
                self._loads[path[-1][2]] += 1

    def _path_from(self, full: int) -> list[tuple[list[int], int, int]]:
        """The shortest way of moves after which a full node has one replica less, and one with room has one more."""
        came: dict[int, list[tuple[list[int], int, int]]] = {full: []}
        waiting = deque([full])
        while waiting:
            giver = waiting.popleft()
            held = [replicas for replicas in self._placed if giver in replicas]
            takers = sorted(
                (node for node in self._node_ids if node not in came), key=lambda node: (self._loads[node], node)
            )
            for taker in takers:
                movable = next((replicas for replicas in held if self._may_move(replicas, giver, taker)), None)
                if movable is None:
                    continue
                came[taker] = [*came[giver], (movable, giver, taker)]
                if self._loads[taker] < self._limits[taker]:
                    return came[taker]
                waiting.append(taker)
        return []

    def _may_move(self, replicas: Sequence[int], giver: int, taker: int) -> bool:
        """Whether a replica can go from one node to another without a rack having too many, or too few."""
        if taker in replicas:
            return False
        leaving, joining = self._racks[giver], self._racks[taker]
        racks = [self._racks[node] for node in replicas]
        return leaving == joining or (
            racks.count(joining) < self._most_in_rack and racks.count(leaving) > self._fewest(leaving)
        )

    def with_leaders(self) -> list[tuple[int, ...]]:
        """The replicas, the leader first: the first on the ring that does not lead enough yet."""
        led: dict[int, list[int]] = {node: [] for node in self._node_ids}
        for partition, replicas in enumerate(self._placed):
            free = (node for node in replicas if len(led[node]) < self._leader_limit)
            leader = next(free, None)
            if leader is None:
                leader = replicas[0]
                self._hand_over(leader, led)
            led[leader].append(partition)
        leaders = {partition: node for node, partitions in led.items() for partition in partitions}
        return [
            (leaders[partition], *(node for node in replicas if node != leaders[partition]))
            for partition, replicas in enumerate(self._placed)
        ]

    def _hand_over(self, full: int, led: dict[int, list[int]]) -> None:
        """Have `full` lead one partition less: along the shortest way of replicas to a node that may lead one more.

        With racks of one size there always is one: were all nodes in reach full, they would hold more replicas than
        their limit. With others there may be none.
        """
        came_from: dict[int, tuple[int, int]] = {}
        waiting = deque([full])
        while waiting:
            node = waiting.popleft()
            if len(led[node]) < self._leader_limit:
                break
            for partition in led[node]:
                for other in self._placed[partition]:
                    if other != full and other not in came_from:
                        came_from[other] = (node, partition)
                        waiting.append(other)
        else:
            return
        while node != full:
            previous, partition = came_from[node]
            led[previous].remove(partition)
            led[node].append(partition)
            node = previous


def _most_in_rack(sizes: Mapping[str | int, int], replication_factor: int) -> int:
    """The most replicas of a partition in one rack, if they are spread as evenly as the sizes of racks allow."""
    most = 1
    while sum(min(most, size) for size in sizes.values()) < replication_factor:
        most += 1
    return most


def _shares(
    sizes: Mapping[str | int, int], bounds: Mapping[str | int, tuple[int, int]], total: int
) -> dict[str | int, Fraction]:
    """What each rack holds of a total: by its size, within its bounds."""
    from fractions import Fraction  # noqa: PLC0415 - for brokers in racks alone

    shares: dict[str | int, Fraction] = {}
    free = sorted(sizes, key=str)
    while free:
        left = total - sum(shares.values(), Fraction(0))
        level = left / sum(sizes[rack] for rack in free)
        within = {
            rack: min(max(level * sizes[rack], Fraction(bounds[rack][0])), Fraction(bounds[rack][1])) for rack in free
        }
        excess = sum(within.values(), Fraction(0)) - left
        # Those that are bound on the side that is over are so for good: the level for the others goes the other way.
        bound = [
            rack
            for rack in free
            if (excess >= 0 and within[rack] > level * sizes[rack])
            or (excess <= 0 and within[rack] < level * sizes[rack])
        ]
        shares.update((rack, within[rack]) for rack in bound or free)
        free = [rack for rack in free if rack not in shares]
    return shares


def _hash_points(text: str, *, digest_size: int = _POINT_SIZE * _POINTS_PER_HASH) -> list[int]:
    digest = blake2b(text.encode(), digest_size=digest_size).digest()
    return [int.from_bytes(digest[at : at + _POINT_SIZE]) for at in range(0, digest_size, _POINT_SIZE)]
