"""The checkpoints of a data directory, in Kafka's text format."""

import pytest

from barnabas.core.errors import CorruptLog
from barnabas.core.model import TopicPartition
from barnabas.core.replica.leader_epochs import EpochStart
from barnabas.storage.checkpoints import Checkpoints, read_epochs, write_epochs
from barnabas.testing.disk import SimulatedDisk
from tests.unit.storage.builders import content, overwrite

A0, A10, B2 = TopicPartition("a", 0), TopicPartition("a", 10), TopicPartition("b-c.d", 2)
RECOVERY_POINTS = "/data/recovery-point-offset-checkpoint"
EPOCHS = "/data/leader-epoch-checkpoint"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dir("/data")
    disk.sync_dir("/")
    return disk


def test_offsets_are_written_as_kafka_writes_them(disk: SimulatedDisk) -> None:
    checkpoints = Checkpoints(disk, "/data")
    checkpoints.set_recovery_point(B2, 2**40)
    checkpoints.set_recovery_point(A10, 7)
    checkpoints.set_recovery_point(A0, 0)
    checkpoints.set_log_start(A0, 3)
    checkpoints.set_cleaned_to(A0, 2)
    checkpoints.write()
    assert content(disk, RECOVERY_POINTS) == b"0\n3\na 0 0\na 10 7\nb-c.d 2 1099511627776\n"
    assert content(disk, "/data/log-start-offset-checkpoint") == b"0\n1\na 0 3\n"
    assert content(disk, "/data/cleaner-offset-checkpoint") == b"0\n1\na 0 2\n"


def test_the_files_of_kafka_are_read(disk: SimulatedDisk) -> None:
    overwrite(disk, RECOVERY_POINTS, b"0\n2\na 0 5\nb-c.d 2 6\n")
    checkpoints = Checkpoints(disk, "/data")
    assert [checkpoints.recovery_point(each) for each in (A0, A10, B2)] == [5, 0, 6]


def test_a_partition_that_was_never_noted_is_at_zero(disk: SimulatedDisk) -> None:
    checkpoints = Checkpoints(disk, "/data")
    assert (checkpoints.recovery_point(A0), checkpoints.log_start(A0), checkpoints.cleaned_to(A0)) == (0, 0, 0)


def test_nothing_is_written_that_did_not_change(disk: SimulatedDisk) -> None:
    checkpoints = Checkpoints(disk, "/data")
    checkpoints.set_recovery_point(A0, 5)
    checkpoints.write()
    before = disk.mutations
    checkpoints.set_recovery_point(A0, 5)
    checkpoints.write()
    assert disk.mutations == before


def test_a_raised_recovery_point_waits_for_the_next_checkpoint(disk: SimulatedDisk) -> None:
    checkpoints = Checkpoints(disk, "/data")
    checkpoints.set_recovery_point(A0, 5)
    disk.crash()
    assert Checkpoints(disk, "/data").recovery_point(A0) == 0


def test_a_lowered_recovery_point_is_durable_at_once(disk: SimulatedDisk) -> None:
    checkpoints = Checkpoints(disk, "/data")
    checkpoints.set_recovery_point(A0, 50)
    checkpoints.write()
    checkpoints.lower_recovery_point(A0, 20)
    disk.crash()
    assert Checkpoints(disk, "/data").recovery_point(A0) == 20


def test_lowering_never_raises(disk: SimulatedDisk) -> None:
    checkpoints = Checkpoints(disk, "/data")
    checkpoints.set_recovery_point(A0, 5)
    checkpoints.lower_recovery_point(A0, 20)
    assert checkpoints.recovery_point(A0) == 5


def test_a_start_is_durable_when_it_is_written(disk: SimulatedDisk) -> None:
    checkpoints = Checkpoints(disk, "/data")
    checkpoints.set_log_start(A0, 9)
    checkpoints.write_log_starts()
    disk.crash()
    assert Checkpoints(disk, "/data").log_start(A0) == 9


def test_a_forgotten_partition_is_gone_from_every_file(disk: SimulatedDisk) -> None:
    checkpoints = Checkpoints(disk, "/data")
    for note in (checkpoints.set_recovery_point, checkpoints.set_log_start, checkpoints.set_cleaned_to):
        note(A0, 5)
        note(B2, 6)
    checkpoints.write()
    checkpoints.forget(A0)
    checkpoints.write()
    again = Checkpoints(disk, "/data")
    assert (again.recovery_point(A0), again.log_start(A0), again.cleaned_to(A0)) == (0, 0, 0)
    assert (again.recovery_point(B2), again.log_start(B2), again.cleaned_to(B2)) == (6, 6, 6)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1\n0\n",
        b"0\n2\na 0 5\n",
        b"0\n0\na 0 5\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 five\n",
        b"0\n1\na 0 -5\n",
        b"\xff",
    ],
)
def test_damaged_recovery_points_are_unknown_and_the_file_stays_until_recovery_has_ended(
    disk: SimulatedDisk, data: bytes
) -> None:
    overwrite(disk, RECOVERY_POINTS, data)
    found = Checkpoints(disk, "/data")
    assert not found.is_recovery_point_known
    assert found.recovery_point(A0) == 0
    assert found.consequences == [
        "/data/recovery-point-offset-checkpoint is damaged; every log is checked in full, which may take a while"
    ]
    found.set_recovery_point(A0, 7)
    found.write()
    assert content(disk, RECOVERY_POINTS) == data
    found.end_recovery()
    found.write()
    again = Checkpoints(disk, "/data")
    assert (again.is_recovery_point_known, again.recovery_point(A0), again.consequences) == (True, 7, [])


def test_damaged_cleaner_offsets_are_forgotten(disk: SimulatedDisk) -> None:
    overwrite(disk, "/data/cleaner-offset-checkpoint", b"nonsense")
    found = Checkpoints(disk, "/data")
    assert (found.is_recovery_point_known, found.cleaned_to(A0)) == (True, 0)
    assert found.consequences == [
        "/data/cleaner-offset-checkpoint is damaged; compacted logs are compacted from their start"
    ]
    found.write()
    assert Checkpoints(disk, "/data").consequences == []


def test_epochs_are_written_as_kafka_writes_them(disk: SimulatedDisk) -> None:
    write_epochs(disk, EPOCHS, [EpochStart(0, 0), EpochStart(4, 2**40)])
    assert content(disk, EPOCHS) == b"0\n2\n0 0\n4 1099511627776\n"
    assert read_epochs(disk, EPOCHS) == [(0, 0), (4, 2**40)]


def test_a_log_without_an_epoch_checkpoint_has_no_epochs(disk: SimulatedDisk) -> None:
    assert read_epochs(disk, EPOCHS) == []


def test_a_damaged_epoch_checkpoint_is_reported(disk: SimulatedDisk) -> None:
    overwrite(disk, EPOCHS, b"0\n1\n0 0 0\n")
    with pytest.raises(CorruptLog, match="leader-epoch-checkpoint is damaged"):
        read_epochs(disk, EPOCHS)
