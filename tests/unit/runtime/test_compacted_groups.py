"""What a log of groups says is the same before and after compaction, transactions and all."""

import asyncio
import random

import pytest

from barnabas.core.coordination import Outcome, Within
from barnabas.core.groups.classic.state import ClassicSoft
from barnabas.core.groups.records import GroupEntry, GroupTombstone, OffsetRecord
from barnabas.core.groups.settings import ConsumerConfig
from barnabas.core.model import TopicPartition
from barnabas.core.records.control import MarkerType
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.group_coordinator import GroupCoordinator
from barnabas.runtime.logs import Logs
from barnabas.runtime.partition import Partition
from barnabas.storage.compaction import apply, plan_compaction
from barnabas.storage.config import CleanupPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import SimulatedDisk
from tests.unit.runtime.metadata_support import FixedClock, GatedOffload

NAME = TopicPartition("__consumer_offsets", 0)
CONFIG = LogConfig(cleanup_policy=(CleanupPolicy.COMPACT,), segment_bytes=1024**2, delete_retention_ms=0)
KEYS = [("g", "t", partition) for partition in range(3)]
PRODUCERS = (7, 8, 9)
LATER_MS = FixedClock().now_ms() + 1_000_000


def coordinator_of(partition: Partition) -> GroupCoordinator:
    return GroupCoordinator(
        partition,
        soft=ClassicSoft(),
        offload=GatedOffload(),
        clock=FixedClock(),
        topics={},
        config_of=lambda _: ConsumerConfig(),
    )


@pytest.mark.parametrize("seed", range(40))
def test_groups_are_the_same_after_compaction(seed: int) -> None:
    async def scenario() -> None:
        dice = random.Random(seed)
        data_dir = DataDir(SimulatedDisk(seed), "/data")
        for _ in data_dir.open_logs(lambda _: CONFIG):
            pass
        logs = Logs(data_dir)
        logs.flusher = Flusher(GatedOffload(), listener=logs)
        partition = Partition(NAME, logs, CONFIG, leader_epoch=0)
        writer = coordinator_of(partition)
        await writer.load()
        epochs = dict.fromkeys(PRODUCERS, 0)
        for number in range(60):
            _write_something(writer, dice, number, epochs)
            if dice.random() < 0.2:
                partition.log.roll()
            if dice.random() < 0.1:
                _compact(partition, dice)
        partition.log.roll()
        _compact(partition, dice)
        reader = coordinator_of(partition)
        await reader.load()
        assert reader.groups.offsets == writer.groups.offsets
        assert _pending(reader) == _pending(writer)
        for producer_id in dice.sample(PRODUCERS, len(PRODUCERS)):
            for coordinator in (reader, writer):
                coordinator.end_transaction(producer_id, is_commit=True)
        assert reader.groups.offsets == writer.groups.offsets

    asyncio.run(scenario())


def _write_something(writer: GroupCoordinator, dice: random.Random, number: int, epochs: dict[int, int]) -> None:
    key = dice.choice(KEYS)
    producer_id = dice.choice(PRODUCERS)
    kind = dice.choice(("plain", "tombstone", "pending", "pending", "end"))
    if kind == "end":
        is_commit = dice.random() < 0.6
        marker = MarkerType.COMMIT if is_commit else MarkerType.ABORT
        epochs[producer_id] += 1
        writer.partition.append_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=epochs[producer_id],
            coordinator_epoch=0,
            version=2,
            now_ms=FixedClock().now_ms(),
        )
        writer.end_transaction(producer_id, is_commit=is_commit)
        return
    entry: GroupEntry = OffsetRecord(*key, number)
    if kind == "tombstone":
        entry = GroupTombstone(OffsetRecord, key)
    within = Within(producer_id, epochs[producer_id]) if kind == "pending" else None
    assert writer.carry_out(Outcome([entry]), within=within)


def _compact(partition: Partition, dice: random.Random) -> None:
    log = partition.log
    log.flush()
    plan = plan_compaction(
        log, now_ms=LATER_MS, hash_key=dice.randbytes(16), high_watermark=log.flushed_offset, is_forced=True
    )
    if plan is not None:
        apply(log, plan.run())


def _pending(coordinator: GroupCoordinator) -> dict[int, dict[object, int]]:
    return {
        producer_id: {key: pending.record.offset for key, pending in keys.items()}
        for producer_id, keys in coordinator.groups.pending.items()
    }
