"""The vote of a node survives every crash, in Kafka's file, and a damaged one is never taken for none."""

import contextlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import CorruptLog
from barnabas.core.raft.output import QuorumState
from barnabas.core.raft.voters import ReplicaKey
from barnabas.storage.quorum_state_file import read_quorum_state, write_quorum_state
from barnabas.storage.small_file import replace_file
from barnabas.testing.disk import SimulatedCrash, SimulatedDisk

DIRECTORY = "/data/__cluster_metadata-0"
IDS = st.integers(0, 2**31 - 1)
DIRECTORIES = st.none() | st.uuids().filter(lambda number: number.int != 0)
STATES = st.builds(QuorumState, IDS, st.none() | IDS, st.none() | st.builds(ReplicaKey, IDS, DIRECTORIES))


def disk_with_directory(seed: int = 0) -> SimulatedDisk:
    disk = SimulatedDisk(seed)
    disk.make_dir("/data")
    disk.make_dir(DIRECTORY)
    disk.sync_dir("/")
    disk.sync_dir("/data")
    return disk


def read_of(data: bytes) -> QuorumState | None:
    disk = disk_with_directory()
    replace_file(disk, f"{DIRECTORY}/quorum-state", data)
    return read_quorum_state(disk, DIRECTORY)


@given(STATES)
def test_a_state_is_read_as_it_was_written_also_after_a_crash(state: QuorumState) -> None:
    disk = disk_with_directory()
    write_quorum_state(disk, DIRECTORY, QuorumState(1, None, ReplicaKey(9)))
    write_quorum_state(disk, DIRECTORY, state)
    disk.crash()
    assert read_quorum_state(disk, DIRECTORY) == state


def test_a_crash_at_any_step_leaves_the_old_vote_or_the_new_one() -> None:
    old, new = QuorumState(4, None, ReplicaKey(1)), QuorumState(5, 2)
    seen = set()
    for seed in range(100):
        disk = disk_with_directory(seed)
        write_quorum_state(disk, DIRECTORY, old)
        disk.crash_after(seed % 7)
        with contextlib.suppress(SimulatedCrash):
            write_quorum_state(disk, DIRECTORY, new)
        disk.crash()
        seen.add(read_quorum_state(disk, DIRECTORY))
    assert seen == {old, new}


def test_the_file_is_that_of_kafka() -> None:
    disk = disk_with_directory()
    write_quorum_state(disk, DIRECTORY, QuorumState(7, None, ReplicaKey(3, UUID(int=2**128 - 1))))
    file = disk.open(f"{DIRECTORY}/quorum-state")
    assert file.read(0, file.size()) == (
        b'{"leaderId":-1,"leaderEpoch":7,"votedId":3,"data_version":1,"votedDirectoryId":"_____________________w"}'
    )


def test_a_file_of_version_0_is_read() -> None:
    older = (
        b'{"clusterId":"","leaderId":2,"leaderEpoch":5,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert read_of(older) == QuorumState(5, 2)


def test_where_none_was_ever_written_there_is_none() -> None:
    assert read_quorum_state(disk_with_directory(), DIRECTORY) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 90,
        b"{}",
        b"[]",
        b'{"leaderId":1,"leaderEpoch":5,"votedId":-1,"data_version":2}',
        b'{"leaderId":1,"leaderEpoch":-1,"votedId":-1,"data_version":1}',
        b'{"leaderId":1,"leaderEpoch":5,"votedId":"2","data_version":1}',
        b'{"leaderId":1,"leaderEpoch":5,"votedId":2,"data_version":1,"votedDirectoryId":"no"}',
        b'{"leaderId":1,"leaderEpoch":5,"votedId":2,"data_version":1',
        b'{"leaderId":1,"leaderEpoch":5,"data_version":1}',
    ],
)
def test_a_damaged_file_is_refused_and_never_taken_for_none(data: bytes) -> None:
    with pytest.raises(CorruptLog, match="whom it voted for"):
        read_of(data)
