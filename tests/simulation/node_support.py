"""A whole node in simulation: the very node that is shipped, on a disk that loses power and a network that resets.

`run(seed)` has clients write, read, create, configure and delete topics for some virtual seconds, while the node is
crashed, killed, stopped and cut off at any moment, in the middle of what it does to its disk as well. Everything that
clients were told is checked as it comes (`node_history`), and once more at the end: with all faults over, after a last
power cut, and after a clean stop. A failure names its seed.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

from barnabas.core.records.batch import iter_batches
from barnabas.core.records.record import decode_batch
from barnabas.node import Node, Ports
from barnabas.runtime.offload import Threads
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.listener import Listener
from barnabas.storage.names import parse_partition
from barnabas.testing.disk import Keep, SimulatedCrash, SimulatedDisk
from barnabas.testing.link import NetworkConfig
from barnabas.testing.network import LOCALHOST
from barnabas.testing.simulation import Simulation
from barnabas.testing.wire_client import ACKS_ALL
from barnabas.wire.apis import Api
from tests.simulation.node_clients import HOST, PORT, Administrator, Consumer, Producer
from tests.simulation.node_history import TopicLife, Violation

DATA: Final = "/data"
FAULTS: Final = 7
ANSWER_CHANCE: Final = 0.2  # that an answer is the last one of a node that is to lose power at one
RECOVERY_S: Final = 60.0
NETWORK: Final = NetworkConfig(spike_chance=0.02, reset_chance=0.002, refuse_chance=0.01)
CONFIG: Final = BrokerConfig(
    listeners=(Listener("PLAINTEXT", HOST, PORT),),
    log_dirs=(DATA,),
    auto_create_topics_enable=False,
    log_retention_check_interval_ms=700,
    log_cleaner_backoff_ms=500,
    log_flush_offset_checkpoint_interval_ms=400,
    metadata_log_max_record_bytes_between_snapshots=2000,
)


class FragileDisk(SimulatedDisk):
    """Tells at once when `crash_after` has come true: from then on not a line of the process may run."""

    on_crash: Callable[[], None]

    def _end(self) -> None:
        try:
            super()._end()
        except SimulatedCrash:
            self.on_crash()
            raise


class NodeWorld:
    """One node, its clients, and what goes wrong."""

    config = CONFIG
    faults = FAULTS
    gap_s = 1.0  # between faults, on average
    promises: frozenset[Api] = frozenset()  # APIs at whose answers the node loses power, at every other fault

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.lives: dict[str, TopicLife] = {}
        self.producer_ids: dict[int, None] = {}
        self.counts: Counter[str] = Counter()
        self.is_over = False
        self._random = simulation.random("faults")
        self._disk = FragileDisk(simulation.random(f"disk/{HOST}"))
        self._disk.on_crash = self._note_crash
        simulation._disks[HOST] = self._disk
        self._has_crashed = asyncio.Event()
        self._is_last_answer_due = False
        self._node: Node | None = None
        self._running: asyncio.Task[None] | None = None
        self._failure: asyncio.Future[None] | None = None

    # What clients ask.

    def random(self, name: str) -> Random:
        return self.simulation.random(name)

    def now_ms(self) -> int:
        return self.simulation.clock(LOCALHOST).now_ms()

    def note_answer(self, api: Api) -> None:
        """A client has been told something, in this turn of the loop: from now on it must hold, come what may."""
        if self._is_last_answer_due and api in self.promises and self._random.random() < ANSWER_CHANCE:
            self._is_last_answer_due = False
            self._crash(Keep.NOTHING)
            self._has_crashed.set()

    # The scenario.

    async def run(self) -> None:
        self._failure = asyncio.get_running_loop().create_future()
        self._start()
        admin = Administrator(self)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch())
            await admin.create_all()
            consumers = [Consumer(self, f"consumer{number}") for number in range(3)]
            clients: list[Producer | Consumer | Administrator] = [*self._make_producers(), *consumers, admin]
            working = [tasks.create_task(client.run()) for client in clients]
            await self._break_things()
            await asyncio.sleep(1)
            self.is_over = True
            async with soon("every client is done"):
                await asyncio.gather(*working)
            await self._check_everything(admin)
            self._crash(Keep.NOTHING)
            self._start()
            await self._check_everything(admin)
            await self._stop()
            self._start()
            await self._check_everything(admin)
            await self._stop()
            watching.cancel()
        self._check_disk()

    def _make_producers(self) -> list[Producer]:
        return [
            Producer(self, "all0", acks=ACKS_ALL, is_idempotent=True),
            Producer(self, "all1", acks=ACKS_ALL, is_idempotent=True),
            Producer(self, "all2", acks=ACKS_ALL, is_idempotent=True),
            Producer(self, "one0", acks=1, is_idempotent=True),
            Producer(self, "plain0", acks=ACKS_ALL, is_idempotent=False),
        ]

    async def _check_everything(self, admin: Administrator) -> None:
        """The node serves again, soon, and all is as it must be."""
        async with soon("everything is served again"):
            await admin.verify()
            for life in list(self.lives.values()):
                await self._read_all(life)
        admin.hang_up()

    async def _read_all(self, life: TopicLife) -> None:
        reader = Consumer(self, "reader")
        found: list[dict[int, bytes]] = [{} for _ in life.partitions]

        def note(partition: int, data: bytes) -> None:
            for position, header in iter_batches(data):
                for record in decode_batch(data[position : position + header.size]):
                    found[partition][record.offset] = record.value or b""

        offsets = {number: history.log_start_offset for number, history in enumerate(life.partitions)}
        while True:
            before = dict(offsets)
            if not await reader.fetch(life, offsets, max_bytes=100_000, on_records=note):
                raise Violation(f"{life.name} cannot be read")
            ends = [history.high_watermark for history in life.partitions]
            if all(offsets[number] >= end for number, end in enumerate(ends)) and offsets == before:
                break
        reader.hang_up()
        for number, history in enumerate(life.partitions):
            history.check_all(found[number])

    # The node.

    def _start(self) -> None:
        simulation = self.simulation
        threads = Threads.in_one(simulation.offload(HOST))
        ports = Ports(self._disk, simulation.clock(HOST), simulation.dice(HOST), threads)
        self._has_crashed.clear()
        self._node = Node(self.config, ports)
        self._running = simulation.host(HOST).start(self._node.run(self._note_ready))
        self._running.add_done_callback(self._note_end)

    def _note_ready(self, _node: Node) -> None:
        self.counts["start"] += 1

    def _note_end(self, running: "asyncio.Task[None]") -> None:
        """A node that ends by itself ends the simulation, but for a crash that the disk told of."""
        error = None if running.cancelled() else running.exception()
        if error is not None and not self._has_crashed.is_set() and self._failure and not self._failure.done():
            failure = Violation(f"the node ended by itself: {error!r}")
            failure.__cause__ = error
            self._failure.set_exception(failure)

    async def _watch(self) -> None:
        assert self._failure is not None
        await self._failure

    def _note_crash(self) -> None:
        self._has_crashed.set()
        self.simulation.network.crash(HOST)

    def _crash(self, keep: Keep | None = None) -> None:
        self._check_offsets()
        self.simulation.crash(HOST, keep or self._random.choice((Keep.RANDOM, Keep.RANDOM, Keep.NOTHING)))

    def _kill(self) -> None:
        self.simulation.kill(HOST)

    async def _stop(self) -> None:
        assert self._node is not None
        assert self._running is not None
        self._check_offsets()
        self._node.stop()
        async with soon("the node has stopped"):
            await asyncio.wait([self._running])
        self._running.result()
        self.simulation.kill(HOST)

    # Faults.

    async def _break_things(self) -> None:
        for number in range(self.faults):
            await asyncio.sleep(self._random.expovariate(1 / self.gap_s))
            fault = self._choose_fault(is_aimed=bool(self.promises) and number % 2 == 1)
            await fault()
            self.counts[fault.__name__.strip("_")] += 1

    def _choose_fault(self, *, is_aimed: bool) -> Callable[[], Coroutine[Any, Any, None]]:
        if is_aimed:
            return self._lose_power_at_an_answer
        return self._random.choices(
            (
                self._lose_power,
                self._lose_power_soon,
                self._lose_process,
                self._stop_cleanly,
                self._reset,
                self._cut,
            ),
            weights=(3, 4, 2, 1, 2, 1),
        )[0]

    async def _lose_power(self) -> None:
        self._crash()
        await self._start_again()

    async def _lose_process(self) -> None:
        self._kill()
        await self._start_again()

    async def _stop_cleanly(self) -> None:
        await self._stop()
        await self._start_again()

    async def _lose_power_soon(self) -> None:
        """In the middle of something that the node does to its disk, the start perhaps."""
        if self._random.random() < 0.3:
            self._crash()
            self._disk.crash_after(self._random.randrange(60))
            self._start()
        else:
            self._disk.crash_after(self._random.randrange(40))
        try:
            async with asyncio.timeout(5):
                await self._has_crashed.wait()
        except TimeoutError:
            self._disk.crash_after(10**9)
            return
        self.counts["crash in a disk call"] += 1
        if self._random.random() < 0.3:
            self._kill()
        else:
            self._crash()
        await self._start_again()

    async def _lose_power_at_an_answer(self) -> None:
        """Before the node does anything more for what it has just said: what it said too early is lost for certain."""
        self._is_last_answer_due = True
        try:
            async with asyncio.timeout(5):
                await self._has_crashed.wait()
        except TimeoutError:
            self._is_last_answer_due = False
            return
        self.counts["crash at an answer"] += 1
        await self._start_again()

    async def _start_again(self) -> None:
        self._disk.crash_after(10**9)
        await asyncio.sleep(self._random.choice((0, 0.1, 2)))
        self._start()

    async def _reset(self) -> None:
        self.simulation.network.reset_between(HOST)

    async def _cut(self) -> None:
        self.simulation.network.partition([HOST], [LOCALHOST], drop=self._random.random() < 0.5)
        await asyncio.sleep(self._random.uniform(0.1, 4))
        self.simulation.network.heal()

    # What only the inside tells.

    def _check_offsets(self) -> None:
        broker = None if self._node is None else self._node.broker
        for partition in () if broker is None else broker.logs.partitions.values():
            log = partition.log
            high_watermark = partition.high_watermark
            stable = log.last_stable_offset(high_watermark)
            if not log.log_start_offset <= stable <= high_watermark <= log.end_offset:
                raise Violation(f"{partition}: {log}, stable to {stable}, high watermark {high_watermark}")

    def _check_disk(self) -> None:
        """What is left on disk belongs to topics that are there."""
        for name in self._disk.list_dir(DATA):
            partition = parse_partition(name)
            is_known = partition is None or partition.topic in (*self.lives, "__cluster_metadata")
            if not is_known or name.endswith("-delete"):
                raise Violation(f"{name} is left of a topic that was deleted")


@asynccontextmanager
async def soon(what: str) -> AsyncIterator[None]:
    """Within bounded virtual time."""
    try:
        async with asyncio.timeout(RECOVERY_S):
            yield
    except TimeoutError as error:
        raise Violation(f"{RECOVERY_S} s passed before {what}") from error


def run(seed: int) -> tuple[Counter[str], str]:
    """One run: what happened how often, and the hash of all of it."""
    return run_world(NodeWorld, seed, max_steps=2_000_000)


def run_world(kind: type[NodeWorld], seed: int, *, max_steps: int) -> tuple[Counter[str], str]:
    """One run of such a world; that a crash ended what was under way is no failure."""
    with Simulation(seed, network=NETWORK, max_steps=max_steps) as simulation:
        world = kind(simulation)
        loop = simulation.loop

        async def scenario() -> None:
            await world.run()
            loop.unhandled = [error for error in loop.unhandled if not isinstance(error, SimulatedCrash)]

        simulation.run(scenario)
        return world.counts, simulation.trace_hash()


if __name__ == "__main__":
    import sys

    print(*run(int(sys.argv[1])))
