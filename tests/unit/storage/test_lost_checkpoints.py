"""A data directory whose checkpoints are damaged, or in which something else is where a partition should be."""

from contextlib import suppress

import msgspec
import pytest

from barnabas.core.errors import CorruptLog
from barnabas.core.model import TopicPartition
from barnabas.storage.checkpoints import Checkpoints
from barnabas.testing.disk import Keep, SimulatedCrash, SimulatedDisk
from tests.unit.storage.builders import (
    DATA,
    PARTITION,
    SMALL,
    append,
    content,
    fill,
    offsets,
    open_dir,
    overwrite,
    plain,
)
from tests.unit.storage.compaction.support import CONFIG, CompactedLog

OTHER = TopicPartition("other", 3)


@pytest.mark.parametrize("is_clean", [False, True])
def test_without_recovery_points_every_log_is_checked_in_full(is_clean: bool) -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    for partition in (PARTITION, OTHER):
        fill(data_dir.create_log(partition, SMALL), 12)
        data_dir.logs[partition].flush()
    data_dir.checkpoint()
    if is_clean:
        data_dir.close()
    overwrite(disk, f"{DATA}/recovery-point-offset-checkpoint", b"nonsense")
    disk.flip_bit(f"{DATA}/{OTHER}/{0:020d}.log", 100, 0)  # far below what was known to be good
    disk.restart()
    found = open_dir(disk)
    assert offsets(found.logs[PARTITION]) == list(range(12))
    assert list(found.unreadable) == [OTHER]
    assert Checkpoints(disk, DATA).recovery_point(PARTITION) == 12


@pytest.mark.parametrize("seed", range(10))
def test_without_recovery_points_the_gaps_of_a_compacted_log_are_not_taken_for_loss(seed: int) -> None:
    log = CompactedLog(msgspec.structs.replace(CONFIG, segment_bytes=1024))
    for number in range(6):
        log.put(*((f"{number}-{each}", "v" * 60) for each in range(10)))
        log.put(("same", "value"))  # of which the last alone stays: every other segment ends in a gap
        log.roll()
    log.compact()
    log.log.flush()
    assert len(log.log.segments) > 4
    values = log.values()
    overwrite(log.disk, f"{DATA}/recovery-point-offset-checkpoint", b"nonsense")
    overwrite(log.disk, f"{DATA}/cleaner-offset-checkpoint", b"nonsense")
    log.disk.restart()
    log.disk.crash_after(seed)  # also when the node dies in the middle of that
    with suppress(SimulatedCrash):
        open_dir(log.disk, log.config)
    log.disk.crash(Keep.NOTHING)
    log.open()
    assert log.values() == values


def test_without_recovery_points_only_the_end_of_a_log_passes_for_torn() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, SMALL)
    fill(log, 12, value=b"v" * 600)
    log.flush()
    data_dir.checkpoint()
    path, size = log.segments[2].log_path, log.segments[2].size
    overwrite(disk, f"{DATA}/recovery-point-offset-checkpoint", b"nonsense")
    overwrite(disk, path, content(disk, path)[: size - 30])
    disk.restart()
    assert list(open_dir(disk).unreadable) == [PARTITION]
    assert len([name for name in disk.list_dir(f"{DATA}/{PARTITION}") if name.endswith(".log")]) == len(log.segments)


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_file_in_the_place_of_a_partition_is_one_partition_that_cannot_be_read(is_clean: bool) -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    for partition in (PARTITION, OTHER):
        append(data_dir.create_log(partition, SMALL), plain())
        data_dir.logs[partition].flush()
    data_dir.checkpoint()
    if is_clean:
        data_dir.close()
    disk.restart()
    disk.rename(f"{DATA}/{PARTITION}", f"{DATA}/elsewhere")
    overwrite(disk, f"{DATA}/{PARTITION}", b"not a directory")
    found = open_dir(disk)
    assert offsets(found.logs[OTHER]) == [0]
    assert "cannot be opened" in str(found.unreadable[PARTITION])
    with pytest.raises(CorruptLog, match="restore the directory"):
        found.create_log(PARTITION, SMALL)
    append(found.logs[OTHER], plain())
    assert found.health.offline_reason is None
    disk.restart()
    disk.remove(f"{DATA}/{PARTITION}")
    disk.rename(f"{DATA}/elsewhere", f"{DATA}/{PARTITION}")
    assert offsets(open_dir(disk).logs[PARTITION]) == [0]


def test_a_directory_in_the_place_of_a_segment_is_one_partition_that_cannot_be_read() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    for partition in (PARTITION, OTHER):
        append(data_dir.create_log(partition, SMALL), plain())
        data_dir.logs[partition].flush()
    disk.restart()
    disk.remove(f"{DATA}/{PARTITION}/{0:020d}.log")
    disk.make_dir(f"{DATA}/{PARTITION}/{0:020d}.log")
    found = open_dir(disk)
    assert (list(found.logs), list(found.unreadable)) == ([OTHER], [PARTITION])
    assert found.health.offline_reason is None


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"])
def test_a_checkpoint_that_is_missing_is_a_damaged_one(name: str) -> None:
    disk = SimulatedDisk()
    open_dir(disk)  # makes the directory, and nothing in it
    assert content(disk, f"{DATA}/{name}") == b"0\n0\n"
    disk.remove(f"{DATA}/{name}")
    disk.restart()
    (consequence,) = open_dir(disk).checkpoints.consequences
    assert consequence.startswith(f"{DATA}/{name} is missing; ")
    disk.restart()
    assert open_dir(disk).checkpoints.consequences == []  # it is written anew


def test_a_directory_of_an_earlier_version_without_checkpoints_is_opened_and_gets_them() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    fill(data_dir.create_log(PARTITION, SMALL), 12)
    data_dir.close()
    names = ["log-start-offset-checkpoint", "log-start-offset-checkpoint.copy", "cleaner-offset-checkpoint"]
    for name in ("meta.properties", *names):
        disk.remove(f"{DATA}/{name}")
    disk.restart()
    found = open_dir(disk)
    assert offsets(found.logs[PARTITION]) == list(range(12))
    (consequence,) = found.checkpoints.consequences
    assert "it is taken for a directory of an earlier version, from which no records were deleted" in consequence
    assert {content(disk, f"{DATA}/{name}") for name in names} == {b"0\n0\n"}
    disk.restart()
    assert open_dir(disk).checkpoints.consequences == []


@pytest.mark.parametrize("seed", range(5))
def test_a_crash_while_a_directory_is_made_leaves_one_that_opens(seed: int) -> None:
    for number in range(1, 40):
        disk = SimulatedDisk(seed)
        disk.crash_after(number)
        with suppress(SimulatedCrash):
            open_dir(disk)
        disk.crash(Keep.RANDOM)
        disk.restart()
        assert open_dir(disk).checkpoints.consequences == []
