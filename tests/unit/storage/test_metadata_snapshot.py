"""Snapshot files: written whole, named by where they end, and never believed when damaged."""

import struct
from uuid import UUID

import pytest
from crc32c import crc32c

from barnabas.core.errors import CorruptLog
from barnabas.core.raft.control_records import encode_voters
from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.core.records.batch import iter_batches
from barnabas.storage.metadata_snapshot import MetadataSnapshots, SnapshotContents, SnapshotId, parse_name
from barnabas.testing.disk import Keep, SimulatedDisk

RECORDS = [b"one", b"", b"three" * 100]
VOTERS = VoterSet.of([Voter(ReplicaKey(1, UUID(int=5)), (VoterEndpoint("CONTROLLER", "h", 9093),))])
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
    assert snapshots.read(SnapshotId(7, 2)) == SnapshotContents(RECORDS, NO_VOTERS)


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

    assert snapshots.read(SnapshotId(7, 2)).records == [b"one", b"two"]


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


def test_a_snapshot_holds_the_voters() -> None:
    _, snapshots = make()

    snapshots.write(SnapshotId(7, 2), RECORDS, VOTERS)

    assert snapshots.read(SnapshotId(7, 2)) == SnapshotContents(RECORDS, VOTERS)


def test_a_snapshot_of_a_version_without_voters_is_read() -> None:
    disk, snapshots = make()
    body = struct.pack(">qiI", 7, 2, 1) + struct.pack(">I", 3) + b"one"
    disk.open(f"/log/{NAME}", create=True).write(0, struct.pack(">8sI", b"BARNMETA", crc32c(body)) + body)

    assert snapshots.read(SnapshotId(7, 2)) == SnapshotContents([b"one"], NO_VOTERS)


def sent(snapshots: MetadataSnapshots, snapshot: SnapshotId, piece_bytes: int) -> list[tuple[int, bytes]]:
    size = snapshots.size(snapshot)
    return [(at, snapshots.read_piece(snapshot, at, piece_bytes)) for at in range(0, size, piece_bytes)]


def test_a_snapshot_that_is_received_in_pieces_is_there_when_it_was_checked_and_taken() -> None:
    _, theirs = make()
    disk, snapshots = make()
    theirs.write(SnapshotId(7, 2), RECORDS, VOTERS)
    snapshots.write_piece(SnapshotId(7, 2), 0, b"of an attempt that was given up" * 100)

    for position, data in sent(theirs, SnapshotId(7, 2), 100):
        snapshots.write_piece(SnapshotId(7, 2), position, data)
    assert snapshots.ids() == []
    assert snapshots.check_received(SnapshotId(7, 2)) == SnapshotContents(RECORDS, VOTERS)
    snapshots.take_received(SnapshotId(7, 2))
    disk.crash(Keep.NOTHING)

    assert snapshots.read(SnapshotId(7, 2)) == SnapshotContents(RECORDS, VOTERS)
    assert disk.list_dir("/log") == [NAME]


def test_a_snapshot_that_is_received_with_a_piece_missing_is_refused() -> None:
    _, theirs = make()
    _, snapshots = make()
    theirs.write(SnapshotId(7, 2), RECORDS, VOTERS)
    for position, data in sent(theirs, SnapshotId(7, 2), 100)[:-1]:
        snapshots.write_piece(SnapshotId(7, 2), position, data)

    with pytest.raises(CorruptLog):
        snapshots.check_received(SnapshotId(7, 2))


def test_a_snapshot_that_is_not_there_has_no_bytes() -> None:
    assert make()[1].size(SnapshotId(7, 2)) == 0


@pytest.mark.parametrize("claim", [2**32 - 1, 100])
def test_a_snapshot_that_claims_more_than_it_has_is_refused_though_its_checksum_fits(claim: int) -> None:
    disk, snapshots = make()
    body = struct.pack(">qiI", 7, 2, 3) + struct.pack(">I", claim)
    disk.open(f"/log/{NAME}", create=True).write(0, struct.pack(">8sI", b"BARNMET2", crc32c(body)) + body)

    with pytest.raises(CorruptLog):
        snapshots.read(SnapshotId(7, 2))


# The one that a node is formatted with

FIRST = "00000000000000000000-0000000000.checkpoint"


def test_the_first_voters_are_written_in_record_batches_as_kafka_does() -> None:
    disk, snapshots = make()

    snapshots.write(BOOTSTRAP_SNAPSHOT, [], VOTERS)
    disk.crash(Keep.NOTHING)

    data = disk.open(f"/log/{FIRST}").read(0, 10_000)
    batches = [(header.base_offset, header.record_count, header.is_control) for _, header in iter_batches(data)]
    assert batches == [(0, 3, True), (3, 1, True)]
    assert snapshots.read(BOOTSTRAP_SNAPSHOT) == SnapshotContents([], VOTERS)


def test_damage_to_the_first_voters_is_noticed() -> None:
    disk, snapshots = make()
    snapshots.write(BOOTSTRAP_SNAPSHOT, [], VOTERS)
    path = f"/log/{FIRST}"
    size = disk.file_size(path)

    for position in range(size):
        disk.flip_bit(path, position, position % 8)
        with pytest.raises(CorruptLog, match=FIRST):
            snapshots.read(BOOTSTRAP_SNAPSHOT)
        disk.flip_bit(path, position, position % 8)
    for kept in range(size - 1, -1, -1):
        disk.open(path).truncate(kept)
        with pytest.raises(CorruptLog, match=FIRST):
            snapshots.read(BOOTSTRAP_SNAPSHOT)


def test_first_voters_that_an_earlier_version_wrote_are_read() -> None:
    disk, snapshots = make()
    blob = encode_voters(VOTERS)
    body = struct.pack(">qiI", 0, 0, 0) + struct.pack(">I", len(blob)) + blob
    disk.open(f"/log/{FIRST}", create=True).write(0, struct.pack(">8sI", b"BARNMET2", crc32c(body)) + body)

    assert snapshots.read(BOOTSTRAP_SNAPSHOT) == SnapshotContents([], VOTERS)
