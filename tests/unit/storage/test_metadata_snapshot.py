"""Snapshot files: written whole, named by where they end, and never believed when damaged."""

import pytest

from barnabas.core.errors import CorruptLog
from barnabas.storage.metadata_snapshot import MetadataSnapshots, SnapshotId, parse_name
from barnabas.testing.disk import Keep, SimulatedDisk

RECORDS = [b"one", b"", b"three" * 100]
NAME = "00000000000000000007-0000000002.checkpoint"


def make() -> tuple[SimulatedDisk, MetadataSnapshots]:
    disk = SimulatedDisk(1)
    disk.make_dir("/log")
    disk.sync_dir("/")
    return disk, MetadataSnapshots(disk, "/log")


def test_a_snapshot_is_durable_when_it_is_written() -> None:
    disk, snapshots = make()

    snapshots.write(SnapshotId(7, 2), RECORDS)
    disk.crash(Keep.NOTHING)

    assert disk.list_dir("/log") == [NAME]
    assert snapshots.ids() == [SnapshotId(7, 2)]
    assert snapshots.read(SnapshotId(7, 2)) == RECORDS


def test_snapshots_are_listed_oldest_first_and_removed() -> None:
    _, snapshots = make()
    for snapshot in (SnapshotId(9, 3), SnapshotId(7, 2), SnapshotId(9, 2)):
        snapshots.write(snapshot, [])

    snapshots.remove(SnapshotId(9, 2))

    assert snapshots.ids() == [SnapshotId(7, 2), SnapshotId(9, 3)]


def test_any_flipped_bit_is_noticed() -> None:
    disk, snapshots = make()
    snapshots.write(SnapshotId(7, 2), [b"one", b"two"])
    path = f"/log/{NAME}"

    for position in range(disk.file_size(path)):
        disk.flip_bit(path, position, position % 8)
        with pytest.raises(CorruptLog, match=NAME):
            snapshots.read(SnapshotId(7, 2))
        disk.flip_bit(path, position, position % 8)

    assert snapshots.read(SnapshotId(7, 2)) == [b"one", b"two"]


def test_any_missing_end_is_noticed() -> None:
    disk, snapshots = make()
    snapshots.write(SnapshotId(7, 2), RECORDS)
    file = disk.open(f"/log/{NAME}")

    for size in reversed(range(file.size())):
        file.truncate(size)
        with pytest.raises(CorruptLog):
            snapshots.read(SnapshotId(7, 2))


def test_a_snapshot_under_another_name_is_not_taken() -> None:
    disk, snapshots = make()
    snapshots.write(SnapshotId(7, 2), RECORDS)
    disk.rename(f"/log/{NAME}", "/log/00000000000000000008-0000000002.checkpoint")

    with pytest.raises(CorruptLog, match="renamed"):
        snapshots.read(SnapshotId(8, 2))


@pytest.mark.parametrize(
    "name",
    ["leader-epoch-checkpoint", "00000000000000000007.snapshot", f"{NAME}.tmp", "7-2.checkpoint", ".checkpoint"],
)
def test_other_names_are_no_snapshots(name: str) -> None:
    assert parse_name(name) is None
