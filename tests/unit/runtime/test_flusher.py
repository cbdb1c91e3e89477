"""Group commit, on the simulated disk: who is woken, when, and what a failed sync does."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from barnabas.core.errors import OffsetOutOfRange, StorageError
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.flusher import PARALLEL_SYNCS, Flusher
from barnabas.storage import truncate
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.testing.disk import Keep, SimulatedDisk
from barnabas.testing.loop import SimulatedLoop

T = TypeVar("T")


class GatedOffload:
    """Runs in place, but only while the gate is open: what a slow disk looks like to the loop."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.calls = 0

    async def run(self, function: Callable[[], T]) -> T:
        self.calls += 1
        await self.gate.wait()
        return function()


@asynccontextmanager
async def running(offload: GatedOffload) -> AsyncIterator[Flusher]:
    flusher = Flusher(offload)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(flusher.run())
        try:
            yield flusher
        finally:
            task.cancel()


def make_logs(count: int = 1, config: LogConfig | None = None) -> tuple[SimulatedDisk, list[Log]]:
    disk = SimulatedDisk(1)
    data_dir = DataDir(disk, "/data")
    return disk, [data_dir.create_log(TopicPartition("t", n), config or LogConfig()) for n in range(count)]


def append(log: Log, records: int = 1) -> int:
    batch = encode_batch([Record(offset=n, timestamp=n, key=None, value=b"v") for n in range(records)])
    return log.append(batch, leader_epoch=0, now_ms=0).last_offset + 1


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """In virtual time: no timer is due while anything can still happen, however busy the machine."""
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(scenario)


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_waiter_is_woken_once_its_records_are_durable() -> None:
    async def scenario() -> None:
        disk, [log] = make_logs()
        async with running(GatedOffload()) as flusher:
            end_offset = append(log)
            await flusher.wait_flushed(log, end_offset)
            assert log.flushed_offset == end_offset
            assert disk.durable_bytes(log.active.log_path) == log.active.file().read(0, log.active.size)

    run(scenario())


def test_appends_that_arrive_during_a_sync_share_the_next_one() -> None:
    async def scenario() -> None:
        _, [log] = make_logs()
        offload = GatedOffload()
        async with running(offload) as flusher:
            offload.gate.clear()
            first = asyncio.ensure_future(flusher.wait_flushed(log, append(log)))
            await settle()
            later = [asyncio.ensure_future(flusher.wait_flushed(log, append(log))) for _ in range(50)]
            await settle()
            assert not first.done()
            offload.gate.set()
            await asyncio.gather(first, *later)
        assert offload.calls == 2

    run(scenario())


def test_lanes_share_the_logs_that_are_due() -> None:
    async def scenario() -> None:
        _, logs = make_logs(40)
        offload = GatedOffload()
        async with running(offload) as flusher:
            offload.gate.clear()
            waiting = [asyncio.ensure_future(flusher.wait_flushed(log, append(log))) for log in logs]
            await settle()
            offload.gate.set()
            await asyncio.gather(*waiting)
            assert offload.calls == PARALLEL_SYNCS
            assert flusher.syncs == 40

    run(scenario())


def test_a_log_does_not_wait_for_the_sync_of_another() -> None:
    async def scenario() -> None:
        _, [busy, other] = make_logs(2)
        offload = GatedOffload()
        async with running(offload) as flusher:
            offload.gate.clear()
            waiting = asyncio.ensure_future(flusher.wait_flushed(busy, append(busy)))
            await settle()
            held, offload.gate = offload.gate, asyncio.Event()
            offload.gate.set()
            await flusher.wait_flushed(other, append(other))
            await flusher.wait_flushed(other, append(other))  # its lane waited for the busy one, and not for long
            assert not waiting.done()
            held.set()
            await waiting

    run(scenario())


def test_a_lane_that_ends_early_waits_for_the_others_to_begin_again_with_them() -> None:
    async def scenario() -> None:
        _, logs = make_logs(8)
        offload = GatedOffload()
        async with running(offload) as flusher:
            offload.gate.clear()
            slow = asyncio.ensure_future(flusher.wait_flushed(logs[0], append(logs[0])))
            await settle()
            held, offload.gate = offload.gate, asyncio.Event()
            offload.gate.set()
            await flusher.wait_flushed(logs[1], append(logs[1]))
            assert offload.calls == 2

            waiting = [asyncio.ensure_future(flusher.wait_flushed(log, append(log))) for log in logs[1:]]
            for _ in range(10):
                await asyncio.sleep(0)
            assert offload.calls == 2  # a moment later they would not wait any longer
            offload.gate = asyncio.Event()
            held.set()
            await settle()
            assert offload.calls == 2 + PARALLEL_SYNCS
            offload.gate.set()
            await asyncio.gather(slow, *waiting)

    run(scenario())


def test_a_log_is_in_one_lane_at_a_time() -> None:
    async def scenario() -> None:
        _, [log] = make_logs()
        offload = GatedOffload()
        async with running(offload) as flusher:
            offload.gate.clear()
            waiting = []
            for _ in range(3):
                waiting.append(asyncio.ensure_future(flusher.wait_flushed(log, append(log))))
                await settle()
            assert offload.calls == 1
            offload.gate.set()
            await asyncio.gather(*waiting)
        assert offload.calls == 2

    run(scenario())


def test_a_log_that_failed_for_want_of_room_is_flushed_again() -> None:
    async def scenario() -> None:
        disk, [log] = make_logs()
        async with running(GatedOffload()) as flusher:
            end_offset = append(log)
            disk.fail_open(lambda path: path.endswith(".log"), count=1)
            log.active.release()
            log.context.files.forget_directory(log.directory)
            await flusher.wait_flushed(log, end_offset)
            assert not flusher._syncing

    run(scenario())


def test_a_failed_sync_fails_every_waiter_and_is_not_tried_again() -> None:
    async def scenario() -> None:
        disk, logs = make_logs(2)
        async with running(GatedOffload()) as flusher:
            ends = [append(log) for log in logs]
            disk.fail_sync(lambda path: path.endswith(".log"), count=1)
            outcomes = await asyncio.gather(
                *(flusher.wait_flushed(log, end) for log, end in zip(logs, ends, strict=True)),
                return_exceptions=True,
            )
            assert isinstance(outcomes[0], StorageError)
            with pytest.raises(StorageError, match="offline"):
                await flusher.wait_flushed(logs[0], ends[0])
            with pytest.raises(StorageError, match="offline"):
                append(logs[1])
            assert logs[0].flushed_offset == 0

    run(scenario())


def test_with_policy_os_nothing_is_flushed_until_enough_records_came() -> None:
    async def scenario() -> None:
        _, [log] = make_logs(config=LogConfig(flush_policy=FlushPolicy.OS, flush_messages=3))
        async with running(GatedOffload()) as flusher:
            for _ in range(2):
                append(log)
                flusher.note_append(log)
            await settle()
            assert log.flushed_offset == 0
            append(log)
            flusher.note_append(log)
            await settle()
            assert log.flushed_offset == 3

    run(scenario())


def test_with_policy_os_a_record_waits_no_longer_than_flush_ms() -> None:
    async def scenario() -> None:
        _, [log] = make_logs(config=LogConfig(flush_policy=FlushPolicy.OS, flush_ms=1))
        async with running(GatedOffload()) as flusher:
            append(log)
            flusher.note_append(log)
            async with asyncio.timeout(30):
                while log.flushed_offset == 0:  # noqa: ASYNC110 - the flusher sets it without telling anybody
                    await asyncio.sleep(0.001)

    run(scenario())


def test_with_policy_os_a_closed_segment_is_flushed_all_the_same() -> None:
    async def scenario() -> None:
        _, [log] = make_logs(config=LogConfig(flush_policy=FlushPolicy.OS))
        async with running(GatedOffload()) as flusher:
            append(log)
            log.roll()
            flusher.note_append(log)
            await settle()
            assert log.flushed_offset == 1

    run(scenario())


def test_a_waiter_whose_records_are_cut_away_hears_so() -> None:
    async def scenario() -> None:
        _, [log] = make_logs()
        offload = GatedOffload()
        async with running(offload) as flusher:
            offload.gate.clear()
            append(log)
            waiting = asyncio.ensure_future(flusher.wait_flushed(log, append(log)))
            await settle()
            truncate.truncate_to(log, 1)
            flusher.forget(log, OffsetOutOfRange("cut"))
            offload.gate.set()
            with pytest.raises(OffsetOutOfRange):
                await waiting

    run(scenario())


def test_a_sync_that_began_before_a_truncation_makes_nothing_after_it_durable() -> None:
    async def scenario() -> None:
        _, [log] = make_logs()
        offload = GatedOffload()
        async with running(offload) as flusher:
            offload.gate.clear()
            for _ in range(3):
                append(log)
            flusher.note_append(log)
            await settle()
            truncate.truncate_to(log, 1)
            end_offset = append(log)
            waiting = asyncio.ensure_future(flusher.wait_flushed(log, end_offset))
            await settle()
            assert not waiting.done()
            offload.gate.set()
            await waiting
            assert log.flushed_offset == end_offset
        assert offload.calls == 2

    run(scenario())


def test_who_waits_for_a_sync_waits_on_while_nothing_can_be_opened() -> None:
    async def scenario() -> None:
        disk, (log,) = make_logs()
        async with running(GatedOffload()) as flusher:
            end_offset = append(log)
            log.active.release()
            log.context.files.forget_directory(log.directory)
            disk.fail_open(lambda path: path.endswith(".log"), count=2)
            await flusher.wait_flushed(log, end_offset)
            assert log.context.health.offline_reason is None
        disk.crash(Keep.NOTHING)
        (found,) = DataDir(disk, "/data").open_logs(lambda _: LogConfig())
        assert found.partition == log.partition

    run(scenario())
