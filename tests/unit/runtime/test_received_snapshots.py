"""A snapshot that another node sent, on a disk without room: it is waited for, and nothing is lost."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas.core.errors import StorageError
from barnabas.core.metadata.commits import encode_commit
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import ProducerIdsRecord, encode_record
from barnabas.core.raft.log_view import SnapshotId
from barnabas.core.raft.output import ResetToSnapshot
from barnabas.core.raft.voters import ReplicaKey
from barnabas.runtime.raft_driver.disk_work import DiskWork
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.metadata_loading import load_metadata
from barnabas.storage.metadata_snapshot import MetadataSnapshots
from barnabas.storage.quorum_log import QuorumLog
from barnabas.testing.disk import Keep, SimulatedDisk
from barnabas.testing.loop import SimulatedLoop
from tests.unit.runtime.metadata_support import FixedClock, GatedOffload
from tests.unit.runtime.test_raft_driver import Told

SNAPSHOT = SnapshotId(40, 7)


def receive(log: QuorumLog) -> None:
    """All bytes of a snapshot are there."""
    sender = SimulatedDisk(2)
    sender.make_dir("/s")
    there = MetadataSnapshots(sender, "/s")
    there.write(SNAPSHOT, [encode_record(ProducerIdsRecord(9))])
    log.snapshots.write_piece(SNAPSHOT, 0, there.read_piece(SNAPSHOT, 0, 10_000))
    log.check_received(SNAPSHOT)


def open_log(disk: SimulatedDisk) -> QuorumLog:
    data_dir = DataDir(disk, "/data")
    log = data_dir.create_log(METADATA_PARTITION, LogConfig())
    return QuorumLog(log, load_metadata(log, replica=ReplicaKey(1)).snapshots)


def fill_writes(disk: SimulatedDisk, strike: int) -> None:
    disk.fail_write(count=strike)


def fill_renames(disk: SimulatedDisk, strike: int) -> None:
    disk.fail_rename(count=strike)


def fill_creates(disk: SimulatedDisk, strike: int) -> None:
    disk.fail_create(count=strike)


@pytest.mark.parametrize("strikes", [1, 2, 5])
@pytest.mark.parametrize("fill", [fill_writes, fill_renames, fill_creates])
def test_a_received_snapshot_waits_for_room_and_then_replaces_the_log(
    fill: Callable[[SimulatedDisk, int], None], strikes: int
) -> None:
    disk = SimulatedDisk(1)
    log = open_log(disk)
    log.append(encode_commit([ProducerIdsRecord(7)], timestamp_ms=0), epoch=1, now_ms=0)
    receive(log)
    work = DiskWork(log, Told(), offload=GatedOffload(), clock=FixedClock())
    told: list[StorageError] = []
    work.on_no_room = told.append

    fill(disk, strikes)
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(work.operate(ResetToSnapshot(SNAPSHOT), b""))

    assert len(told) >= 1
    assert log.health.offline_reason is None
    assert (log.start_offset, log.end_offset) == (40, 40)
    assert log.snapshots.ids() == [SNAPSHOT]
    assert log.append(encode_commit([ProducerIdsRecord(8)], timestamp_ms=0), epoch=7, now_ms=0) == 41
    disk.crash(Keep.NOTHING)
    assert open_log(disk).start_offset == 40


def test_a_failed_sync_takes_the_directory_offline_all_the_same() -> None:
    disk = SimulatedDisk(1)
    log = open_log(disk)
    receive(log)
    work = DiskWork(log, Told(), offload=GatedOffload(), clock=FixedClock())

    disk.fail_sync()
    with pytest.raises(StorageError), asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(work.operate(ResetToSnapshot(SNAPSHOT), b""))

    assert log.health.offline_reason is not None
