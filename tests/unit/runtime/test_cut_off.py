"""What a node leads while it is cut off from the others: nothing is taken, and nobody waits, until that is over."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas.core.coordination import Decision
from barnabas.core.errors import BarnabasError, CutOff, NotCoordinator, NotLeaderOrFollower
from barnabas.core.fetched import FetchPartition
from barnabas.core.groups.decision import GroupDecision
from barnabas.core.groups.records import OffsetRecord
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.broker_lease import BrokerLease
from barnabas.runtime.cut_off import CutOffWatch
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.logs import Logs
from barnabas.runtime.partition import Partition
from barnabas.runtime.replica import Replication
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import SimulatedDisk
from tests.unit.runtime.metadata_support import GatedOffload
from tests.unit.runtime.test_coordinator import coordinator_of
from tests.unit.runtime.test_partition_transactions import InPlace

NAME = TopicPartition("__consumer_offsets", 0)
SESSION_MS = 9000
EPOCH = 3


class _Lease(BrokerLease):
    """A lease that holds as the test says."""

    def __init__(self) -> None:
        self.is_held = True

    def holds(self) -> bool:
        return self.is_held


class _World:
    """A partition of three replicas that is led here, and whoever watches over it, at a time that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 1_000_000
        logs = Logs(DataDir(SimulatedDisk(1), "/data"))
        logs.flusher = Flusher(InPlace(), listener=logs)
        self.replicas = logs.replicas
        monkeypatch.setattr(type(logs.replicas), "now_ms", lambda _replicas: self.now_ms)
        self.lease = logs.replicas.lease = _Lease()
        logs.replicas.active = {1: 5, 2: 6, 3: 7}
        self.partition = Partition(NAME, logs, LogConfig(), leader_epoch=1)
        self.partition.lead(EPOCH, Replication(1, (1, 2, 3), (1, 2, 3), 0, 2))
        self._watch = CutOffWatch(logs.replicas, self.lease, session_timeout_ms=SESSION_MS, fetch_wait_max_ms=500)

    async def pass_time(self, passed_ms: int = SESSION_MS) -> None:
        self.now_ms += passed_ms
        await self._watch.look()

    async def cut(self) -> None:
        self.lease.is_held = False
        await self.pass_time()

    def append(self) -> int:
        self.partition.append(encode_batch([Record(0, 0, None, b"v")]), now_ms=0)
        self.partition.log.flush()
        self.partition.note_flushed()
        return self.partition.end_offset

    def fetch(self, replica_id: int) -> None:
        end_offset = self.partition.end_offset
        fetch = FetchPartition(
            0, current_leader_epoch=EPOCH, fetch_offset=end_offset, max_bytes=100, flushed_offset=end_offset
        )
        self.partition.note_fetch(replica_id, fetch, broker_epoch=self.replicas.active[replica_id])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> _World:
    return _World(monkeypatch)


def test_who_waits_for_an_acknowledgement_hears_of_the_cut_at_once(world: _World) -> None:
    async def scenario() -> None:
        heard: list[BarnabasError | None] = []
        world.partition.call_when_acked(world.append(), heard.append)
        await world.cut()
        assert [type(error) for error in heard] == [CutOff]
        assert CutOff.kafka_code == NotLeaderOrFollower.kafka_code
        with pytest.raises(CutOff):
            world.partition.check_in_sync()
        assert isinstance(world.partition.find_loss(EPOCH), CutOff)
        assert list(world.replicas.cut_off) == [NAME]

    asyncio.run(scenario())


def test_what_is_committed_can_be_read_all_the_same(world: _World) -> None:
    async def scenario() -> None:
        world.append()
        world.fetch(2)
        world.fetch(3)
        await world.cut()
        log = world.partition.find_log()
        assert log is not None
        assert (world.partition.high_watermark, log.end_offset) == (1, 1)

    asyncio.run(scenario())


def test_a_node_with_a_lease_is_not_cut_off_however_silent_its_followers_are(world: _World) -> None:
    async def scenario() -> None:
        await world.pass_time(100 * SESSION_MS)
        world.partition.check_in_sync()
        assert not world.replicas.cut_off

    asyncio.run(scenario())


def test_a_leader_whose_followers_fetch_is_not_cut_off_without_a_controller(world: _World) -> None:
    async def scenario() -> None:
        world.lease.is_held = False
        for _ in range(10):
            await world.pass_time(SESSION_MS // 3)
            world.fetch(2)
        world.partition.check_in_sync()
        assert not world.replicas.cut_off

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["a lease", "a follower"])
def test_it_takes_records_again_once_it_hears_of_the_others(world: _World, how: str) -> None:
    async def scenario() -> None:
        await world.cut()
        if how == "a lease":
            world.lease.is_held = True
        else:
            world.fetch(3)
        await world.pass_time(100)
        world.partition.check_in_sync()
        assert not world.replicas.cut_off
        assert world.partition.find_loss(EPOCH) is None

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "change",
    [
        lambda partition: partition.lead(EPOCH + 1, Replication(1, (1, 2, 3), (1, 2, 3), 1, 2)),
        lambda partition: partition.resign(EPOCH + 1),
        lambda partition: partition.follow(EPOCH + 1, 2, Replication(1, (1, 2, 3), (1, 2, 3), 1, 2)),
        lambda partition: partition.lead(EPOCH, Replication(1, (1,), (1,), 1, 2)),
        lambda partition: partition.delete(),
    ],
)
def test_a_leadership_that_is_another_or_over_is_not_cut_off(
    world: _World, change: Callable[[Partition], None]
) -> None:
    async def scenario() -> None:
        await world.cut()
        change(world.partition)
        assert not world.replicas.cut_off

    asyncio.run(scenario())


def test_a_request_that_waits_at_a_coordinator_is_sent_elsewhere_and_the_coordinator_goes_on_afterwards(
    world: _World,
) -> None:
    def committing() -> GroupDecision[int]:
        return Decision([OffsetRecord("g", "t", 0, 5, metadata="")], 5)

    async def scenario() -> None:
        coordinator = coordinator_of(world.partition, GatedOffload())
        await coordinator.load()
        waiting = asyncio.create_task(coordinator.commit(committing))
        await asyncio.sleep(0)
        assert not waiting.done()
        await world.cut()
        with pytest.raises(NotCoordinator):
            await waiting
        world.lease.is_held = True
        await world.pass_time(100)
        again = asyncio.create_task(coordinator.commit(committing))
        await asyncio.sleep(0)
        world.partition.log.flush()
        world.partition.note_flushed()
        world.fetch(2)
        world.fetch(3)
        assert await again == 5

    asyncio.run(scenario())


def test_what_a_coordinator_does_of_its_own_accord_waits_until_the_cut_is_over(world: _World) -> None:
    """Else the markers of a transaction that is prepared would never be written."""

    async def scenario() -> None:
        coordinator = coordinator_of(world.partition, GatedOffload())
        await coordinator.load()
        waiting = asyncio.create_task(coordinator.commit(lambda: Decision([OffsetRecord("g", "t", 0, 5)], 5)))
        own = asyncio.create_task(coordinator.read(lambda: "seen", is_own=True))
        await asyncio.sleep(0)
        await world.cut()
        with pytest.raises(NotCoordinator):
            await waiting
        await asyncio.sleep(0)
        assert not own.done()
        world.lease.is_held = True
        await world.pass_time(100)
        world.partition.log.flush()
        world.partition.note_flushed()
        world.fetch(2)
        world.fetch(3)
        assert await own == "seen"

    asyncio.run(scenario())
