"""Where replicas go: consistent hashing with bounded load, over racks.

Each node has points on a ring, each partition one; its replicas are the nodes that come next, skipping full ones and,
as long as there are others, racks that already have a replica. So a node that joins takes over its share and little
else moves, and no node has more than 1.25 times the average, rounded up: of replicas, and of partitions to lead.
Nothing is random: the same nodes and the same name give the same places everywhere.

When the ring leaves too few nodes that may take more, a replica goes where the load is least, and what is over the
limit afterwards is moved: there is always a partition that the fuller node holds and the emptier one does not.
"""

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final

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
        self._limit = load_limit(partition_count * replication_factor, len(nodes))
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
        in_rack: Counter[str | int] = Counter()
        for most_in_rack in range(1, self._replication_factor + 1):
            for node in order:
                rack = self._racks[node]
                if in_rack[rack] < most_in_rack and self._loads[node] < self._limit and node not in chosen:
                    chosen.append(node)
                    in_rack[rack] += 1
                    if len(chosen) == self._replication_factor:
                        return chosen
        others = sorted((self._loads[node], node) for node in self._node_ids if node not in chosen)
        return chosen + [node for _, node in others[: self._replication_factor - len(chosen)]]

    def even_out(self) -> None:
        """Move replicas from nodes over the limit to the emptiest, best where that shares no rack."""
        for fullest in self._node_ids:
            while self._loads[fullest] > self._limit:
                emptiest = min(self._node_ids, key=lambda node: (self._loads[node], node))
                candidates = [each for each in self._placed if fullest in each and emptiest not in each]
                replicas = min(candidates, key=lambda each: self._shared_racks(each, fullest, emptiest))
                replicas[replicas.index(fullest)] = emptiest
                self._loads[fullest] -= 1
                self._loads[emptiest] += 1

    def _shared_racks(self, replicas: Sequence[int], leaving: int, joining: int) -> int:
        return sum(self._racks[node] == self._racks[joining] for node in replicas if node != leaving)

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

        There always is one: were all nodes in reach full, they would hold more replicas than their limit.
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
        while node != full:
            previous, partition = came_from[node]
            led[previous].remove(partition)
            led[node].append(partition)
            node = previous


def _hash_points(text: str, *, digest_size: int = _POINT_SIZE * _POINTS_PER_HASH) -> list[int]:
    digest = blake2b(text.encode(), digest_size=digest_size).digest()
    return [int.from_bytes(digest[at : at + _POINT_SIZE]) for at in range(0, digest_size, _POINT_SIZE)]
