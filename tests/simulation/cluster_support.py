"""A whole cluster in simulation: one to seven of the very nodes that are shipped, with everything that goes wrong.

    PYTHONPATH=. python -m tests.simulation.cluster_support 42

Clients on all nodes create, alter and delete topics and take producer ids, while nodes lose power, die, stop, stand
still and are cut off, disks are slow, full and fail, clocks jump, and voters come and go (`cluster_faults`). What must
hold is checked at every commit of every node (`cluster_checks`), what clients were told at the end (`cluster_clients`):
then all faults are over, and the cluster has to be whole within bounded virtual time.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from barnabas.core.metadata import commits
from barnabas.runtime.raft_driver import exchange
from barnabas.testing.disk import SimulatedCrash
from barnabas.testing.link import NetworkConfig
from barnabas.testing.simulation import Simulation
from tests.simulation.cluster_faults import Trouble
from tests.simulation.cluster_world import ClusterWorld

MAX_STEPS: Final = 3_000_000
NETWORK: Final = NetworkConfig(spike_chance=0.01, reset_chance=0.0005, refuse_chance=0.01)


@contextmanager
def small_pieces(*, is_small: bool) -> Iterator[None]:
    """Have commits take several batches, and fetches bring a part of one: what otherwise only huge topics do."""
    with pytest.MonkeyPatch.context() as patch:
        if is_small:
            patch.setattr(commits, "MAX_BATCH_BYTES", 150)
            patch.setattr(exchange, "MAX_FETCH_BYTES", 150)
        yield


def run_scenario(seed: int, scenario: Callable[[ClusterWorld, Trouble], Awaitable[None]], *, voters: int) -> None:
    """One run of something that is no chance, in a cluster of so many voters."""
    with Simulation(seed, max_steps=MAX_STEPS) as simulation:
        world = ClusterWorld(simulation, voters=voters)

        async def run() -> None:
            async with asyncio.TaskGroup() as tasks:
                await scenario(world, Trouble(world, tasks))

        simulation.run(run)


def run_seed(seed: int) -> tuple[Counter[str], str]:
    """One run: how often what happened, and a hash of all of it."""
    with small_pieces(is_small=seed % 2 == 1), Simulation(seed, network=NETWORK, max_steps=MAX_STEPS) as simulation:
        world = ClusterWorld(simulation)
        loop = simulation.loop

        async def scenario() -> None:
            try:
                async with asyncio.TaskGroup() as tasks:
                    await Trouble(world, tasks).run()
            finally:
                loop.unhandled = [error for error in loop.unhandled if not isinstance(error, SimulatedCrash)]

        simulation.run(scenario)
        world.counts["leader"] += len(world.checks.leaders)
        world.counts[f"{len(world.nodes)} nodes"] += 1
        return world.counts, simulation.trace_hash()


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(*run_seed(int(argument)))
