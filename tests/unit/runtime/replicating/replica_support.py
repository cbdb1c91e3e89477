"""Two nodes without a network: a partition that one leads and the other follows, each on a simulated disk."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from uuid import UUID

from barnabas.core.fetched import FetchPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.core.replica.follower import FollowerFetch as Asked
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.following import Fetched, Following, Next
from barnabas.runtime.logs import Logs
from barnabas.runtime.partition import Partition
from barnabas.runtime.replica import Replication
from barnabas.services.fetch import Fetch, FetchingReplica, Found
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import SimulatedDisk
from barnabas.testing.loop import SimulatedLoop
from tests.unit.runtime.test_partition_transactions import InPlace

T = TypeVar("T")

NAME = TopicPartition("t", 0)
TOPIC_ID = UUID(int=7)
LEADER, FOLLOWER = 1, 2
BROKER_EPOCH = 50


def in_loop(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        return runner.run(scenario())


def replication(node_id: int, *, isr: tuple[int, ...] = (1, 2), partition_epoch: int = 0) -> Replication:
    return Replication(node_id, (1, 2), isr, partition_epoch, 1)


class Side:
    """One node's replica of the partition."""

    def __init__(self, node_id: int, *, policy: FlushPolicy = FlushPolicy.FSYNC) -> None:
        self.node_id = node_id
        self.disk = SimulatedDisk(node_id)
        self.policy = policy
        self.open()

    def open(self) -> None:
        """Start, with what is on disk."""
        self.logs = Logs(DataDir(self.disk, "/data"))
        list(self.logs.data_dir.open_logs(lambda _: LogConfig(flush_policy=self.policy)))
        self.logs.flusher = Flusher(InPlace(), listener=self.logs)
        self.logs.replicas.active.update({LEADER: BROKER_EPOCH, FOLLOWER: BROKER_EPOCH})
        self.partition = Partition(
            NAME,
            self.logs,
            LogConfig(flush_policy=self.policy),
            leader_epoch=0,
            replication=replication(self.node_id),
            topic_id=TOPIC_ID,
        )
        if NAME in self.logs.data_dir.logs:
            self.partition.hold_log()

    def restart(self) -> None:
        """Lose what is not synced, and start again."""
        self.logs.data_dir.begin_watermarks()()
        self.disk.crash()
        self.open()

    def lead(self, epoch: int = 0, *, isr: tuple[int, ...] = (1, 2), partition_epoch: int = 0) -> None:
        self.partition.lead(epoch, replication(self.node_id, isr=isr, partition_epoch=partition_epoch))

    def follow(self, leader_id: int, epoch: int = 0) -> Following:
        self.partition.follow(epoch, leader_id, replication(self.node_id))
        assert self.partition.following is not None
        return self.partition.following

    def append(self, *values: bytes) -> None:
        for value in values:
            self.partition.append(encode_batch([Record(0, 0, None, value)]), now_ms=0)

    def flush(self) -> None:
        held = self.partition.held_log
        assert held is not None
        held.flush()
        self.partition.note_flushed()

    @property
    def values(self) -> list[bytes]:
        """What is in the log."""
        return values_of(self.partition)


def values_of(partition: Partition) -> list[bytes]:
    from barnabas.core.records.batch import iter_batches  # noqa: PLC0415 - beside what it is for
    from barnabas.core.records.record import decode_records  # noqa: PLC0415

    held = partition.held_log
    found: list[bytes] = []
    offset = 0 if held is None else held.log_start_offset
    while held is not None and (located := held.read(offset, max_bytes=1_000_000)) is not None:
        data = located.read()
        for position, header in iter_batches(data):
            found += [record.value or b"" for record in decode_records(data, position, header)]
            offset = header.next_offset
    return found


def answer(leader: Side, asked: Asked, *, max_bytes: int = 1_000_000, is_noted: bool = True) -> Fetched:
    """What a leader answers a follower."""
    wanted = FetchPartition(
        0, asked.leader_epoch, asked.fetch_offset, asked.last_fetched_epoch, max_bytes, asked.durable_end_offset
    )
    service = Fetch(InPlace())
    replica = FetchingReplica(FOLLOWER if leader.node_id == LEADER else LEADER, BROKER_EPOCH) if is_noted else None
    found = service.look_for_replica(leader.partition, wanted, replica, max_bytes=max_bytes, is_first=True)
    records = b"" if found.slice is None and found.plan is None else _read(found)
    return Fetched(records, found.high_watermark, found.log_start_offset, found.diverging)


def _read(found: Found) -> bytes:
    located = found.slice if found.slice is not None else found.plan.locate(found.max_bytes) if found.plan else None
    assert located is not None
    return bytes(located.read())


def fetch_once(leader: Side, following: Following, *, max_bytes: int = 1_000_000) -> Next:
    asked = following.next_fetch()
    assert asked is not None
    return following.receive(asked, answer(leader, asked, max_bytes=max_bytes))
