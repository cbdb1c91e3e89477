"""What happens to the nodes, drawn from one seed. Each fault is undone before the next begins."""

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from tests.system.chaos.cluster import NODES, ChaosCluster
from tests.system.chaos.load import RECORD_PARTITIONS, RECORDS

Wait = Callable[[], None]
"""Returns when writes have gone on since it was called."""

KILLS: Final = ("kill a node", "kill a leader", "kill the controller", "kill two nodes", "kill all nodes")
PAUSES: Final = ("pause a node", "pause a leader", "pause the controller", "pause all nodes")
CLEAN: Final = ("restart a node", "restart a leader", "restart the controller")
CUTS: Final = (
    "unplug a node",
    "unplug a leader",
    "unplug the controller",
    "cut a leader's way to the others",
    "cut the others' way to a leader",
    "cut two nodes from each other",
    "cut clients from a leader",
)


class Faults:
    """Does one fault after another to a cluster."""

    def __init__(self, cluster: ChaosCluster, dice: random.Random, wait_writes: Wait, *, pace: float = 1.0) -> None:
        """`pace`: how long faults last, as a share of what they do otherwise."""
        self._pace = pace
        self._cluster = cluster
        self._dice = dice
        self._wait_writes = wait_writes
        self.counts: Counter[str] = Counter()
        self.kinds: list[str] = [*KILLS, *PAUSES, *CLEAN, *(CUTS if cluster.network is not None else ())]

    def draw(self) -> str:
        """Every kind in turn, in another order each round."""
        fewest = min(self.counts[each] for each in self.kinds)
        return self._dice.choice([each for each in self.kinds if self.counts[each] == fewest])

    def happen(self, kind: str) -> str:
        """Do it, and undo it; returns whom it hit."""
        self.counts[kind] += 1
        if kind.endswith("all nodes"):
            victims = list(NODES)
        elif kind == "kill two nodes":
            victims = self._dice.sample(NODES, 2)
        else:
            victims = [self._victim(kind)]
        if kind in KILLS:
            self._kill(victims)
        elif kind in PAUSES:
            self._pause(victims)
        elif kind in CLEAN:
            self._restart(victims[0])
        else:
            self._cut(kind, victims[0])
        return " and ".join(str(each) for each in victims)

    def _victim(self, kind: str) -> int:
        found: int | None = None
        drawn = self._dice.choice(NODES)  # always, so that a seed draws as much in every run
        partition = self._dice.randrange(RECORD_PARTITIONS)
        if "controller" in kind:
            found = self._cluster.controller()
        elif "leader" in kind:
            found = self._cluster.leader(RECORDS, partition)
        return found if found in NODES else drawn

    def _stay(self, victims: list[int], longest_s: float) -> None:
        """Leave a fault as it is for a while; of one node, until writes go on without it."""
        length_s = self._dice.uniform(0.2, longest_s * self._pace)
        began = time.monotonic()
        if len(victims) == 1:
            self._wait_writes()
        time.sleep(max(0.0, began + length_s - time.monotonic()))

    def _kill(self, victims: list[int]) -> None:
        self._cluster.kill(*victims)
        try:
            self._stay(victims, 5)
        finally:
            self._cluster.start(*victims)

    def _pause(self, victims: list[int]) -> None:
        for each in victims:
            self._cluster.pause(each)
        try:
            self._stay(victims, 15)
        finally:
            for each in victims:
                self._cluster.resume(each)

    def _restart(self, victim: int) -> None:
        self._cluster.stop_cleanly(victim)
        try:
            self._stay([victim], 2)
        finally:
            self._cluster.start(victim)

    def _cut(self, kind: str, victim: int) -> None:
        network = self._cluster.network
        assert network is not None
        others = [each for each in NODES if each != victim]
        other = self._dice.choice(others)
        if kind.startswith("unplug"):
            network.unplug(victim)
        elif kind == "cut a leader's way to the others":
            for each in others:
                network.lose(victim, each)
        elif kind == "cut the others' way to a leader":
            for each in others:
                network.lose(each, victim)
        elif kind == "cut two nodes from each other":
            network.lose(victim, other)
            network.lose(other, victim)
        else:
            network.lose(None, victim)
        try:
            # Clients that do not reach a leader cannot write to it; it leads as before.
            self._stay([*others] if kind == "cut clients from a leader" else [victim], 15)
        finally:
            network.heal()
