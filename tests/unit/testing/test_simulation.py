"""A whole simulation: the same seed gives the same run, in another process too, and a crash loses what it should."""

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.runtime.dice import Dice, SystemDice
from barnabas.runtime.flusher import Flusher
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.testing.disk import Keep
from barnabas.testing.link import NetworkConfig
from barnabas.testing.loop import SimulationStuck
from barnabas.testing.simulation import EPOCH_MS, Simulation

ROUGH = NetworkConfig(split_chance=0.5, spike_chance=0.05, reset_chance=0.01, link_bytes=2_000)

IN_ANOTHER_PROCESS = """
import runpy, sys
names = runpy.run_path(sys.argv[1], run_name="busy")
print(*(names["busy_hash"](seed) for seed in range(5)))
"""


async def serve(simulation: Simulation, name: str) -> None:
    """A small node: writes every line to its log, and answers when that is durable."""
    data_dir = DataDir(simulation.disk(name), "/data")
    log = data_dir.create_log(TopicPartition("t", 0), LogConfig())
    flusher = Flusher(simulation.offload(name))

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                end_offset = append(log, line, simulation.clock(name).now_ms())
                await flusher.wait_flushed(log, end_offset)
                writer.write(b"%d %s\n" % (end_offset, simulation.dice(name).uuid().hex.encode()))
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with asyncio.TaskGroup() as group:
        group.create_task(flusher.run())
        server = await asyncio.start_server(handle, name, 9092)
        group.create_task(server.serve_forever())


def append(log: Log, value: bytes, now_ms: int) -> int:
    batch = encode_batch([Record(offset=0, timestamp=now_ms, key=None, value=value)])
    return log.append(batch, leader_epoch=0, now_ms=now_ms).last_offset + 1


async def ask(name: str, lines: int) -> int:
    """How many answers came before the connection broke."""
    answers = 0
    try:
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection(name, 9092)
            for number in range(lines):
                writer.write(b"%d\n" % number)
                answers += bool(await reader.readline())
            writer.close()
    except (OSError, TimeoutError):
        pass
    return answers


async def give_up() -> None:
    """Twenty tasks that are cancelled together: asyncio walks through a set of them."""

    async def rest() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(rest(), name=f"resting {number}")

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(work(), 1)


async def busy(simulation: Simulation) -> int:
    """Three nodes, six clients, a partition, a crash, and tasks that are cancelled together."""
    names = ["node-1", "node-2", "node-3"]
    for name in names:
        simulation.host(name).start(serve(simulation, name))
    await asyncio.sleep(1)
    async with asyncio.TaskGroup() as group:
        clients = [
            group.create_task(simulation.host(f"client-{n}").run(ask(names[n % 3], 30)), name=f"client {n}")
            for n in range(6)
        ]
        await asyncio.sleep(0.05)
        simulation.network.partition(["client-0", "client-1"], names)
        simulation.crash("node-3")
        await asyncio.sleep(5)
        simulation.network.heal()
        await give_up()
    return sum(client.result() for client in clients)


def busy_hash(seed: int) -> str:
    with Simulation(seed, network=ROUGH) as simulation:
        answers = simulation.run(lambda: busy(simulation))
        return f"{answers}-{simulation.trace_hash()}"


def test_the_same_seed_gives_the_same_run() -> None:
    hashes = [busy_hash(seed) for seed in range(10)]
    assert hashes == [busy_hash(seed) for seed in range(10)]
    assert len(set(hashes)) == 10


@pytest.mark.parametrize("hash_seed", ["1", "12345"])
def test_the_same_seed_gives_the_same_run_in_another_process(hash_seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(Path(__file__))]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert printed.stdout.split() == [busy_hash(seed) for seed in range(5)]


def test_the_hash_is_the_same_before_and_after_closing() -> None:
    with Simulation(3) as simulation:
        simulation.run(lambda: busy(simulation))
        before = simulation.trace_hash()
    assert simulation.trace_hash() == before


def test_the_flusher_makes_appends_durable_in_shared_rounds() -> None:
    async def scenario() -> None:
        disk = simulation.disk("node-1")
        logs = [DataDir(disk, f"/data{n}").create_log(TopicPartition("t", 0), LogConfig()) for n in range(3)]
        flusher = Flusher(simulation.offload("node-1"))
        running = asyncio.create_task(flusher.run())

        async def produce(log: Log) -> None:
            for _ in range(10):
                end_offset = append(log, b"v", simulation.clock("node-1").now_ms())
                written = log.active.file().read(0, log.active.size)
                await flusher.wait_flushed(log, end_offset)
                durable = disk.durable_bytes(log.active.log_path)
                assert durable is not None
                assert durable.startswith(written)

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                for log in logs:
                    group.create_task(produce(log))
        running.cancel()
        assert [log.flushed_offset for log in logs] == [40, 40, 40]
        assert flusher.goes < 120
        assert simulation.offload("node-1").outstanding == 0
        assert simulation.offload("node-1").max_outstanding > 1

    for seed in range(5):
        with Simulation(seed) as simulation:
            simulation.run(scenario)
            assert simulation.loop.time() > 0


@pytest.mark.parametrize("seed", range(5))
def test_what_was_acknowledged_survives_a_power_cut(seed: int) -> None:
    async def scenario() -> tuple[int, bytes]:
        simulation.host("node-1").start(serve(simulation, "node-1"))
        await asyncio.sleep(1)
        asking = asyncio.create_task(ask("node-1", 1000))
        await asyncio.sleep(0.5)
        simulation.crash("node-1", Keep.NOTHING)
        path = "/data/t-0/00000000000000000000.log"
        return await asking, simulation.disk("node-1").durable_bytes(path) or b""

    with Simulation(seed) as simulation:
        answers, durable = simulation.run(scenario)
    assert 0 < answers < 1000
    assert durable.count(b"\n") >= answers


def test_a_killed_process_leaves_its_disk_as_it_was() -> None:
    async def scenario() -> None:
        simulation.host("node-1")
        file = simulation.disk("node-1").open("/unsynced", create=True)
        file.write(0, b"still here")
        simulation.kill("node-1")
        with pytest.raises(OSError, match="unsynced"):
            file.read(0, 1)
        assert simulation.disk("node-1").open("/unsynced").read(0, 100) == b"still here"

    with Simulation(1) as simulation:
        simulation.run(scenario)


def test_clocks_begin_at_a_fixed_time_and_follow_virtual_time() -> None:
    async def scenario() -> None:
        clock: Clock = simulation.clock("node-1")
        assert clock.now_ms() == EPOCH_MS
        await asyncio.sleep(1.5)
        assert clock.now_ms() == EPOCH_MS + 1500
        simulation.clock("node-1").skew_ms = -60_000
        assert clock.now_ms() == EPOCH_MS - 58_500
        assert simulation.clock("node-2").now_ms() == EPOCH_MS + 1500

    with Simulation(1) as simulation:
        simulation.run(scenario)


def test_dice_differ_by_host_and_by_seed_and_by_nothing_else() -> None:
    def throw(seed: int, name: str) -> tuple[object, ...]:
        with Simulation(seed) as simulation:
            dice: Dice = simulation.dice(name)
            return dice.uuid(), dice.token_bytes(8), dice.randrange(2**60)

    assert throw(1, "a") == throw(1, "a")
    assert len({throw(1, "a"), throw(1, "b"), throw(2, "a")}) == 3


def test_the_real_ports_have_the_same_shape() -> None:
    dice: Dice = SystemDice()
    clock: Clock = SystemClock()
    assert dice.uuid() != dice.uuid()
    assert dice.uuid().version == 4
    assert len(dice.token_bytes(16)) == 16
    assert dice.randrange(1) == 0
    assert clock.now_ms() > EPOCH_MS


def test_a_failure_names_its_seed() -> None:
    async def scenario() -> None:
        await asyncio.sleep(1)
        raise ValueError("no")

    with Simulation(77) as simulation, pytest.raises(ValueError, match="no") as caught:
        simulation.run(scenario)
    assert "seed 77, at 1.000000 s" in caught.value.__notes__[0]


def test_a_task_whose_failure_nobody_awaits_fails_the_run() -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def scenario() -> None:
        asyncio.get_running_loop().create_task(fail())
        await asyncio.sleep(1)

    with Simulation(1) as simulation, pytest.raises(BaseExceptionGroup, match="seed 1"):
        simulation.run(scenario)


def test_a_task_that_ignores_its_end_is_reported() -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def scenario() -> None:
        kept.append(asyncio.create_task(stubborn()))
        await asyncio.sleep(1)

    kept: list[asyncio.Task[None]] = []
    simulation = Simulation(1)
    simulation.run(scenario)
    with pytest.raises(SimulationStuck, match="stubborn"):
        simulation.close()


def test_tasks_go_on_from_one_run_to_the_next() -> None:
    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(simulation.loop.time())

    async def begin() -> None:
        kept.append(asyncio.create_task(tick()))

    async def wait() -> None:
        await asyncio.sleep(3.5)

    ticks: list[float] = []
    kept: list[asyncio.Task[None]] = []
    with Simulation(1) as simulation:
        simulation.run(begin)
        simulation.run(wait)
    assert ticks == [1.0, 2.0, 3.0]
