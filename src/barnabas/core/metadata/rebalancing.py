"""Plans for moving replicas: to spread them evenly, to empty a node, to have more or fewer of them.

A plan moves as little as it can. `rebalance` repairs one thing after another: replicas on nodes that do not take any,
racks that hold two replicas of a partition while another rack holds none, nodes that hold more than others, and last
nodes that are the preferred leader of more partitions than others, which copies nothing. It never gives up spread over
racks for even nodes: where racks are of different sizes, nodes may stay uneven.

A new cluster, or one that was grown, is even to one replica afterwards as far as racks allow. Nothing is random: the
same cluster gives the same plan.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from barnabas.core.errors import InvalidReplicationFactor

Racks: TypeAlias = Mapping[int, str | None]
"""The nodes that take replicas, with the rack of each, if it has one."""


class PartitionReplicas(NamedTuple):
    """A partition and its replicas, the preferred leader first."""

    topic: str
    partition: int
    replicas: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Move(NamedTuple):
    """A partition that gets other replicas, or another order of them."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        """The nodes that copy the partition."""
        return tuple(node for node in self.after if node not in self.before)


def rebalance(partitions: Sequence[PartitionReplicas], nodes: Racks) -> list[Move]:
    """Spread replicas and preferred leaders evenly over nodes and racks; the moves that it takes."""
    plan = _Plan(partitions, nodes)
    plan.leave_others()
    plan.spread_over_racks()
    plan.even_out()
    plan.even_out_leaders()
    return list(plan.moves())


def empty_node(partitions: Sequence[PartitionReplicas], nodes: Racks, node_id: int) -> list[Move]:
    """Have the other nodes take what a node holds; what it does not hold stays where it is."""
    others = {node: rack for node, rack in nodes.items() if node != node_id}
    plan = _Plan([each for each in partitions if node_id in each.replicas], others, all_of=partitions)
    plan.leave_others(only=node_id)
    return list(plan.moves())


def with_factor(partitions: Sequence[PartitionReplicas], nodes: Racks, topic: str, factor: int) -> list[Move]:
    """Give a topic more replicas, or fewer; the preferred leaders stay."""
    plan = _Plan([each for each in partitions if each.topic == topic], nodes, all_of=partitions)
    plan.resize(factor)
    return list(plan.moves())


class _Plan:
    """Where replicas will be; lives as long as a plan is made."""

    def __init__(
        self, partitions: Sequence[PartitionReplicas], nodes: Racks, *, all_of: Sequence[PartitionReplicas] = ()
    ) -> None:
        self._before = sorted(partitions)
        self._now = [list(each.replicas) for each in self._before]
        # A node without a rack is one of its own.
        self._racks: dict[int, str | int] = {node: node if rack is None else rack for node, rack in nodes.items()}
        self._loads: Counter[int] = Counter(dict.fromkeys(nodes, 0))
        self._loads.update(node for each in all_of or partitions for node in each.replicas)
        self._held: dict[int, set[int]] = {node: set() for node in nodes}  # indexes of partitions
        self._by_topic: Counter[tuple[int, str]] = Counter()
        for index, each in enumerate(self._before):
            for node in each.replicas:
                self._held.setdefault(node, set()).add(index)
                self._by_topic[node, each.topic] += 1

    def moves(self) -> Iterator[Move]:
        """What differs from before."""
        for each, now in zip(self._before, self._now, strict=True):
            if tuple(now) != each.replicas:
                yield Move(each.topic, each.partition, each.replicas, tuple(now))

    # Steps

    def leave_others(self, only: int | None = None) -> None:
        """Take replicas off nodes that are to have none."""
        for index, each in enumerate(self._before):
            for node in each.replicas:
                if node not in self._racks and only in (None, node):
                    self._move(index, node, self._best(index, instead_of=node))

    def spread_over_racks(self) -> None:
        """Take replicas off racks that hold another of the same partition, while there are racks without."""
        for index, now in enumerate(self._now):
            for node in sorted(now, key=lambda node: (-self._loads[node], node)):
                free = [other for other in self._free(index) if not self._shares_rack(index, other, without=node)]
                if free and self._shares_rack(index, node, without=node):
                    self._move(index, node, min(free, key=lambda other: (self._loads[other], other)))

    def even_out(self) -> None:
        """Move replicas from the fullest nodes to the emptiest, as long as that evens anything out."""
        while self._even_out_once():
            pass

    def _even_out_once(self) -> bool:
        by_load = sorted(self._racks, key=lambda node: (self._loads[node], node))
        for full in reversed(by_load):
            for empty in by_load:
                if self._loads[full] - self._loads[empty] < 2:
                    break
                index = self._movable(full, empty)
                if index is not None:
                    self._move(index, full, empty)
                    return True
        return False

    def _movable(self, full: int, empty: int) -> int | None:
        """A partition that can be moved from one node to another: of a topic that the first has more of, if any."""
        found = None
        for index in sorted(self._held[full] - self._held[empty]):
            if self._racks[full] != self._racks[empty] and self._shares_rack(index, empty, without=full):
                continue
            topic = self._before[index].topic
            if self._by_topic[full, topic] > self._by_topic[empty, topic]:
                return index
            found = index if found is None else found
        return found

    def even_out_leaders(self) -> None:
        """Have each node be the preferred leader of as many partitions as the others, by the order of replicas."""
        leads: dict[int, set[int]] = {node: set() for node in self._racks}
        for index, now in enumerate(self._now):
            leads[now[0]].add(index)
        while self._hand_over(leads):
            pass

    def _hand_over(self, leads: dict[int, set[int]]) -> bool:
        """Have a node with many lead one less, and one with few lead one more: directly, or over others between."""
        for full in sorted(leads, key=lambda node: (-len(leads[node]), node)):
            path = self._path(leads, full)
            for index, giver, taker in path:
                leads[giver].discard(index)
                leads[taker].add(index)
                now = self._now[index]
                now.remove(taker)
                now.insert(0, taker)
            if path:
                return True
        return False

    def _path(self, leads: dict[int, set[int]], full: int) -> list[tuple[int, int, int]]:
        """The partitions to hand over, each with who gives and who takes it, so that `full` has one less."""
        came: dict[int, list[tuple[int, int, int]]] = {full: []}
        waiting = deque([full])
        while waiting:
            giver = waiting.popleft()
            if len(leads[full]) - len(leads[giver]) >= 2:
                return came[giver]
            for index in sorted(leads[giver]):
                for taker in self._now[index][1:]:
                    if taker not in came:
                        came[taker] = [*came[giver], (index, giver, taker)]
                        waiting.append(taker)
        return []

    def resize(self, factor: int) -> None:
        """Add replicas where there is most room, or remove them where there is least."""
        for index, now in enumerate(self._now):
            while len(now) < factor:
                node = self._best(index)
                now.append(node)
                self._count(index, node, 1)
            while len(now) > max(factor, 1):
                node = max(now[1:], key=lambda node: (self._shares_rack(index, node, without=node), self._loads[node]))
                now.remove(node)
                self._count(index, node, -1)

    # Parts

    def _free(self, index: int) -> list[int]:
        return [node for node in self._racks if node not in self._now[index]]

    def _best(self, index: int, instead_of: int | None = None) -> int:
        """The node that takes one more replica of a partition: in a rack without any, with the least load."""
        free = self._free(index)
        if not free:
            raise InvalidReplicationFactor(
                f"{self._before[index]} has {len(self._now[index])} replica(s), and there are only {len(self._racks)} "
                "node(s) for them"
            )
        return min(free, key=lambda node: (self._shares_rack(index, node, without=instead_of), self._loads[node], node))

    def _shares_rack(self, index: int, node: int, *, without: int | None) -> bool:
        """Whether another replica of a partition is in the rack of this node; `without` does not count."""
        others = (other for other in self._now[index] if other not in (node, without))
        return self._racks[node] in [self._racks.get(other) for other in others]

    def _move(self, index: int, giver: int, taker: int) -> None:
        now = self._now[index]
        now[now.index(giver)] = taker
        self._count(index, giver, -1)
        self._count(index, taker, 1)

    def _count(self, index: int, node: int, change: int) -> None:
        self._loads[node] += change
        self._by_topic[node, self._before[index].topic] += change
        if change > 0:
            self._held[node].add(index)
        else:
            self._held[node].discard(index)
