"""A whole world from one seed: virtual time, a network, disks, clocks and dice, on which nodes run unchanged.

    async def scenario() -> None:
        simulation.host("node-1").start(run_node(simulation, "node-1"))
        ...
        simulation.crash("node-1")

    with Simulation(seed) as simulation:
        simulation.run(scenario)
        assert simulation.disk("node-1").durable_bytes(...)

The same seed and the same scenario give the same `trace_hash`, always and everywhere. For that the code under test
must ask these ports for time and chance, and must not walk through sets of things that hash by `id` or of strings.

Look at disks before the simulation is closed: closing ends the tasks of crashed hosts too, which may then still write.
"""

import asyncio
import gc
import hashlib
from collections.abc import Callable, Coroutine
from random import Random
from types import TracebackType
from typing import Any, Final, TypeVar

from barnabas.testing.dice import SimulatedDice, derive_random
from barnabas.testing.disk import Keep, SimulatedDisk
from barnabas.testing.hosts import Host
from barnabas.testing.link import NetworkConfig
from barnabas.testing.loop import MAX_STEPS, MAX_TIME_S, SimulatedLoop, SimulationStuck
from barnabas.testing.loop_tasks import describe_tasks
from barnabas.testing.network import SimulatedNetwork
from barnabas.testing.offload import SimulatedOffload
from barnabas.testing.trace import Trace

T = TypeVar("T")

EPOCH_MS: Final = 1_750_000_000_000  # when every simulation begins: 2025-06-15, 15:06:40 UTC


class SimulatedClock:
    """`runtime.clock.Clock` on virtual time. `skew_ms` makes it wrong, and may change under way."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, epoch_ms: int = EPOCH_MS, skew_ms: int = 0) -> None:
        self._loop = loop
        self._epoch_ms = epoch_ms
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._epoch_ms + int(self._loop.time() * 1000) + self.skew_ms

    def elapsed_ms(self) -> int:
        """Milliseconds of virtual time; nobody's is wrong."""
        return int(self._loop.time() * 1000)


class Simulation:
    """Everything a simulated cluster stands on, by the name of the host that uses it."""

    def __init__(
        self,
        seed: int,
        *,
        network: NetworkConfig | None = None,
        max_steps: int = MAX_STEPS,
        max_time_s: float = MAX_TIME_S,
        keep_events: int = 0,
    ) -> None:
        self.seed = seed
        self.trace = Trace(keep=keep_events)
        self.loop = SimulatedLoop(self.random("loop"), trace=self.trace, max_steps=max_steps, max_time_s=max_time_s)
        self.network = SimulatedNetwork(self.loop, self.random("network"), network)
        self._disks: dict[str, SimulatedDisk] = {}
        self._clocks: dict[str, SimulatedClock] = {}
        self._dice: dict[str, SimulatedDice] = {}
        self._offloads: dict[str, SimulatedOffload] = {}
        self._final_hash: str | None = None

    # What a node is made of.

    def random(self, name: str) -> Random:
        """A new stream of random numbers for one purpose, the same for the same seed and name."""
        return derive_random(self.seed, name)

    def host(self, name: str) -> Host:
        """The host of that name: start a node's tasks by it."""
        return self.network.host(name)

    def disk(self, name: str) -> SimulatedDisk:
        """The disk of a host; it stays when the host crashes."""
        if name not in self._disks:
            self._disks[name] = SimulatedDisk(self.random(f"disk/{name}"))
        return self._disks[name]

    def clock(self, name: str) -> SimulatedClock:
        """The wall clock of a host."""
        return self._clocks.setdefault(name, SimulatedClock(self.loop))

    def dice(self, name: str) -> SimulatedDice:
        """The dice of a host; they go on over a crash, so that no id comes twice."""
        if name not in self._dice:
            self._dice[name] = SimulatedDice(self.random(f"dice/{name}"))
        return self._dice[name]

    def offload(self, name: str) -> SimulatedOffload:
        """The simulated threads of a host."""
        if name not in self._offloads:
            self._offloads[name] = SimulatedOffload(self.random(f"offload/{name}"))
        return self._offloads[name]

    # Faults of a whole host.

    def crash(self, name: str, keep: Keep = Keep.RANDOM) -> None:
        """Cut the power of a host: its process ends, its disk loses what was not synced, but for `keep`."""
        self._end_process(name)
        self.disk(name).crash(keep)

    def kill(self, name: str) -> None:
        """End a host's process alone: its disk keeps every byte."""
        self._end_process(name)
        self.disk(name).restart()

    def pause(self, name: str) -> None:
        """Have a host's process stand still, as SIGSTOP does; its clocks go on."""
        self.network.pause(name)

    def resume(self, name: str) -> None:
        """Let a host's process go on."""
        self.network.resume(name)

    def _end_process(self, name: str) -> None:
        self.network.crash(name)
        self.offload(name).outstanding = 0  # what it counted died with the process

    # Running.

    def run(self, scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What `scenario` returns; raises what it raises, or what callbacks and tasks raised that nobody awaits.

        May be called again: tasks that were left running go on.
        """
        try:
            result = self.loop.run_until_complete(scenario())
        except BaseException as error:
            error.add_note(f"in a simulation with seed {self.seed}, at {self.loop.time():.6f} s")
            for unheard in self.loop.unhandled:
                error.add_note(f"nobody handled: {unheard!r}")
            raise
        gc.collect(0)  # a task that failed is heard of when it is freed, and from Python 3.13 on it is in a cycle
        if self.loop.unhandled:
            unhandled, self.loop.unhandled = self.loop.unhandled, []
            raise BaseExceptionGroup(f"nobody handled these in a simulation with seed {self.seed}", unhandled)
        return result

    def trace_hash(self) -> str:
        """Stands for every step, every delivery and every disk call so far, those of `close` left out."""
        if self._final_hash is not None:
            return self._final_hash
        digest = hashlib.blake2b(self.trace.hash().encode(), digest_size=16)
        for name in sorted(self._disks):
            digest.update(f"{name}={self._disks[name].fingerprint};".encode())
        return digest.hexdigest()

    def close(self) -> None:
        """End every task and connection; raises `SimulationStuck` when a task does not end though cancelled."""
        if self.loop.is_closed():
            return
        self._final_hash = self.trace_hash()
        self.trace.stop()
        self.network.close()
        left = self.loop.reap()
        self.loop.close()
        if left:
            raise SimulationStuck(f"seed {self.seed}: tasks that do not end when cancelled{describe_tasks(left)}")

    def __enter__(self) -> "Simulation":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except SimulationStuck:
            if error is None:
                raise
