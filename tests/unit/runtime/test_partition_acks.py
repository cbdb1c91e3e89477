"""Acknowledgements of a partition: a few in each turn of the loop, whoever waits for how many."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.acks import ACKS_PER_TURN
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.logs import Logs
from barnabas.runtime.partition import Partition
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import SimulatedDisk
from tests.unit.runtime.test_partition_transactions import InPlace

MANY = 10 * ACKS_PER_TURN


def waited_for(called: list[tuple[int, BarnabasError | None]]) -> Partition:
    """A partition with many batches, each of which somebody waits for; none is synced."""
    logs = Logs(DataDir(SimulatedDisk(1), "/data"))
    logs.flusher = Flusher(InPlace(), listener=logs)
    partition = Partition(TopicPartition("t", 0), logs, LogConfig(flush_policy=FlushPolicy.FSYNC), leader_epoch=0)

    def note(number: int) -> Callable[[BarnabasError | None], None]:
        return lambda error: called.append((number, error))

    for number in range(MANY):
        partition.append(encode_batch([Record(0, 0, None, b"v")]), now_ms=0)
        partition.call_when_acked(number + 1, note(number))
    return partition


def test_a_part_of_what_is_acknowledged_at_once_is_told_in_each_turn() -> None:
    async def scenario() -> None:
        called: list[tuple[int, BarnabasError | None]] = []
        partition = waited_for(called)
        partition.log.flush()
        in_turns = [0]
        partition.note_flushed()
        assert partition.high_watermark == MANY
        while len(called) < MANY:
            in_turns.append(len(called))
            await asyncio.sleep(0)
        assert len(in_turns) >= MANY // ACKS_PER_TURN
        assert max(after - before for before, after in pairwise(in_turns)) <= ACKS_PER_TURN
        assert sorted(called) == [(number, None) for number in range(MANY)]
        # The oldest of a part comes last: when it is answered those after it are, too, and all leave together.
        assert [number for number, _ in called[:ACKS_PER_TURN]] == list(reversed(range(ACKS_PER_TURN)))

    asyncio.run(scenario())


def test_who_has_given_up_is_not_called_and_not_kept() -> None:
    async def scenario() -> None:
        called: list[tuple[int, BarnabasError | None]] = []
        partition = waited_for(called)
        others: list[BarnabasError | None] = []
        partition.call_when_acked(1, others.append)
        partition.forget_ack(1, others.append)
        partition.forget_ack(1, others.append)  # once more: nothing
        partition.log.flush()
        partition.note_flushed()
        for _ in range(MANY):
            await asyncio.sleep(0)
        assert (len(called), others) == (MANY, [])

    asyncio.run(scenario())


def test_what_was_acknowledged_stands_when_the_partition_is_deleted_before_it_is_told() -> None:
    async def scenario() -> None:
        called: list[tuple[int, BarnabasError | None]] = []
        partition = waited_for(called)
        partition.log.flush()
        partition.append(encode_batch([Record(0, 0, None, b"v")]), now_ms=0)
        partition.call_when_acked(MANY + 1, lambda error: called.append((MANY, error)))
        partition.note_flushed()
        partition.delete()
        told = dict(called)
        assert len(called) == len(told) == MANY + 1
        assert all(told[number] is None for number in range(MANY))
        assert told[MANY] is not None
        await asyncio.sleep(0)
        assert len(called) == MANY + 1

    asyncio.run(scenario())
