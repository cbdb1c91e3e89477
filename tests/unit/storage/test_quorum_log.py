"""The metadata log as Raft asks for it, on the simulated disk: what a start finds, operations, reads, snapshots."""

from uuid import UUID

import pytest

from barnabas.core.errors import CorruptLog, CorruptRecord
from barnabas.core.metadata.commits import encode_commit
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import ProducerIdsRecord, encode_record
from barnabas.core.raft.control_records import encode_control
from barnabas.core.raft.log_view import BatchInfo, EpochStart, SnapshotId
from barnabas.core.raft.output import AppendControl, AppendFetched, KRaftVersion, LeaderChange, QuorumState, Voters
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VotersAt, VoterSet
from barnabas.core.records.batch import iter_batches
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.metadata_loading import LoadedMetadata, load_metadata
from barnabas.storage.metadata_snapshot import MetadataSnapshots
from barnabas.storage.quorum_log import QuorumLog, describe_batches
from barnabas.testing.disk import Keep, SimulatedDisk

ONE = ReplicaKey(1, UUID(int=1))
ALONE = VoterSet.of([Voter(ONE)])
THREE = VoterSet.of([Voter(ReplicaKey(node_id, UUID(int=node_id))) for node_id in (1, 2, 3)])
LEADS = LeaderChange(1, (1,), (1,))


def open_log(disk: SimulatedDisk, static_voters: VoterSet = ALONE) -> tuple[QuorumLog, LoadedMetadata]:
    log = DataDir(disk, "/data").create_log(METADATA_PARTITION, LogConfig())
    loaded = load_metadata(log, replica=ONE, static_voters=static_voters)
    return QuorumLog(log, loaded.snapshots), loaded


def ids(end: int) -> bytearray:
    return encode_commit([ProducerIdsRecord(end)], timestamp_ms=0)


def flush(log: QuorumLog) -> None:
    plan = log.begin_flush()
    assert plan is not None
    plan.run()
    log.end_flush(plan)


def fill(log: QuorumLog, *, commits: int = 3, epoch: int = 1, voters: VoterSet | None = None) -> None:
    """A leader's epoch: its first record, perhaps voters, then some commits."""
    records = (LEADS,) if voters is None else (LEADS, KRaftVersion(1), Voters(voters))
    log.append_control(AppendControl(log.end_offset, epoch, records), now_ms=0)
    for _ in range(commits):
        log.append(ids(log.end_offset + 1), epoch=epoch, now_ms=0)
    flush(log)


def test_a_new_log_has_nothing_to_restore() -> None:
    log, loaded = open_log(SimulatedDisk(1))

    restored = log.restored(loaded.voters)

    assert (restored.quorum, restored.start_offset, restored.end_offset) == (None, 0, 0)
    assert (restored.epochs, restored.snapshots, restored.voters) == ((), (), ())


def test_a_start_finds_the_epochs_the_voters_and_the_vote_that_were_written() -> None:
    disk = SimulatedDisk(1)
    log, _ = open_log(disk)
    log.write_state(QuorumState(2, 1, ONE))
    fill(log, epoch=1, voters=THREE)
    fill(log, epoch=2)
    disk.crash(Keep.NOTHING)

    log, loaded = open_log(disk, NO_VOTERS)
    restored = log.restored(loaded.voters)

    assert restored.quorum == QuorumState(2, 1, ONE)
    assert restored.epochs == (EpochStart(1, 0), EpochStart(2, 6))
    assert restored.voters == (VotersAt(2, THREE),)
    assert restored.end_offset == 10
    assert log.last_epoch == 2


def test_the_sole_voter_applies_its_log_and_one_of_several_does_not() -> None:
    disk = SimulatedDisk(1)
    log, _ = open_log(disk)
    fill(log)
    disk.crash(Keep.NOTHING)

    _, alone = open_log(disk)
    disk.restart()
    _, several = open_log(disk, THREE)

    assert (alone.image.next_producer_id, alone.applied_offset) == (4, 4)
    assert (several.image.next_producer_id, several.applied_offset) == (0, 0)


def test_what_a_follower_takes_is_what_the_leader_has_up_to_where_raft_took_it() -> None:
    leader, _ = open_log(SimulatedDisk(1))
    fill(leader, voters=THREE)
    data = leader.begin_read(0, max_bytes=10_000)()
    disk = SimulatedDisk(2)
    follower, _ = open_log(disk, THREE)

    infos = describe_batches(data)
    follower.append_fetched(AppendFetched(0, 4), data)
    flush(follower)
    disk.crash(Keep.NOTHING)
    again, loaded = open_log(disk, THREE)

    assert infos[0] == BatchInfo(0, 3, 1, VotersAt(2, THREE))
    assert [info.end_offset for info in infos] == [3, 4, 5, 6]
    assert again.end_offset == 4
    assert again.begin_read(0, max_bytes=10_000)() == data[: len(again.begin_read(0, max_bytes=10_000)())]
    assert loaded.voters == [VotersAt(2, THREE)]


def test_a_read_has_whole_batches_and_at_least_one() -> None:
    log, _ = open_log(SimulatedDisk(1))
    fill(log, commits=5)
    everything = log.begin_read(0, max_bytes=10_000)()
    positions = [position for position, _ in iter_batches(everything)]

    one = log.begin_read(1, max_bytes=1)()
    two = log.begin_read(1, max_bytes=positions[3] - positions[1] + 5)()
    bounded = log.begin_read(1, max_bytes=10_000, end_offset=3)()

    assert [header.base_offset for _, header in iter_batches(one)] == [1]
    assert [header.base_offset for _, header in iter_batches(two)] == [1, 2]
    assert [header.base_offset for _, header in iter_batches(bounded)] == [1, 2]
    assert log.begin_read(log.end_offset, max_bytes=10_000)() == b""


def test_batches_whose_bytes_changed_on_the_way_are_refused() -> None:
    log, _ = open_log(SimulatedDisk(1))
    fill(log)
    data = bytearray(log.begin_read(0, max_bytes=10_000)())
    data[-1] ^= 1

    with pytest.raises(CorruptRecord):
        describe_batches(data)


def test_what_is_truncated_stays_away_with_its_voters_and_its_epoch() -> None:
    disk = SimulatedDisk(1)
    log, _ = open_log(disk, NO_VOTERS)
    fill(log, epoch=1, voters=THREE)
    fill(log, epoch=3, voters=ALONE)

    log.truncate(6)
    disk.crash(Keep.NOTHING)
    log, loaded = open_log(disk, NO_VOTERS)

    assert log.end_offset == 6
    assert loaded.voters == [VotersAt(2, THREE)]
    assert log.restored(loaded.voters).epochs == (EpochStart(1, 0),)


def test_of_snapshots_the_last_two_are_kept_and_the_log_from_the_older_on() -> None:
    disk = SimulatedDisk(1)
    log, _ = open_log(disk)
    fill(log, commits=9, voters=ALONE)
    for end_offset in (4, 6, 8):
        log.write_snapshot(SnapshotId(end_offset, 1), [encode_record(ProducerIdsRecord(end_offset))], ALONE)

    kept, start_offset = log.forget_history()
    disk.crash(Keep.NOTHING)
    log, loaded = open_log(disk)

    assert (kept, start_offset) == ([SnapshotId(6, 1), SnapshotId(8, 1)], 6)
    assert log.restored(loaded.voters).snapshots[-2:] == (SnapshotId(6, 1), SnapshotId(8, 1))
    assert loaded.voters == [VotersAt(7, ALONE)]
    assert loaded.image.next_producer_id == 12


def send_snapshot(log: QuorumLog, snapshot: SnapshotId, voters: VoterSet) -> None:
    """Have the bytes of a snapshot arrive, in two pieces."""
    disk = SimulatedDisk(9)
    disk.make_dir("/theirs")
    theirs = MetadataSnapshots(disk, "/theirs")
    theirs.write(snapshot, [encode_record(ProducerIdsRecord(70))], voters)
    first = theirs.read_piece(snapshot, 0, 20)
    log.snapshots.write_piece(snapshot, 0, first)
    log.snapshots.write_piece(snapshot, len(first), theirs.read_piece(snapshot, len(first), 10_000))


def test_a_snapshot_that_was_received_replaces_the_log() -> None:
    disk = SimulatedDisk(1)
    log, _ = open_log(disk, NO_VOTERS)
    fill(log, voters=THREE)
    log.write_snapshot(SnapshotId(4, 1), [], THREE)
    received = SnapshotId(100, 7)
    send_snapshot(log, received, THREE)

    assert log.check_received(received).voters == THREE
    log.take_snapshot(received)
    assert (log.start_offset, log.end_offset) == (100, 100)
    log.append_fetched(AppendFetched(100, 101), encode_control([LEADS], base_offset=100, epoch=8, timestamp_ms=0))
    flush(log)
    disk.crash(Keep.NOTHING)
    log, loaded = open_log(disk, NO_VOTERS)

    assert (log.start_offset, log.end_offset) == (100, 101)
    assert loaded.snapshot == received
    assert (loaded.image.next_producer_id, loaded.voters) == (70, [VotersAt(99, THREE)])


def test_a_crash_before_the_log_begins_anew_leaves_the_snapshot_that_goes_on() -> None:
    disk = SimulatedDisk(1)
    log, _ = open_log(disk, NO_VOTERS)
    fill(log, voters=THREE)
    received = SnapshotId(100, 7)
    send_snapshot(log, received, THREE)
    log.check_received(received)
    log.snapshots.take_received(received)
    disk.crash(Keep.NOTHING)

    log, loaded = open_log(disk, NO_VOTERS)
    assert (log.end_offset, loaded.snapshot, loaded.applied_offset) == (6, received, 100)
    log.take_snapshot(received)

    assert (log.start_offset, log.end_offset) == (100, 100)


def test_a_snapshot_beyond_the_log_of_a_sole_voter_is_damage() -> None:
    disk = SimulatedDisk(1)
    log, _ = open_log(disk)
    fill(log, voters=ALONE)
    log.write_snapshot(SnapshotId(100, 1), [], ALONE)
    disk.crash(Keep.NOTHING)

    with pytest.raises(CorruptLog, match="snapshot up to 100"):
        open_log(disk)
