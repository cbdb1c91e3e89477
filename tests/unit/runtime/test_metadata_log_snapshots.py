"""Snapshots of the metadata log: when they are taken, what goes then, and what damage costs."""

import pytest

from barnabas.core.errors import CorruptLog, StorageError
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.metadata_log import MetadataLog, MetadataLogConfig
from barnabas.storage.metadata_snapshot import SUFFIX, SnapshotId
from barnabas.testing.disk import Keep, SimulatedDisk
from tests.unit.edge.kafka.holding import Held
from tests.unit.runtime.metadata_support import (
    DIRECTORY,
    EVERY_3,
    commit,
    ids,
    open_metadata,
    register,
    run,
    snapshots,
    start_metadata,
    topic,
)

WIDE = 4000

pytestmark = pytest.mark.usefixtures("loop_of_test")


def run_commits(metadata: MetadataLog, count: int) -> None:
    async def scenario() -> None:
        for _ in range(count):
            await metadata.commit(ids())
            await metadata.wait_snapshot()

    run(scenario())


def test_a_snapshot_is_taken_after_so_many_records_and_older_history_goes() -> None:
    disk = SimulatedDisk(1)
    _, metadata = open_metadata(disk, config=EVERY_3)

    run_commits(metadata, 11)

    assert metadata.snapshot == SnapshotId(10, 1)
    assert snapshots(disk) == [SnapshotId(7, 1), SnapshotId(10, 1)]
    assert metadata.log_start_offset == 7
    assert f"{10:020d}-{1:010d}{SUFFIX}" in disk.list_dir(DIRECTORY)
    disk.crash(Keep.NOTHING)
    _, again = open_metadata(disk, config=EVERY_3)
    assert again.image == metadata.image
    assert again.snapshot == SnapshotId(10, 1)
    assert again.end_offset == 13


def test_a_snapshot_of_much_gives_the_loop_back_again_and_again() -> None:
    disk = SimulatedDisk(1)
    _, metadata = open_metadata(disk, config=EVERY_3)
    commit(metadata, register)
    commit(metadata, topic("wide", WIDE))
    before = metadata.snapshot

    async def scenario() -> Held:
        with Held() as held:
            for _ in range(3):
                await metadata.commit(ids())
            await metadata.wait_snapshot()
        return held

    held = run(scenario())

    assert metadata.snapshot != before
    assert held.longest < 4 * WIDE  # what is written is put together on a thread, which here is none
    disk.crash(Keep.NOTHING)
    assert open_metadata(disk)[1].image == metadata.image


def test_a_snapshot_is_taken_after_so_many_bytes() -> None:
    disk = SimulatedDisk(1)
    _, metadata = open_metadata(disk, config=MetadataLogConfig(max_record_bytes_between_snapshots=200))

    for _ in range(10):
        commit(metadata, ids())

    assert metadata.snapshot is not None


def test_what_a_restart_replayed_counts_towards_the_next_snapshot() -> None:
    disk = SimulatedDisk(1)
    for _ in range(3):
        data_dir, metadata = open_metadata(disk, config=EVERY_3)
        commit(metadata, ids())
        data_dir.close()

    assert metadata.snapshot == SnapshotId(6, 3)


def test_a_clean_shutdown_right_after_a_snapshot_opens_again() -> None:
    disk = SimulatedDisk(1)
    data_dir, metadata = open_metadata(disk, config=EVERY_3)
    run_commits(metadata, 6)
    data_dir.close()

    _, again = open_metadata(disk, config=EVERY_3)

    assert again.image == metadata.image
    assert again.epoch == 2
    run_commits(again, 7)
    disk.crash(Keep.NOTHING)
    assert open_metadata(disk)[1].image == again.image


def test_a_damaged_snapshot_is_made_up_for_by_the_one_before_it_and_the_log() -> None:
    disk = SimulatedDisk(1)
    data_dir, metadata = open_metadata(disk, config=EVERY_3)
    run_commits(metadata, 11)
    data_dir.close()
    disk.flip_bit(f"{DIRECTORY}/{10:020d}-{1:010d}{SUFFIX}", 20, 3)

    _, again = open_metadata(disk, config=EVERY_3)

    assert again.image == metadata.image
    assert "damaged" in again.notes[0]
    assert snapshots(disk) == [SnapshotId(7, 1)]


def test_the_first_snapshot_leaves_the_log_to_make_up_for_it() -> None:
    disk = SimulatedDisk(1)
    data_dir, metadata = open_metadata(disk, config=EVERY_3)
    run_commits(metadata, 4)
    data_dir.close()
    disk.flip_bit(f"{DIRECTORY}/{4:020d}-{1:010d}{SUFFIX}", 20, 3)

    assert open_metadata(disk)[1].image == metadata.image


def test_damage_to_every_snapshot_is_an_error_and_nothing_is_removed() -> None:
    disk = SimulatedDisk(1)
    data_dir, metadata = open_metadata(disk, config=EVERY_3)
    run_commits(metadata, 11)
    data_dir.close()
    for offset in (7, 10):
        disk.flip_bit(f"{DIRECTORY}/{offset:020d}-{1:010d}{SUFFIX}", 20, 3)

    with pytest.raises(CorruptLog, match="begins at offset 7"):
        open_metadata(disk)
    assert len(snapshots(disk)) == 2


def test_a_log_that_ends_before_its_snapshot_is_an_error() -> None:
    disk = SimulatedDisk(1)
    data_dir, metadata = open_metadata(disk, config=EVERY_3)
    run_commits(metadata, 3)
    data_dir.close()
    disk.rename(f"{DIRECTORY}/{4:020d}-{1:010d}{SUFFIX}", f"{DIRECTORY}/{8:020d}-{1:010d}{SUFFIX}")

    with pytest.raises(CorruptLog, match="snapshot up to 8"):
        open_metadata(disk)


def test_a_record_that_is_not_known_is_an_error_rather_than_passed_over() -> None:
    disk = SimulatedDisk(1)
    data_dir, metadata = open_metadata(disk)
    batch = encode_batch([Record(0, 0, b"\x01", b"\x91\x63")])
    data_dir.logs[METADATA_PARTITION].append(batch, leader_epoch=metadata.epoch, now_ms=0)
    data_dir.close()

    with pytest.raises(CorruptLog, match="cannot be applied"):
        open_metadata(disk)


def test_a_snapshot_that_fails_leaves_its_commit_standing_and_takes_the_directory_offline() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk(1)
        data_dir, metadata = await start_metadata(disk, config=EVERY_3)
        disk.fail_sync(lambda path: SUFFIX in path)

        replies = [await metadata.commit(ids()) for _ in range(3)]

        assert replies[-1] == range(2, 3)
        assert data_dir.health.offline_reason is not None
        with pytest.raises(StorageError):
            await metadata.commit(ids())

    run(scenario())


def test_recovery_leaves_snapshots_alone_and_removes_one_that_is_half_written() -> None:
    disk = SimulatedDisk(1)
    _, metadata = open_metadata(disk, config=EVERY_3)
    run_commits(metadata, 6)
    disk.open(f"{DIRECTORY}/{10:020d}-{1:010d}{SUFFIX}.tmp", create=True).write(0, b"half")
    disk.restart()

    _, again = open_metadata(disk)

    assert again.image == metadata.image
    assert snapshots(disk) == [SnapshotId(4, 1), SnapshotId(7, 1)]
    assert not any(name.endswith(".tmp") for name in disk.list_dir(DIRECTORY))
