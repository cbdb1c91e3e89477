"""Durability: what a log says is flushed survives, however flushes, rolls and cuts overlap."""

from collections.abc import Callable

import pytest

from barnabas.storage.log import Log
from barnabas.storage.truncate import truncate_to
from barnabas.testing.disk import Keep, SimulatedDisk
from tests.unit.storage.builders import (
    PARTITION,
    SMALL,
    abort,
    all_bytes,
    append,
    fill,
    in_transaction,
    new_log,
    open_dir,
    plain,
    reopened,
)


def test_nothing_is_durable_before_it_is_flushed() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    log.flush()
    append(log, plain())
    assert log.flushed_offset == 0
    disk.crash(Keep.NOTHING)
    assert reopened(disk).end_offset == 0


def test_what_is_flushed_survives_a_crash() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    fill(log, 20)
    log.flush()
    written = all_bytes(log)
    assert log.flushed_offset == 20
    disk.crash(Keep.NOTHING)
    assert all_bytes(reopened(disk)) == written


def test_there_is_nothing_to_flush_twice() -> None:
    log = new_log(SimulatedDisk())
    append(log, plain())
    log.flush()
    assert log.begin_flush() is None


def test_what_is_appended_during_a_flush_is_not_counted() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain(3))
    plan = log.begin_flush()
    assert plan is not None
    append(log, plain(2))
    plan.run()
    log.end_flush(plan)
    assert (log.flushed_offset, log.end_offset) == (3, 5)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_flushes_may_overlap_and_end_in_any_order(order: tuple[int, int]) -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    fill(log, 5)
    plans = [log.begin_flush()]
    fill(log, 5)
    plans.append(log.begin_flush())
    for index in order:
        plan = plans[index]
        assert plan is not None
        plan.run()
        log.end_flush(plan)
        durable = log.flushed_offset
    assert durable == 10
    disk.crash(Keep.NOTHING)
    assert reopened(disk).end_offset == 10


def test_a_later_flush_covers_the_closed_segments_that_an_earlier_one_has_not_synced_yet() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    log.flush()
    fill(log, 8)  # several segments
    abandoned = log.begin_flush()  # its thread never gets to run
    fill(log, 1)
    log.flush()
    assert (log.flushed_offset, abandoned is not None) == (9, True)
    disk.crash(Keep.NOTHING)
    assert reopened(disk).end_offset == 9


def test_an_abort_noted_during_a_flush_is_synced_by_the_next() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, in_transaction(7, 0), abort(7))
    early = log.begin_flush()
    append(log, in_transaction(7, 1), abort(7))
    log.flush()
    append(log, in_transaction(7, 2), abort(7))
    assert early is not None
    early.run()
    log.end_flush(early)  # knows nothing of the third, and must not take it off the list
    log.flush()
    log_path = log.active.path(".txnindex")
    assert len(disk.durable_bytes(log_path) or b"") == 3 * 34


def test_a_flush_that_a_truncation_overtakes_makes_nothing_durable() -> None:
    log = new_log(SimulatedDisk())
    append(log, plain(), plain(), plain())
    plan = log.begin_flush()
    assert plan is not None
    plan.run()
    truncate_to(log, 1)
    append(log, plain(), plain(), plain())
    log.end_flush(plan)
    assert (log.flushed_offset, log.end_offset) == (1, 4)


def test_the_name_of_a_new_segment_is_durable_with_its_first_record() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain())
    log.flush()
    log.roll()
    append(log, plain())
    log.flush()
    disk.crash(Keep.NOTHING)
    assert reopened(disk).end_offset == 2


def test_a_new_log_never_begins_in_the_middle() -> None:
    """The names of its first two segments may survive one without the other, if neither was synced."""
    for seed in range(100):
        disk = SimulatedDisk(seed)
        log = new_log(disk)
        append(log, plain())
        log.roll()
        append(log, plain())
        disk.crash()
        found = open_dir(disk).logs.get(PARTITION)
        assert found is None or found.log_start_offset == 0


def test_the_flush_that_an_append_must_do_itself_includes_the_abort_it_wrote() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk, max_open_files=2)  # one file may wait for its sync
    other, log = (data_dir.create_log(PARTITION._replace(partition=n), SMALL) for n in (1, 0))
    append(other, plain())
    append(log, in_transaction(7, 0), abort(7))
    assert log.flushed_offset == log.end_offset == 2
    data_dir.checkpoint()
    disk.crash(Keep.NOTHING)
    assert reopened(disk).active.txn_index.aborted() == [(7, 0, 1, 2)]


def checkpoint(log: Log) -> None:
    log.prepare_checkpoint()
    log.context.checkpoints.write()


@pytest.mark.parametrize("between", [lambda _log: None, checkpoint])
def test_a_recovered_log_is_durable_even_if_only_the_process_had_died(between: Callable[[Log], None]) -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    fill(log, 20)
    append(log, in_transaction(7, 0), abort(7))
    between(log)
    disk.restart()
    log = reopened(disk)
    end_offset, written, aborted = log.flushed_offset, all_bytes(log), log.active.txn_index.aborted()
    checkpoint(log)
    disk.crash(Keep.NOTHING)
    again = reopened(disk)
    assert (again.end_offset, all_bytes(again), again.active.txn_index.aborted()) == (end_offset, written, aborted)
