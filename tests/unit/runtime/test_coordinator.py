"""One coordinator on one partition: loading, and what happens when its log fails."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from barnabas.core.coordination import Decision, Outcome
from barnabas.core.errors import (
    BarnabasError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    StorageError,
)
from barnabas.core.groups.classic.state import ClassicSoft
from barnabas.core.groups.decision import GroupDecision
from barnabas.core.groups.records import OffsetRecord
from barnabas.core.groups.settings import ConsumerConfig
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.group_coordinator import GroupCoordinator
from barnabas.runtime.logs import Logs
from barnabas.runtime.partition import Partition
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import SimulatedDisk
from tests.unit.runtime.metadata_support import FixedClock, GatedOffload

NAME = TopicPartition("__consumer_offsets", 0)


@asynccontextmanager
async def flushing(disk: SimulatedDisk, offload: GatedOffload) -> AsyncIterator[Partition]:
    """A partition that is synced while the block lasts and the gate is open."""
    data_dir = DataDir(disk, "/data")
    for _ in data_dir.open_logs(lambda _: LogConfig()):
        pass
    logs = Logs(data_dir)
    logs.flusher = Flusher(offload, listener=logs)
    running = asyncio.create_task(logs.flusher.run())
    partition = Partition(NAME, logs, LogConfig(max_message_bytes=1000), leader_epoch=0)
    if NAME in data_dir.logs:
        partition.open_log()
    try:
        yield partition
    finally:
        running.cancel()


def coordinator_of(partition: Partition, offload: GatedOffload) -> GroupCoordinator:
    return GroupCoordinator(
        partition,
        soft=ClassicSoft(),
        offload=offload,
        clock=FixedClock(),
        topics={},
        config_of=lambda _: ConsumerConfig(),
    )


@asynccontextmanager
async def loaded(disk: SimulatedDisk, offload: GatedOffload) -> AsyncIterator[GroupCoordinator]:
    """A coordinator that has read its partition."""
    async with flushing(disk, offload) as partition:
        coordinator = coordinator_of(partition, offload)
        await coordinator.load()
        yield coordinator


def committing(offset: int, *, metadata: str = "") -> GroupDecision[int]:
    return Decision([OffsetRecord("g", "t", 0, offset, metadata=metadata)], offset)


def offset_in(coordinator: GroupCoordinator) -> int:
    record = coordinator.groups.find_offset("g", "t", 0)
    return -1 if record is None else record.offset


def test_what_was_committed_is_loaded_again() -> None:
    async def scenario() -> None:
        disk, offload = SimulatedDisk(1), GatedOffload()
        async with loaded(disk, offload) as coordinator:
            for offset in range(200):
                await coordinator.commit(partial(committing, offset))
        disk.restart()
        async with loaded(disk, offload) as coordinator:
            assert await coordinator.read(lambda: offset_in(coordinator)) == 199

    asyncio.run(scenario())


def test_a_partition_that_was_never_written_is_loaded_without_making_files() -> None:
    async def scenario() -> None:
        offload = GatedOffload()
        async with loaded(SimulatedDisk(1), offload) as coordinator:
            assert await coordinator.read(lambda: offset_in(coordinator)) == -1
            assert not coordinator.partition.has_log

    asyncio.run(scenario())


def test_everybody_is_told_to_try_again_while_it_loads() -> None:
    async def scenario() -> None:
        disk, offload = SimulatedDisk(1), GatedOffload()
        async with loaded(disk, offload) as coordinator:
            await coordinator.commit(lambda: committing(5))
            offload.gate.clear()
            next_one = coordinator_of(coordinator.partition, offload)
            loading = asyncio.create_task(next_one.load())
            await asyncio.sleep(0)
            with pytest.raises(CoordinatorLoadInProgress):
                await next_one.commit(lambda: committing(6))
            offload.gate.set()
            await loading
            assert await next_one.read(lambda: offset_in(next_one)) == 5

    asyncio.run(scenario())


def test_a_log_that_is_no_log_of_groups_is_not_guessed_at() -> None:
    async def scenario() -> None:
        offload = GatedOffload()
        async with flushing(SimulatedDisk(1), offload) as partition:
            partition.append(bytearray(encode_batch([Record(0, 0, b"\xff", b"what?")])), now_ms=0)
            coordinator = coordinator_of(partition, offload)
            await coordinator.load()
            with pytest.raises(CoordinatorNotAvailable, match="cannot be loaded"):
                await coordinator.read(lambda: offset_in(coordinator))

    asyncio.run(scenario())


def test_a_bit_that_flips_below_the_recovery_point_is_found_while_loading() -> None:
    """A start after a clean end reads nothing of that, so the replay is the first to see it."""

    async def written() -> SimulatedDisk:
        disk, offload = SimulatedDisk(1), GatedOffload()
        async with loaded(disk, offload) as coordinator:
            for offset in range(3):
                await coordinator.commit(partial(committing, offset))
            coordinator.partition._logs.data_dir.close()
        disk.restart()
        return disk

    async def scenario(disk: SimulatedDisk, path: str, position: int, bit: int) -> None:
        disk.flip_bit(path, position, bit)
        async with loaded(disk, GatedOffload()) as coordinator:
            try:
                assert await coordinator.read(lambda: offset_in(coordinator)) == 2
            except CoordinatorNotAvailable:
                return
            found.add(position)

    path = f"/data/{NAME}/00000000000000000000.log"
    size = asyncio.run(written()).file_size(path)
    found: set[int] = set()  # where a flip goes by unseen
    for position in range(size):
        for bit in (0, 6):
            asyncio.run(scenario(asyncio.run(written()), path, position, bit))
    # Outside of the checksum are the leader epoch, which nobody reads here, and the offset: of the last batch it says
    # where the log ends, and a later end loses nothing.
    batch = size // 3
    assert {position % batch for position in found if position < 2 * batch} <= set(range(12, 16)), found
    assert {position % batch for position in found} <= set(range(4, 8)) | set(range(12, 16)), found


def test_a_disk_that_cannot_be_read_is_not_an_empty_log() -> None:
    async def scenario() -> None:
        disk, offload = SimulatedDisk(1), GatedOffload()
        async with loaded(disk, offload) as coordinator:
            await coordinator.commit(lambda: committing(5))
            again = coordinator_of(coordinator.partition, offload)
            disk.fail_read(lambda path: path.endswith(".log"))
            await again.load()
            with pytest.raises(CoordinatorNotAvailable, match="cannot be loaded"):
                await again.read(lambda: offset_in(again))

    asyncio.run(scenario())


def test_nothing_is_said_before_it_is_durable_not_even_to_a_reader() -> None:
    async def scenario() -> None:
        offload = GatedOffload()
        async with loaded(SimulatedDisk(1), offload) as coordinator:
            offload.gate.clear()
            writing = asyncio.create_task(coordinator.commit(lambda: committing(5)))
            reading = asyncio.create_task(coordinator.read(lambda: offset_in(coordinator)))
            await asyncio.sleep(0.01)
            assert not writing.done()
            assert not reading.done()
            offload.gate.set()
            assert await writing == await reading == 5

    asyncio.run(scenario())


def test_when_its_log_fails_nothing_more_is_said() -> None:
    async def scenario() -> None:
        offload = GatedOffload()
        async with loaded(SimulatedDisk(1), offload) as coordinator:
            offload.gate.clear()
            waits = [asyncio.create_task(coordinator.commit(lambda: committing(5))) for _ in range(3)]
            await asyncio.sleep(0.01)
            coordinator.partition.fail_waiters(StorageError("the disk is gone"))
            for wait in waits:
                with pytest.raises(NotCoordinator, match="the disk is gone"):
                    await wait
            with pytest.raises(NotCoordinator):
                await coordinator.read(lambda: offset_in(coordinator))

    asyncio.run(scenario())


def test_a_decision_that_is_too_large_is_refused_alone() -> None:
    async def scenario() -> None:
        offload = GatedOffload()
        async with loaded(SimulatedDisk(1), offload) as coordinator:
            with pytest.raises(BarnabasError, match="too large") as refusal:
                await coordinator.commit(lambda: committing(5, metadata="x" * 2000))
            assert refusal.value.kafka_code == -1
            assert await coordinator.commit(lambda: committing(6)) == 6

    asyncio.run(scenario())


def test_whoever_waits_is_told_when_it_is_closed() -> None:
    async def scenario() -> None:
        offload = GatedOffload()
        async with loaded(SimulatedDisk(1), offload) as coordinator:
            waiting: asyncio.Task[None] = asyncio.create_task(coordinator.ask(lambda _token: Outcome()))
            await asyncio.sleep(0)
            coordinator.close()
            with pytest.raises(NotCoordinator):
                await waiting

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
def test_what_cannot_be_written_for_the_moment_is_refused_and_the_next_is_taken(error: int) -> None:
    async def scenario() -> None:
        disk, offload = SimulatedDisk(1), GatedOffload()
        async with loaded(disk, offload) as coordinator:
            await coordinator.commit(lambda: committing(5))
            disk.fail_write(lambda path: path.endswith(".log"), after_bytes=9, error=error)
            with pytest.raises(CoordinatorNotAvailable, match="at the moment"):
                await coordinator.commit(lambda: committing(6))
            assert await coordinator.read(lambda: offset_in(coordinator)) == 5
            await coordinator.commit(lambda: committing(7))
        disk.crash()
        async with loaded(disk, offload) as coordinator:
            assert await coordinator.read(lambda: offset_in(coordinator)) == 7

    asyncio.run(scenario())
