"""A data directory: which logs there are, clean and unclean ends, deletion, going offline."""

import contextlib

import pytest

from barnabas.core.errors import CorruptLog, StorageError
from barnabas.core.model import TopicPartition
from barnabas.storage.clean_shutdown import NO_BROKER_EPOCH
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.storage.readable_segment import SegmentGone
from barnabas.storage.small_file import read_file
from barnabas.storage.truncate import delete_before
from barnabas.testing.disk import Keep, SimulatedCrash, SimulatedDisk
from tests.unit.storage.builders import (
    DATA,
    LOG_DIRECTORY,
    PARTITION,
    SMALL,
    all_bytes,
    append,
    fill,
    offsets,
    open_dir,
    overwrite,
    plain,
    produced,
)

OTHER = TopicPartition("other", 3)
MARKER = f"{DATA}/.kafka_cleanshutdown"


def reports_of(disk: SimulatedDisk) -> dict[TopicPartition, bool]:
    """Which logs are there, and whether each was found clean."""
    return {report.partition: report.was_clean for report in DataDir(disk, DATA).open_logs(lambda _partition: SMALL)}


def test_a_new_directory_is_empty() -> None:
    data_dir = open_dir(SimulatedDisk())
    assert (data_dir.logs, data_dir.unreadable) == ({}, {})


def test_a_log_is_made_once() -> None:
    data_dir = open_dir(SimulatedDisk())
    log = data_dir.create_log(PARTITION, SMALL)
    assert data_dir.create_log(PARTITION, SMALL) is log
    assert list(data_dir.logs) == [PARTITION]


def test_all_logs_are_found_again() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    for partition in (PARTITION, OTHER):
        log = data_dir.create_log(partition, SMALL)
        append(log, plain())
        log.flush()
    disk.make_dir(f"{DATA}/lost+found")
    disk.crash(Keep.NOTHING)
    again = open_dir(disk)
    assert {partition: log.end_offset for partition, log in again.logs.items()} == {OTHER: 1, PARTITION: 1}


def test_the_directory_itself_survives_a_crash() -> None:
    disk = SimulatedDisk()
    log = open_dir(disk).create_log(PARTITION, SMALL)
    append(log, plain())
    log.flush()
    disk.crash(Keep.NOTHING)
    assert disk.exists(LOG_DIRECTORY)


def test_a_log_whose_process_died_before_its_name_was_durable_is_durable_once_it_is_opened_and_flushed() -> None:
    disk = SimulatedDisk()
    append(open_dir(disk).create_log(PARTITION, SMALL), plain())
    disk.restart()
    log = open_dir(disk).logs[PARTITION]
    append(log, plain())
    log.flush()
    assert log.flushed_offset == 2
    disk.crash(Keep.NOTHING)
    assert open_dir(disk).logs[PARTITION].end_offset == 2


# Clean and unclean


def test_a_closed_directory_is_opened_without_a_look() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    fill(data_dir.create_log(PARTITION, SMALL), 12)
    written = all_bytes(data_dir.logs[PARTITION])
    data_dir.close()
    assert disk.exists(MARKER)
    disk.crash(Keep.NOTHING)
    assert reports_of(disk) == {PARTITION: True}
    disk.restart()
    assert all_bytes(open_dir(disk).logs[PARTITION]) == written


def test_the_marker_of_a_clean_shutdown_is_gone_before_anything_is_written() -> None:
    disk = SimulatedDisk()
    open_dir(disk).close()
    DataDir(disk, DATA)
    disk.crash(Keep.NOTHING)
    assert not disk.exists(MARKER)


def test_a_directory_that_was_not_closed_is_not_clean() -> None:
    disk = SimulatedDisk()
    log = open_dir(disk).create_log(PARTITION, SMALL)
    append(log, plain())
    log.flush()
    disk.crash()
    assert reports_of(disk) == {PARTITION: False}


def test_a_crash_at_any_step_of_closing_loses_nothing() -> None:
    for step in range(80):
        disk = SimulatedDisk(step)
        data_dir = open_dir(disk)
        log = data_dir.create_log(PARTITION, SMALL)
        fill(log, 7)
        append(log, produced(7, 0))
        log.flush()
        written, producers = all_bytes(log), list(log.producers)
        disk.crash_after(step)
        with contextlib.suppress(SimulatedCrash):
            data_dir.close()
        disk.crash()
        log = open_dir(disk).logs[PARTITION]
        assert (all_bytes(log), list(log.producers)) == (written, producers)


def test_logs_that_did_not_change_are_closed_and_opened_again_all_the_same() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    append(data_dir.create_log(PARTITION, SMALL), produced(7, 0))
    for _ in range(3):
        data_dir.close()
        disk.crash(Keep.NOTHING)
        data_dir = open_dir(disk)
        assert [producer.producer_id for producer in data_dir.logs[PARTITION].producers] == [7]


def test_a_checkpoint_spares_the_next_recovery_the_work() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, SMALL)
    fill(log, 12)
    log.flush()
    data_dir.checkpoint()
    disk.crash(Keep.NOTHING)
    (report,) = DataDir(disk, DATA).open_logs(lambda _partition: SMALL)
    assert (report.was_clean, report.checked_bytes) == (False, 0)


# Damage


def test_a_damaged_log_is_kept_aside_and_the_others_go_on() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    for partition in (PARTITION, OTHER):
        log = data_dir.create_log(partition, SMALL)
        append(log, plain(value=b"v" * 100), plain())
        log.flush()
    disk.flip_bit(f"{LOG_DIRECTORY}/{0:020d}.log", 70, 1)
    disk.crash()
    again = open_dir(disk)
    assert list(again.logs) == [OTHER]
    assert list(again.unreadable) == [PARTITION]
    with pytest.raises(CorruptLog):
        again.create_log(PARTITION, SMALL)
    append(again.logs[OTHER], plain())
    again.close()
    assert not disk.exists(MARKER)  # or the damage would not be looked for again


def test_a_damaged_log_can_be_deleted_and_made_anew() -> None:
    disk = SimulatedDisk()
    log = open_dir(disk).create_log(PARTITION, SMALL)
    append(log, plain(value=b"v" * 100), plain())
    log.flush()
    disk.flip_bit(f"{LOG_DIRECTORY}/{0:020d}.log", 70, 1)
    disk.crash()
    data_dir = open_dir(disk)
    assert PARTITION in data_dir.unreadable
    data_dir.delete_log(PARTITION)
    log = data_dir.create_log(PARTITION, SMALL)
    append(log, plain(3))
    log.flush()
    disk.crash(Keep.NOTHING)  # what was written went to the new file, not to one still open
    assert offsets(open_dir(disk).logs[PARTITION]) == [0, 1, 2]


# Deletion


def test_a_deleted_log_is_gone_with_its_checkpoints() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, SMALL)
    fill(log, 12)
    log.flush()
    data_dir.checkpoint()
    data_dir.delete_log(PARTITION)
    assert (data_dir.logs, disk.exists(LOG_DIRECTORY)) == ({}, False)
    disk.crash(Keep.NOTHING)
    again = open_dir(disk)
    assert again.logs == {}
    assert again.checkpoints.recovery_point(PARTITION) == 0
    assert not [name for name in disk.list_dir(DATA) if "delete" in name]


def test_a_log_made_again_under_the_same_name_is_empty() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, SMALL)
    fill(log, 12)
    assert log.read(0, max_bytes=10) is not None
    data_dir.delete_log(PARTITION)
    log = data_dir.create_log(PARTITION, SMALL)
    assert (log.log_start_offset, log.end_offset, len(log.producers), log.epochs.entries) == (0, 0, 0, ())
    append(log, plain())
    assert offsets(log) == [0]


def test_deleting_what_is_not_there_harms_nobody() -> None:
    data_dir = open_dir(SimulatedDisk())
    data_dir.delete_log(PARTITION)
    assert data_dir.health.offline_reason is None


def test_a_crash_at_any_step_of_deleting_leaves_the_log_whole_or_gone() -> None:
    seen = set()
    for step in range(40):
        for seed in range(4):
            disk = SimulatedDisk(seed)
            data_dir = open_dir(disk)
            log = data_dir.create_log(PARTITION, SMALL)
            fill(log, 7)
            log.flush()
            data_dir.checkpoint()
            disk.crash_after(step)
            with contextlib.suppress(SimulatedCrash):
                data_dir.delete_log(PARTITION)
            disk.restart()
            disk.crash_after(step // 2)
            with contextlib.suppress(SimulatedCrash):
                open_dir(disk)
            disk.crash()
            found = open_dir(disk)
            assert not found.unreadable
            seen.add(found.logs[PARTITION].end_offset if PARTITION in found.logs else "gone")
    assert seen == {7, "gone"}


@pytest.mark.parametrize("length", [1, 246, 247, 248, 249])
def test_a_topic_with_a_name_as_long_as_names_can_be_is_deleted(length: int) -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    long_name = TopicPartition("t" * length, 99_999)
    fill(data_dir.create_log(long_name, SMALL), 3)
    data_dir.delete_log(long_name)
    append(data_dir.create_log(PARTITION, SMALL), plain())
    assert open_dir(disk).logs.keys() == {PARTITION}


def test_what_an_earlier_version_left_of_a_deleted_partition_is_removed() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    fill(data_dir.create_log(PARTITION, SMALL), 3)
    disk.rename(LOG_DIRECTORY, f"{LOG_DIRECTORY}-delete")
    assert open_dir(disk).leftovers == []
    assert not [name for name in disk.list_dir(DATA) if name.endswith("-delete")]


def test_a_leftover_that_cannot_be_removed_is_reported_and_is_in_nobodys_way() -> None:
    disk = SimulatedDisk()
    open_dir(disk)
    for name in ("topic-0-delete", "00000000000000000001-delete"):
        disk.make_dir(f"{DATA}/{name}")
        disk.make_dir(f"{DATA}/{name}/directory")  # which nobody of ours made
    disk.make_dir(f"{DATA}/strange.tmp")
    data_dir = open_dir(disk)
    assert len(data_dir.leftovers) == 3
    fill(data_dir.create_log(PARTITION, SMALL), 3)
    assert data_dir.begin_deletion([PARTITION])() == []
    assert PARTITION not in open_dir(disk).logs


def test_files_of_a_deleted_partition_that_cannot_be_removed_take_nothing_offline() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    fill(data_dir.create_log(PARTITION, SMALL), 3)
    disk.make_dir(f"{LOG_DIRECTORY}/directory")
    (failure,) = data_dir.begin_deletion([PARTITION])()
    assert "-delete/directory" in failure
    fill(data_dir.create_log(PARTITION, SMALL), 1)
    assert data_dir.logs[PARTITION].end_offset == 1


# Offline


def test_a_failed_sync_takes_every_log_of_the_directory_offline() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    first, second = data_dir.create_log(PARTITION, SMALL), data_dir.create_log(OTHER, SMALL)
    append(first, plain())
    disk.fail_sync()
    with pytest.raises(StorageError, match="taken offline"):
        first.flush()
    syncs = disk.syncs.total()
    for attempt in (
        lambda: append(second, plain()),
        second.flush,
        data_dir.checkpoint,
        data_dir.close,
        lambda: data_dir.delete_log(PARTITION),
        lambda: data_dir.create_log(TopicPartition("new", 0), SMALL),
    ):
        with pytest.raises(StorageError, match="offline"):
            attempt()
    assert disk.syncs.total() == syncs
    assert not disk.exists(MARKER)


def test_a_failing_disk_is_reported_when_the_directory_is_opened() -> None:
    disk = SimulatedDisk()
    open_dir(disk)
    disk.fail_sync(count=None)
    with pytest.raises(StorageError, match="taken offline"):
        DataDir(disk, DATA)


def test_a_lookup_that_came_too_late_leaves_nothing_behind_for_the_next_of_the_name() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    old = data_dir.create_log(PARTITION, SMALL)
    append(old, plain())
    old.flush()
    remove = data_dir.begin_deletion([PARTITION])
    with pytest.raises(SegmentGone):
        old.segments[0].file()  # which opens it by its name, and only then hears
    remove()

    new = data_dir.create_log(PARTITION, SMALL)
    append(new, plain(3))
    new.flush()
    disk.crash(Keep.NOTHING)

    assert open_dir(disk).create_log(PARTITION, SMALL).end_offset == 3


def test_a_partition_whose_directory_is_gone_is_not_an_empty_one() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    append(data_dir.create_log(PARTITION, SMALL), plain())
    data_dir.create_log(OTHER, SMALL)  # nothing was ever written to it
    data_dir.close()
    for partition in (PARTITION, OTHER):
        for name in disk.list_dir(f"{DATA}/{partition}"):
            disk.remove(f"{DATA}/{partition}/{name}")
        disk.remove_dir(f"{DATA}/{partition}")
    disk.restart()
    again = open_dir(disk)
    assert list(again.unreadable) == [PARTITION]
    with pytest.raises(CorruptLog, match="is missing, but was synced up to offset 1"):
        again.create_log(PARTITION, SMALL)
    assert again.create_log(OTHER, SMALL).end_offset == 0


def lose(disk: SimulatedDisk, directory: str) -> None:
    for name in disk.list_dir(directory):
        disk.remove(f"{directory}/{name}")
    disk.remove_dir(directory)


def test_a_partition_that_was_emptied_and_is_gone_goes_on_where_it_ended() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, SMALL)
    fill(log, 7)
    delete_before(log, 7)
    data_dir.close()
    lose(disk, LOG_DIRECTORY)
    disk.restart()
    again = open_dir(disk)
    assert (again.logs[PARTITION].log_start_offset, again.logs[PARTITION].end_offset) == (7, 7)


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_partition_whose_records_are_missing_goes_on_behind_them_once_an_operator_says_so(is_restored: bool) -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    fill(data_dir.create_log(PARTITION, SMALL), 7)
    data_dir.close()
    lose(disk, LOG_DIRECTORY)
    if is_restored:
        disk.make_dir(LOG_DIRECTORY)  # of which somebody forgot the files
    disk.restart()
    refusal = open_dir(disk).unreadable[PARTITION]
    assert "up to offset 7" in str(refusal)
    marker = f"{LOG_DIRECTORY}/accept-data-loss"
    assert marker in str(refusal)
    assert disk.exists(LOG_DIRECTORY) is is_restored  # being refused makes no files

    disk.make_dir(LOG_DIRECTORY)
    disk.open(marker, create=True)
    disk.restart()
    again = open_dir(disk)
    assert append_one(again.logs[PARTITION]) == 7
    again.close()
    assert not disk.exists(marker)
    disk.restart()
    assert offsets(open_dir(disk).logs[PARTITION]) == [7]


def append_one(log: Log) -> int:
    return log.append(plain(), leader_epoch=0, now_ms=0).first_offset


@pytest.mark.parametrize("harm", ["damaged", "removed"])
def test_deleted_records_stay_deleted_whatever_becomes_of_the_checkpoint_that_says_so(harm: str) -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, LogConfig())
    fill(log, 7)
    log.flush()
    delete_before(log, 3)  # in the middle of its one segment
    data_dir.close()
    path = f"{DATA}/log-start-offset-checkpoint"
    if harm == "removed":
        disk.remove(path)
    else:
        overwrite(disk, path, b"0\n1\nrubbish\n")
    disk.restart()
    again = open_dir(disk)
    assert again.logs[PARTITION].log_start_offset == 3
    assert path in (again.checkpoints.damage or "")
    disk.restart()
    mended = open_dir(disk)
    assert (mended.logs[PARTITION].log_start_offset, mended.checkpoints.damage) == (3, None)


@pytest.mark.parametrize("harm", ["damaged", "removed"])
def test_where_both_copies_are_gone_the_advice_brings_nothing_back(harm: str) -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, LogConfig())
    fill(log, 7)
    log.flush()
    delete_before(log, 3)
    for suffix in ("", ".copy"):
        if harm == "removed":
            disk.remove(f"{DATA}/log-start-offset-checkpoint{suffix}")
        else:
            overwrite(disk, f"{DATA}/log-start-offset-checkpoint{suffix}", b"rubbish")
    disk.restart()
    with pytest.raises(CorruptLog, match="restore it from a backup, or repair it by hand") as refusal:
        open_dir(disk)
    assert "remove it" not in str(refusal.value)


# The marker of a clean stop


def test_a_clean_stop_tells_the_broker_epoch_of_then_as_kafka_writes_it() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    data_dir.broker_epoch = 21
    data_dir.close()
    assert read_file(disk, MARKER) == b'{"version":0,"brokerEpoch":21}'

    again = open_dir(disk)

    assert (again.was_clean, again.broker_epoch) == (True, 21)
    again.give_back()
    assert open_dir(disk).broker_epoch == 21


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"version":0}', b'{"version":0,"brokerEpoch":-7}'])
def test_a_marker_without_an_epoch_is_that_of_a_clean_stop_all_the_same(content: bytes) -> None:
    disk = SimulatedDisk()
    open_dir(disk).close()
    overwrite(disk, MARKER, content)

    again = open_dir(disk)

    assert (again.was_clean, again.broker_epoch) == (True, NO_BROKER_EPOCH)


def test_a_directory_whose_logs_were_not_opened_since_an_unclean_stop_is_not_marked_clean() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    append(data_dir.create_log(PARTITION, SMALL), plain())
    disk.crash(Keep.EVERYTHING)

    DataDir(disk, DATA).close()  # a node that was told to stop while it waited for a controller

    assert reports_of(disk) == {PARTITION: False}


def test_a_directory_whose_logs_were_not_opened_since_a_clean_stop_stays_clean() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    append(data_dir.create_log(PARTITION, SMALL), plain())
    data_dir.close()

    DataDir(disk, DATA).close()

    assert reports_of(disk) == {PARTITION: True}
