"""Maintenance of a node's logs, on virtual time and a simulated disk."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import msgspec
import pytest

from barnabas.core.errors import StorageError, StorageExhausted
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import iter_batches
from barnabas.core.records.record import Record, decode_batch, encode_batch
from barnabas.runtime.disk_watch import HealthLog
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.logs import Logs
from barnabas.runtime.maintenance import Maintenance, MaintenanceConfig
from barnabas.runtime.partition import Partition
from barnabas.storage.config import CleanupPolicy, FlushPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.disk import Disk
from barnabas.storage.log import Log
from barnabas.testing.disk import Keep, SimulatedDisk
from barnabas.testing.disk_names import Node
from barnabas.testing.simulation import Simulation

T = TypeVar("T")

HOUR_MS = 3_600_000
SMALL = LogConfig(segment_bytes=1024, index_interval_bytes=0, retention_ms=HOUR_MS)
COMPACTED = LogConfig(segment_bytes=1024, index_interval_bytes=0, cleanup_policy=(CleanupPolicy.COMPACT,))
RECOVERY_POINTS = "/data/recovery-point-offset-checkpoint"


class World:
    """The logs of a node with their flusher and their maintenance, as `node` puts them together."""

    def __init__(self, simulation: Simulation, config: MaintenanceConfig, tasks: asyncio.TaskGroup) -> None:
        self.disk = simulation.disk("node")
        self.clock = simulation.clock("node")
        self.offload = simulation.offload("node")
        self.data_dir = DataDir(self.disk, "/data")
        self.logs = Logs(self.data_dir)
        self.logs.flusher = Flusher(self.offload, listener=self.logs)
        self.maintenance = Maintenance(self.logs, self.offload, self.clock, simulation.dice("node"), config)
        self.flushing = tasks.create_task(self.logs.flusher.run())
        self.running = tasks.create_task(self.maintenance.run())

    def partition(self, name: str = "t", config: LogConfig = SMALL) -> Partition:
        return Partition(TopicPartition(name, 0), self.logs, config, leader_epoch=0)

    def fill(self, partition: Partition, count: int, *, keys: int = 3, age_ms: int = 0) -> None:
        """So many records of about 300 bytes, each in its batch."""
        for number in range(count):
            record = Record(0, self.clock.now_ms() - age_ms, b"k%d" % (number % keys), b"%d" % number + bytes(220))
            partition.append(encode_batch([record]), now_ms=self.clock.now_ms())

    def names(self, partition: Partition) -> list[str]:
        return self.disk.list_dir(f"/data/{partition.name}")

    async def delete(self, partition: Partition) -> None:
        partition.delete()
        await self.offload.run(self.data_dir.begin_deletion([partition.name]))


def run_world(
    scenario: Callable[[World], Awaitable[None]], config: MaintenanceConfig | None = None, *, seed: int = 0
) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            world = World(simulation, config or MaintenanceConfig(), tasks)
            await scenario(world)
            world.maintenance.stop()
            await world.running
            world.flushing.cancel()

    with Simulation(seed) as simulation:
        simulation.run(main)


def values_by_key(partition: Partition) -> list[tuple[bytes | None, bytes]]:
    found, offset = [], partition.log_start_offset
    while (piece := partition.log.read(offset, max_bytes=10**6)) is not None:
        data = piece.read()
        for position, header in iter_batches(data):
            records = decode_batch(bytes(data[position : position + header.size]))
            found += [(record.key, (record.value or b"").rstrip(b"\0")) for record in records]
            offset = header.next_offset
    return found


# Retention


def test_expired_segments_go_and_a_quiet_log_empties() -> None:
    async def scenario(world: World) -> None:
        partition = world.partition()
        world.fill(partition, 10)
        await asyncio.sleep(HOUR_MS / 1000 + 400)
        assert partition.log_start_offset == partition.end_offset == 10
        assert [name for name in world.names(partition) if name.endswith(".log")] == ["00000000000000000010.log"]
        world.fill(partition, 1)
        await asyncio.sleep(1)
        assert partition.high_watermark == 11

    run_world(scenario)


def test_a_log_that_was_never_flushed_is_not_flushed_on_the_loop_when_all_of_it_expires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flushed: list[Log] = []
    flush = Log.flush

    def note_flush(log: Log) -> None:
        flushed.append(log)
        flush(log)

    async def scenario(world: World) -> None:
        partition = world.partition(config=msgspec.structs.replace(SMALL, flush_policy=FlushPolicy.OS))
        world.fill(partition, 2)
        monkeypatch.setattr(Log, "flush", note_flush)
        await asyncio.sleep(HOUR_MS / 1000 + 400)
        assert partition.log_start_offset == partition.end_offset == 2
        assert flushed == []

    run_world(scenario)


def test_what_is_young_stays() -> None:
    async def scenario(world: World) -> None:
        partition = world.partition()
        world.fill(partition, 6, age_ms=2 * HOUR_MS)
        world.fill(partition, 6)
        await asyncio.sleep(400)
        assert 0 < partition.log_start_offset <= 6

    run_world(scenario)


def test_nothing_beyond_the_high_watermark_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        partition = world.partition()
        world.fill(partition, 5, age_ms=2 * HOUR_MS)
        await asyncio.sleep(1)
        monkeypatch.setattr(Logs, "note_flushed", lambda _logs, _log: None)  # what comes now is never acknowledged
        world.fill(partition, 5, age_ms=2 * HOUR_MS)
        await world.maintenance.apply_retention()
        assert 0 < partition.log_start_offset <= partition.high_watermark == 5

    run_world(scenario)


def test_the_new_start_is_durable_before_files_go() -> None:
    async def scenario(world: World) -> None:
        partition = world.partition()
        world.fill(partition, 10)
        await asyncio.sleep(HOUR_MS / 1000 + 400)
        assert partition.log_start_offset == 10
        world.disk.crash(Keep.NOTHING)
        log = DataDir(world.disk, "/data").create_log(partition.name, SMALL)
        assert (log.log_start_offset, log.end_offset) == (10, 10)

    run_world(scenario)


def test_expired_files_that_cannot_be_removed_for_now_go_in_the_next_round() -> None:
    async def scenario(world: World) -> None:
        partition = world.partition()
        world.fill(partition, 10, age_ms=2 * HOUR_MS)
        await asyncio.sleep(1)
        directory = f"/data/{partition.name}"
        world.disk.fail_open(lambda path: path == directory and not world.disk.exists(f"{directory}/{0:020d}.log"))
        with pytest.raises(StorageExhausted):
            await world.maintenance.apply_retention()
        assert partition.log_start_offset == 10
        assert len([name for name in world.names(partition) if name.endswith(".snapshot")]) > 1
        world.fill(partition, 1)  # of which nothing is due
        await world.maintenance.apply_retention()
        assert [name for name in world.names(partition) if name.endswith(".snapshot")] == [f"{10:020d}.snapshot"]

    run_world(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_a_topic_may_be_deleted_and_created_again_under_retention(seed: int) -> None:
    async def scenario(world: World) -> None:
        for _ in range(5):
            partitions = [world.partition(f"t{number}") for number in range(4)]
            for partition in partitions:
                world.fill(partition, 8, age_ms=2 * HOUR_MS)
            rounds = asyncio.gather(world.maintenance.apply_retention(), world.maintenance.checkpoint())
            for partition in partitions:
                await asyncio.sleep(0.004)
                await world.delete(partition)
            await rounds
        assert world.data_dir.health.offline_reason is None
        assert not [name for name in world.disk.list_dir("/data") if name.startswith("t")]

    run_world(scenario, MaintenanceConfig(cleaner_enable=False), seed=seed)


# Compaction


def test_a_compacted_log_keeps_the_newest_of_each_key() -> None:
    async def scenario(world: World) -> None:
        partition = world.partition(config=COMPACTED)
        world.fill(partition, 30)
        await asyncio.sleep(60)
        found = values_by_key(partition)
        assert len(found) < 10
        assert found[-3:] == [(b"k0", b"27"), (b"k1", b"28"), (b"k2", b"29")]

    run_world(scenario)


def test_the_cleaner_can_be_off() -> None:
    async def scenario(world: World) -> None:
        partition = world.partition(config=COMPACTED)
        world.fill(partition, 30)
        await asyncio.sleep(600)
        assert len(values_by_key(partition)) == 30

    run_world(scenario, MaintenanceConfig(cleaner_enable=False))


def test_with_policy_os_a_segment_closed_for_compaction_alone_is_flushed_and_compacted() -> None:
    async def scenario(world: World) -> None:
        config = msgspec.structs.replace(
            COMPACTED, segment_bytes=1024**2, flush_policy=FlushPolicy.OS, max_compaction_lag_ms=HOUR_MS
        )
        partition = world.partition(config=config)
        world.fill(partition, 30)
        await asyncio.sleep(HOUR_MS / 1000 + 60)
        assert [key for key, _ in values_by_key(partition)] == [b"k0", b"k1", b"k2"]
        assert partition.end_offset == 30

    run_world(scenario)


def test_a_damaged_log_is_left_alone_and_the_others_are_compacted(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        damaged, sound = world.partition("damaged", COMPACTED), world.partition("sound", COMPACTED)
        world.fill(damaged, 60)
        world.fill(sound, 30)
        await asyncio.sleep(0.1)
        world.disk.flip_bit(f"/data/{damaged.name}/00000000000000000000.log", 200, 3)
        await asyncio.sleep(120)
        assert len(values_by_key(sound)) < 10
        assert damaged.end_offset == 60
        assert world.data_dir.health.offline_reason is None

    with caplog.at_level(logging.ERROR):
        run_world(scenario)
    found = [record for record in caplog.records if record.name == "barnabas.compaction"]
    assert [record.getMessage().split()[0] for record in found] == ["damaged-0"]


def test_logs_are_compacted_one_at_a_time() -> None:
    async def scenario(world: World) -> None:
        partitions = [world.partition(f"t{number}", COMPACTED) for number in range(6)]
        for partition in partitions:
            world.fill(partition, 30)
        await asyncio.sleep(1)
        world.offload.max_outstanding = 0
        await asyncio.sleep(30)
        assert all(len(values_by_key(partition)) < 10 for partition in partitions)
        assert world.offload.max_outstanding == 1

    run_world(scenario, MaintenanceConfig(cleaner_backoff_ms=2000))


@pytest.mark.parametrize("seed", range(10))
def test_a_log_may_be_deleted_and_created_again_while_it_is_compacted(seed: int) -> None:
    async def scenario(world: World) -> None:
        for turn in range(6):
            partition = world.partition(config=COMPACTED)
            world.fill(partition, 20 + turn)
            await asyncio.sleep(0.02)
            compacting = asyncio.ensure_future(world.maintenance._compacting.compact_one())
            await asyncio.sleep(0.002)
            await world.delete(partition)
            await compacting
        partition = world.partition(config=COMPACTED)
        world.fill(partition, 30)
        await asyncio.sleep(60)
        assert values_by_key(partition)[-1] == (b"k2", b"29")
        assert not [name for name in world.names(partition) if "cleaned" in name]

    run_world(scenario, MaintenanceConfig(cleaner_enable=False), seed=seed)


# Checkpoints


def test_recovery_points_are_checkpointed_now_and_then() -> None:
    async def scenario(world: World) -> None:
        partition = world.partition()
        world.fill(partition, 3)
        await asyncio.sleep(61)  # the history of epochs is new, and goes first
        assert world.disk.durable_bytes(f"/data/{partition.name}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"
        await asyncio.sleep(60)
        assert world.disk.durable_bytes(RECOVERY_POINTS) == b"0\n1\nt 0 3\n"
        syncs = world.disk.syncs.total()
        await asyncio.sleep(600)
        assert world.disk.syncs.total() == syncs

    run_world(scenario)


class CheckedOffload:
    """Says whether the code at hand runs on a thread, so to say."""

    def __init__(self, simulation: Simulation) -> None:
        self._offload = simulation.offload("node")
        self.is_on_thread = False

    async def run(self, function: Callable[[], T]) -> T:
        def on_thread() -> T:
            self.is_on_thread = True
            try:
                return function()
            finally:
                self.is_on_thread = False

        return await self._offload.run(on_thread)


def test_the_loop_never_waits_for_a_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    synced_on_loop: list[str] = []
    sync = SimulatedDisk._sync

    with Simulation(0) as simulation:
        offload = CheckedOffload(simulation)

        def checked(disk: SimulatedDisk, path: str, node: Node) -> None:
            if not offload.is_on_thread:
                synced_on_loop.append(path)
            sync(disk, path, node)

        async def main() -> None:
            data_dir = DataDir(simulation.disk("node"), "/data")
            logs = Logs(data_dir)
            logs.flusher = Flusher(offload, listener=logs)
            clock = simulation.clock("node")
            maintenance = Maintenance(logs, offload, clock, simulation.dice("node"), MaintenanceConfig())
            flushing = asyncio.ensure_future(logs.flusher.run())
            partition = Partition(TopicPartition("t", 0), logs, SMALL, leader_epoch=0)
            for number in range(12):
                record = Record(0, clock.now_ms(), None, bytes(250))
                partition.append(encode_batch([record]), now_ms=clock.now_ms())
                await asyncio.sleep(0.1)
                if number == 0:
                    monkeypatch.setattr(SimulatedDisk, "_sync", checked)  # opening a log may wait
            await maintenance.checkpoint()
            await maintenance.checkpoint()
            await asyncio.sleep(2 * HOUR_MS / 1000)
            await maintenance.apply_retention()
            assert partition.log_start_offset == 12
            partition.delete()
            await offload.run(data_dir.begin_deletion([partition.name]))
            flushing.cancel()

        simulation.run(main)
    assert synced_on_loop == []


# Producers, failures, the end


def test_silent_producers_are_forgotten() -> None:
    async def scenario(world: World) -> None:
        partition = world.partition()
        for producer_id in (7, 8):
            record = Record(0, world.clock.now_ms(), None, b"v")
            batch = encode_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0)
            partition.append(batch, now_ms=world.clock.now_ms())
            await asyncio.sleep(3000)
        await asyncio.sleep(1000)
        assert [producer.producer_id for producer in partition.log.producers] == [8]

    run_world(scenario, MaintenanceConfig(producer_id_expiration_ms=5_000_000))


def test_a_directory_that_goes_offline_ends_maintenance_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        world.data_dir.health.listener = HealthLog(world.data_dir.health, world.clock).note
        world.fill(world.partition(), 3)
        await asyncio.sleep(1)
        world.disk.fail_sync(lambda path: "checkpoint" in path)
        await asyncio.sleep(600)
        assert world.running.done()
        with pytest.raises(StorageError):
            world.data_dir.health.check()

    with caplog.at_level(logging.ERROR):
        run_world(scenario)
    assert len(caplog.records) == 1
    assert "is taken offline" in caplog.text


def test_any_other_error_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    class Surprise(Exception):
        pass

    def fail(_disk: Disk, _log: object) -> None:
        raise Surprise

    async def scenario(world: World) -> None:
        world.partition().append(encode_batch([Record(0, 0, None, b"v")]), now_ms=0)
        monkeypatch.setattr(DataDir, "prepare_checkpoint", fail)
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(600)

    with pytest.raises(BaseExceptionGroup) as caught:
        run_world(scenario)
    assert caught.value.subgroup(Surprise) is not None


def test_other_settings_count_at_once_also_for_what_rests_already() -> None:
    async def scenario(world: World) -> None:
        partition = world.partition()
        world.fill(partition, 6, age_ms=2 * HOUR_MS)
        world.fill(partition, 6)
        await asyncio.sleep(30)
        assert partition.log_start_offset == 0
        world.maintenance.configure(MaintenanceConfig(retention_check_interval_ms=40_000))
        await asyncio.sleep(5)
        assert partition.log_start_offset == 0
        await asyncio.sleep(6)  # 40 seconds after it began to rest
        assert partition.log_start_offset > 0

    run_world(scenario)


def test_stopping_does_not_wait_for_the_next_round() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(1)
        before = asyncio.get_running_loop().time()
        world.maintenance.stop()
        await world.running
        assert asyncio.get_running_loop().time() == before

    run_world(scenario)
