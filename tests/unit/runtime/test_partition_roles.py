"""A partition that is led here, under another epoch, or not any more: who hears of it, and what is taken."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas.core.errors import BarnabasError, NotEnoughReplicas, NotLeaderOrFollower
from barnabas.core.fetched import FetchPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.logs import Logs
from barnabas.runtime.partition import Partition
from barnabas.runtime.replica import Replication
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import SimulatedDisk
from tests.unit.runtime.test_partition_transactions import InPlace

NAME = TopicPartition("t", 0)


def made(
    *, policy: FlushPolicy = FlushPolicy.FSYNC, leader_epoch: int = 0, disk: SimulatedDisk | None = None
) -> Partition:
    logs = Logs(DataDir(disk or SimulatedDisk(1), "/data"))
    logs.flusher = Flusher(InPlace(), listener=logs)
    return Partition(NAME, logs, LogConfig(flush_policy=policy), leader_epoch=leader_epoch)


def append(partition: Partition) -> int:
    return partition.append(encode_batch([Record(0, 0, None, b"v")]), now_ms=0).last_offset + 1


def flush(partition: Partition) -> None:
    partition.log.flush()
    partition.note_flushed()


def in_loop(scenario: Callable[[], None]) -> None:
    async def main() -> None:
        scenario()

    asyncio.run(main())


def replicated(*isr: int, partition_epoch: int = 0, min_insync_replicas: int = 1) -> Replication:
    return Replication(1, (1, 2, 3), isr, partition_epoch, min_insync_replicas)


def test_who_waits_for_an_acknowledgement_hears_that_the_leader_epoch_is_another_now() -> None:
    def scenario() -> None:
        partition, heard = made(), list[BarnabasError | None]()
        partition.call_when_acked(append(partition), heard.append)
        partition.lead(1)
        assert [type(error) for error in heard] == [NotLeaderOrFollower]
        flush(partition)
        assert (len(heard), partition.high_watermark) == (1, 1)

    in_loop(scenario)


def test_what_was_acknowledged_before_the_epoch_ended_stands() -> None:
    def scenario() -> None:
        partition, heard = made(), list[BarnabasError | None]()
        partition.call_when_acked(append(partition), heard.append)
        flush(partition)
        partition.lead(1)
        assert heard == [None]

    in_loop(scenario)


def test_the_same_epoch_again_disturbs_nobody() -> None:
    def scenario() -> None:
        partition, heard = made(), list[BarnabasError | None]()
        partition.call_when_acked(append(partition), heard.append)
        partition.lead(0)
        assert heard == []
        flush(partition)
        assert heard == [None]

    in_loop(scenario)


def test_an_offset_of_another_epoch_is_lost_though_the_watermark_is_past_it() -> None:
    def scenario() -> None:
        partition = made(leader_epoch=4)
        append(partition)
        flush(partition)
        assert partition.find_loss(4) is None
        partition.lead(5)
        assert isinstance(partition.find_loss(4), NotLeaderOrFollower)
        assert partition.find_loss(5) is None

    in_loop(scenario)


def test_a_partition_that_somebody_else_leads_takes_and_tells_nothing() -> None:
    def scenario() -> None:
        partition, heard = made(), list[BarnabasError | None]()
        partition.call_when_acked(append(partition), heard.append)
        partition.resign(1)
        assert [type(error) for error in heard] == [NotLeaderOrFollower]
        for refused in (lambda: append(partition), partition.find_log, partition.open_log, lambda: partition.log):
            with pytest.raises(NotLeaderOrFollower):
                refused()
        assert isinstance(partition.lost_because, NotLeaderOrFollower)
        partition.lead(2)
        assert append(partition) == 2

    in_loop(scenario)


def test_a_log_that_is_held_for_another_leader_is_served_once_it_is_led_here() -> None:
    def scenario() -> None:
        partition = made()
        partition.resign(3)
        partition.hold_log()
        with pytest.raises(NotLeaderOrFollower):
            partition.find_log()
        partition.lead(4)
        assert append(partition) == 1
        assert partition.epoch_end(4).end_offset == 1

    in_loop(scenario)


@pytest.mark.parametrize("policy", FlushPolicy)
def test_the_watermark_waits_for_all_that_are_in_sync(policy: FlushPolicy) -> None:
    def scenario() -> None:
        partition = made(policy=policy)
        partition.lead(1, replicated(1, 2))
        append(partition)
        flush(partition)
        assert partition.high_watermark == 0
        partition.lead(1, replicated(1, partition_epoch=1))
        assert partition.high_watermark == 1

    in_loop(scenario)


def test_another_min_insync_replicas_counts_at_once() -> None:
    def scenario() -> None:
        partition = made()
        partition.lead(1, replicated(1, min_insync_replicas=2))
        with pytest.raises(NotEnoughReplicas):
            partition.check_in_sync()
        append(partition)
        flush(partition)
        partition.configure(LogConfig(), min_insync_replicas=1)
        partition.check_in_sync()
        assert partition.high_watermark == 1

    in_loop(scenario)


def test_the_watermark_stands_still_while_too_few_are_in_sync() -> None:
    def scenario() -> None:
        partition = made()
        partition.lead(1, replicated(1, min_insync_replicas=2))
        append(partition)
        flush(partition)
        assert partition.high_watermark == 0

    in_loop(scenario)


def test_a_leader_that_is_known_before_its_log_is_opened_goes_by_that_log() -> None:
    """A node that starts hears that it leads before it opens its logs: nobody is in sync who lacks what is in them."""

    def scenario() -> None:
        disk = SimulatedDisk(1)
        before = made(disk=disk)
        append(before)
        flush(before)
        data_dir = DataDir(disk, "/data")
        logs = Logs(data_dir)
        logs.flusher = Flusher(InPlace(), listener=logs)
        logs.replicas.active = {1: 5, 2: 6}
        partition = Partition(NAME, logs, LogConfig(), leader_epoch=1)
        partition.lead(2, replicated(1, min_insync_replicas=2))
        assert len(list(data_dir.open_logs(lambda _name: LogConfig()))) == 1
        partition.hold_log()
        fetch = FetchPartition(0, current_leader_epoch=2, fetch_offset=0, max_bytes=100, flushed_offset=0)
        partition.note_fetch(2, fetch, broker_epoch=6)
        assert partition.propose(now_ms=0) is None
        partition.note_fetch(2, fetch._replace(fetch_offset=1, flushed_offset=1), broker_epoch=6)
        assert partition.propose(now_ms=0) is not None

    in_loop(scenario)
