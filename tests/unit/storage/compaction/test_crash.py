"""A power cut at every step of a round of compaction, the swap above all: nothing is lost, nothing comes back."""

import contextlib

import msgspec
import pytest

from barnabas.core.records.control import MarkerType
from barnabas.core.records.record import Record
from barnabas.core.replica.producers import Producer
from barnabas.storage.compaction import apply
from barnabas.testing.disk import Keep, SimulatedCrash
from tests.unit.storage.compaction.support import CONFIG, DAY, NOW, CompactedLog

SMALL = msgspec.structs.replace(CONFIG, segment_bytes=1024)
LATER = NOW + 2 * DAY


def dirty_log(seed: int) -> CompactedLog:
    """Several segments with everything in them: a clean part with due tombstones, transactions of every kind."""
    log = CompactedLog(SMALL, seed=seed)
    log.put(("dead", "1"), ("a", "0"), ("b", "0"), producer=1)
    log.put(("dead", None), ("c", "x" * 300))
    log.put(("gone", "1"), producer=2, in_transaction=True)
    log.abort(2)
    log.roll()
    log.compact(now=NOW)
    log.compact(now=NOW)
    for i in range(3):
        log.put(("a", str(i)), ("b", str(i)), (f"k{i}", "x" * 200), producer=1)
        log.put(("t", f"aborted{i}"), (f"k{i - 1}", "aborted"), producer=2, in_transaction=True)
        log.end(2, MarkerType.ABORT, bumps_epoch=i == 1)
        log.put(("t", f"committed{i}"), ("c", None if i == 1 else "y" * 150), producer=3, in_transaction=True)
        log.commit(3)
        log.roll()
    log.put(("open", "1"), ("a", "open"), producer=4, in_transaction=True)
    log.log.flush()
    return log


class Expected:
    """What must hold whatever a crash did to a round."""

    def __init__(self, log: CompactedLog) -> None:
        self.table = log.newest()
        self.records: dict[int, Record] = {record.offset: record for record in log.records()}
        self.end_offset = log.log.end_offset
        self.producers: dict[int, Producer] = log.producers()

    def check(self, log: CompactedLog) -> None:
        assert log.newest() == self.table
        assert log.consume(max_bytes=1) == log.consume()
        records = log.records()
        assert all(self.records[record.offset] == record for record in records)
        assert [record.offset for record in records] == sorted({record.offset for record in records})
        assert (log.log.log_start_offset, log.log.end_offset) == (0, self.end_offset)
        assert log.producers() == self.producers
        assert log.names(".cleaned") == log.names(".swap") == []


def count_mutations() -> tuple[int, int]:
    """How many steps a run and a swap have."""
    log = dirty_log(0)
    before = log.disk.mutations
    result = log.run(now=LATER)
    between = log.disk.mutations
    assert apply(log.log, result)
    assert len(result.outputs) > 1
    return between - before, log.disk.mutations - between


RUN_STEPS, SWAP_STEPS = count_mutations()


def crash_after(steps: int, keep: Keep, *, seed: int) -> tuple[CompactedLog, Expected]:
    """A round that the power was cut from, and what must hold afterwards."""
    log = dirty_log(seed)
    expected = Expected(log)
    log.disk.crash_after(steps)
    with contextlib.suppress(SimulatedCrash):
        apply(log.log, log.run(now=LATER))
    log.disk.crash(keep)
    return log, expected


@pytest.mark.parametrize("keep", list(Keep))
@pytest.mark.parametrize("step", range(RUN_STEPS + SWAP_STEPS + 1))
def test_a_power_cut_at_any_step_loses_nothing_and_brings_nothing_back(step: int, keep: Keep) -> None:
    log, expected = crash_after(step, keep, seed=step)
    log.open()
    expected.check(log)
    log.compact(now=LATER)
    expected.check(log)


@pytest.mark.parametrize("seed", range(60))
def test_a_second_power_cut_during_recovery_does_no_harm_either(seed: int) -> None:
    log, expected = crash_after(RUN_STEPS + seed % SWAP_STEPS, Keep.RANDOM, seed=seed)
    log.disk.crash_after(seed % 13)
    with contextlib.suppress(SimulatedCrash):
        log.open()
    log.disk.crash()
    log.open()
    expected.check(log)


@pytest.mark.parametrize("step", range(0, RUN_STEPS + SWAP_STEPS, 3))
def test_a_process_that_died_at_any_step_and_then_lost_power_is_whole(step: int) -> None:
    log = dirty_log(step)
    expected = Expected(log)
    log.disk.crash_after(step)
    with contextlib.suppress(SimulatedCrash):
        apply(log.log, log.run(now=LATER))
    log.restart()
    expected.check(log)
    log.disk.crash(Keep.NOTHING)
    log.open()
    expected.check(log)


def test_every_round_after_a_crash_ends_with_the_same_log() -> None:
    whole = dirty_log(0)
    whole.compact(now=LATER)
    whole.compact(now=LATER)
    for step in range(RUN_STEPS, RUN_STEPS + SWAP_STEPS, 2):
        log, _ = crash_after(step, Keep.RANDOM, seed=step)
        log.open()
        log.compact(now=LATER)
        log.compact(now=LATER)
        assert {key: value for _, key, value in log.values()} == {key: value for _, key, value in whole.values()}
