"""Damage is found in the background, and what cannot be read stops nothing but itself; on virtual time."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

import pytest

from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import HEADER_SIZE, seal
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.maintenance import SCRUB_PAUSE_MS, MaintenanceConfig
from barnabas.runtime.partition import Partition
from barnabas.runtime.scrubbing import PIECE_WORK, Scrubbing
from barnabas.storage.config import CleanupPolicy, LogConfig
from barnabas.storage.damage import BATCH_WORK
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import SimulatedDisk
from tests.support.ports import InPlace
from tests.unit.runtime.test_maintenance import (
    COMPACTED,
    HOUR_MS,
    SMALL,
    World,
    run_world,
    values_by_key,
)

T = TypeVar("T")
SCRUB = "barnabas.scrub"
FIRST = "00000000000000000000.log"
FOREVER = LogConfig(segment_bytes=1024, index_interval_bytes=0)
PAUSE_S = SCRUB_PAUSE_MS / 1000


def lines(caplog: pytest.LogCaptureFixture, name: str = SCRUB) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == name]


def flip(world: World, partition: Partition, position: int, file: str = FIRST) -> None:
    world.disk.flip_bit(f"/data/{partition.name}/{file}", position, 3)


def test_a_flipped_bit_below_the_recovery_point_is_found_once_and_others_are_read_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: World) -> None:
        damaged, sound = world.partition("damaged", FOREVER), world.partition("sound", FOREVER)
        world.fill(damaged, 40)
        world.fill(sound, 40)
        await asyncio.sleep(1)
        world.data_dir.checkpoint()
        assert world.data_dir.checkpoints.recovery_point(damaged.name) == 40
        assert len(damaged.log.segments) > 3
        flip(world, damaged, 500)
        await asyncio.sleep(PAUSE_S + 5)
        assert world.maintenance.damaged == 1
        await asyncio.sleep(3 * 86_400)
        assert world.maintenance.damaged == 1
        assert len(values_by_key(sound)) == 40
        assert world.data_dir.health.offline_reason is None

    with caplog.at_level(logging.INFO):
        run_world(scenario)
    (line,) = lines(caplog)
    assert line.startswith(
        "damaged-0 is damaged from offset 1 on: /data/damaged-0/00000000000000000000.log at position "
    )
    assert line.endswith("run: barnabas topic repair damaged --data-dir /data")


@pytest.mark.parametrize("at", [2, 7, 9, 11, 16, 18, 22, 40, 60, 61, 250], ids=lambda at: f"byte {at}")
def test_whatever_byte_of_a_batch_it_is_and_what_follows_is_checked_as_well(at: int) -> None:
    """But for the leader epoch of a batch, which nothing vouches for."""

    async def scenario(world: World) -> None:
        partition = world.partition("t", LogConfig(segment_bytes=1024 * 1024))
        world.fill(partition, 40)
        partition.log.roll()
        world.fill(partition, 1)
        await asyncio.sleep(1)
        size = partition.log.segments[0].size // 40
        flip(world, partition, 5 * size + at)
        flip(world, partition, 20 * size + 100)
        await asyncio.sleep(PAUSE_S + 5)
        assert world.maintenance.damaged == 2

    run_world(scenario)


def test_the_active_segment_is_read_as_far_as_it_is_written() -> None:
    async def scenario(world: World) -> None:
        partition = world.partition("t", LogConfig())
        world.fill(partition, 10)
        await asyncio.sleep(1)
        flip(world, partition, 400)
        await asyncio.sleep(PAUSE_S + 5)
        assert world.maintenance.damaged == 1

    run_world(scenario)


def test_it_can_be_off() -> None:
    async def scenario(world: World) -> None:
        partition = world.partition("t", FOREVER)
        world.fill(partition, 40)
        await asyncio.sleep(1)
        flip(world, partition, 500)
        await asyncio.sleep(86_400)
        assert world.maintenance.damaged == 0
        world.maintenance.configure(MaintenanceConfig(scrub_bytes_per_second=1000_000))
        await asyncio.sleep(2 * PAUSE_S)
        assert world.maintenance.damaged == 1

    run_world(scenario, MaintenanceConfig(scrub_bytes_per_second=0))


def test_it_reads_no_faster_than_it_may() -> None:
    rate = 100_000

    async def scenario(world: World) -> None:
        partition = world.partition("t", LogConfig())
        for _ in range(8):
            record = Record(0, world.clock.now_ms(), b"k", bytes(PIECE_WORK))
            partition.append(encode_batch([record]), now_ms=world.clock.now_ms())
        await asyncio.sleep(1)
        size = partition.log.size
        flip(world, partition, size - 100)
        await asyncio.sleep(PAUSE_S + (size - 2 * PIECE_WORK) / rate)
        assert world.maintenance.damaged == 0
        await asyncio.sleep(4 * PIECE_WORK / rate)
        assert world.maintenance.damaged == 1

    run_world(scenario, MaintenanceConfig(scrub_bytes_per_second=rate))


def test_small_batches_count_for_more_than_their_bytes() -> None:
    """Checking them holds up everybody else: they are read more slowly, and a few at a time."""

    class Counted(InPlace):
        def __init__(self) -> None:
            self.pieces = 0

        async def run(self, function: Callable[[], T]) -> T:
            self.pieces += 1
            return await super().run(function)

    async def scenario() -> None:
        data_dir, offload = DataDir(SimulatedDisk(1), "/data"), Counted()
        log = data_dir.create_log(TopicPartition("t", 0), LogConfig())
        for _ in range(1000):
            log.append(encode_batch([Record(0, 0, b"k", b"v")]), leader_epoch=0, now_ms=0)
        assert log.size < PIECE_WORK
        scrubbing, work = Scrubbing(data_dir, offload), 0
        while (piece := await scrubbing.check_piece()) is not None:
            assert piece < PIECE_WORK + log.size // 1000 + BATCH_WORK
            work += piece
        assert work == log.size + 1000 * BATCH_WORK
        assert offload.pieces - 1 == -(-work // PIECE_WORK)  # and one that loads where it was

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(8))
def test_a_log_that_is_deleted_truncated_or_compacted_meanwhile_is_not_damaged(seed: int) -> None:
    async def scenario(world: World) -> None:
        for number in range(30):
            config = COMPACTED if number % 2 else FOREVER
            partition = world.partition(f"t{number % 4}", config)
            world.fill(partition, 30)
            await asyncio.sleep(0.3)
            if number % 3:
                await world.delete(partition)
        assert world.maintenance.damaged == 0

    run_world(scenario, MaintenanceConfig(scrub_interval_ms=1, scrub_bytes_per_second=200_000), seed=seed)


def test_after_a_restart_it_goes_on_where_it_was() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk(1)
        data_dir = DataDir(disk, "/data")
        for name in ("a", "b", "c"):
            log = data_dir.create_log(TopicPartition(name, 0), FOREVER)
            for _ in range(20):
                log.append(encode_batch([Record(0, 0, b"k", bytes(220))]), leader_epoch=0, now_ms=0)
            log.flush()
            disk.flip_bit(f"/data/{name}-0/{FIRST}", 500, 3)
        first = Scrubbing(data_dir, InPlace())
        while first.damaged < 2:
            assert await first.check_piece() is not None
        await first.save()
        second = Scrubbing(data_dir, InPlace())
        while await second.check_piece() is not None:
            pass
        assert second.damaged == 2  # the segment it was in, and all after it
        await second.save()
        third = Scrubbing(data_dir, InPlace())
        while await third.check_piece() is not None:
            pass
        assert third.damaged == 3
        disk.flip_bit("/data/scrub-offset-checkpoint", 0, 0)
        assert await Scrubbing(data_dir, InPlace()).check_piece()

    asyncio.run(scenario())


# What maintenance does when it meets such a log


def poison(world: World, partition: Partition) -> None:
    """A batch with a right checksum that cannot be read, taken before records were checked."""
    batch = encode_batch([Record(0, world.clock.now_ms(), b"key", bytes(300))])
    batch[HEADER_SIZE + 5] = 0x7D  # the length of the key: -63
    seal(batch, 0, len(batch))
    partition.append(batch, now_ms=world.clock.now_ms())


def test_a_poisoned_log_is_not_compacted_and_the_others_are(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        poisoned, sound = world.partition("poisoned", COMPACTED), world.partition("sound", COMPACTED)
        poison(world, poisoned)
        world.fill(poisoned, 60)
        world.fill(sound, 30)
        await asyncio.sleep(600)
        assert len(values_by_key(sound)) < 10
        assert world.maintenance.uncleanable == 1
        world.fill(sound, 30)
        await asyncio.sleep(600)
        assert len(values_by_key(sound)) < 10

    with caplog.at_level(logging.ERROR):
        run_world(scenario)
    (line,) = lines(caplog, "barnabas.compaction")
    assert "poisoned-0 is no longer compacted" in line
    assert "barnabas topic repair poisoned --data-dir /data" in line


def test_a_log_whose_first_header_is_damaged_ends_neither_compaction_nor_retention(
    caplog: pytest.LogCaptureFixture,
) -> None:
    both = (CleanupPolicy.COMPACT, CleanupPolicy.DELETE)
    config = LogConfig(
        segment_bytes=1024,
        index_interval_bytes=0,
        cleanup_policy=both,
        retention_ms=HOUR_MS,
        max_compaction_lag_ms=HOUR_MS // 60,
        min_compaction_lag_ms=1000,
    )

    async def scenario(world: World) -> None:
        damaged, sound, expiring = (
            world.partition("damaged", config),
            world.partition("sound", COMPACTED),
            world.partition("expiring", SMALL),
        )
        for partition in (damaged, sound, expiring):
            world.fill(partition, 30)
        await asyncio.sleep(1)
        for segment in damaged.log.segments:
            world.disk.flip_bit(segment.log_path, 16, 3)  # the magic byte
            segment.forget_files()
        for name in world.names(damaged):
            if name.endswith(("index", "timeindex")):
                world.disk.remove(f"/data/{damaged.name}/{name}")
        await asyncio.sleep(2 * HOUR_MS / 1000)
        assert expiring.log_start_offset > 0
        world.fill(sound, 30)
        await asyncio.sleep(600)
        assert len(values_by_key(sound)) < 10
        assert world.maintenance.uncleanable == 1

    with caplog.at_level(logging.ERROR):
        run_world(scenario)
    assert len(lines(caplog, "barnabas.compaction")) == 1
    assert len(lines(caplog, "barnabas.maintenance")) <= 1
    assert not any("has stopped" in line for line in lines(caplog, "barnabas.maintenance"))
