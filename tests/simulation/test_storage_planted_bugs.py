"""The machine notices when storage is wrong: each bug planted here is one that was made, or could well be."""

from collections.abc import Callable

import pytest

from barnabas.core.errors import BarnabasError
from barnabas.core.records.batch import BatchHeader
from barnabas.core.replica.producers import ProducerStates
from barnabas.storage import recovery, renewal, scan
from barnabas.storage.checkpoints import Checkpoints
from barnabas.storage.log import Log
from barnabas.storage.offset_index import DamagedIndex
from barnabas.storage.producer_files import ProducerFiles
from barnabas.storage.txn_index import TxnIndex
from barnabas.storage.unsynced import FlushPlan
from tests.simulation.seeded import in_turn
from tests.simulation.storage_machine import run
from tests.simulation.storage_model import Violation

Plant = Callable[[pytest.MonkeyPatch], None]

SEEDS = 400
NOTICED_BY = {  # or by others
    "end_a_flush_that_a_truncation_overtook": 343,
    "keep_snapshots_beyond_the_end": 36,
    "sync_the_active_segment_only": 49,
}


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FlushPlan, "run", lambda _plan: None)


def sync_no_directory_after_a_roll(patch: pytest.MonkeyPatch) -> None:
    def sync_files_only(plan: FlushPlan) -> None:
        for file in plan.files:
            file.sync()

    patch.setattr(FlushPlan, "run", sync_files_only)


def sync_the_active_segment_only(patch: pytest.MonkeyPatch) -> None:
    def sync_active(plan: FlushPlan) -> None:
        plan.files[-1].sync()
        for directory in plan.directories:
            plan.disk.sync_dir(directory)

    patch.setattr(FlushPlan, "run", sync_active)


def end_a_flush_that_a_truncation_overtook(patch: pytest.MonkeyPatch) -> None:
    end_flush = Log.end_flush
    patch.setattr(Log, "end_flush", lambda log, plan: end_flush(log, plan._replace(cuts=log._cuts)))


def truncate_without_lowering_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Checkpoints, "lower_recovery_point", lambda *_arguments: None)


def trust_the_tail_without_its_checksum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scan, "check_batch", lambda *_arguments: None)


def take_every_torn_write_for_damage(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scan, "_is_torn", lambda *_arguments: False)


def keep_snapshots_beyond_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerFiles, "beyond", lambda *_arguments: [])


def remove_segments_before_the_start_is_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Checkpoints, "write_log_starts", lambda _checkpoints: None)


def take_what_recovery_found_for_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery._Opening, "_settle", lambda _opening, active, _end_offset: active.write_indexes())


def take_what_can_be_read_for_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(renewal.Rewriting, "_write", lambda _rewriting: None)
    patch.setattr(renewal.Rewriting, "end", lambda _rewriting: None)


def raise_the_recovery_point_without_the_epochs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "write_epochs", lambda _log: None)


def forget_producers_below_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery._Opening, "_replay_known", lambda *_arguments: None)


def keep_aborted_transactions_that_were_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TxnIndex, "cut", lambda *_arguments: None)


def write_a_retry_again(patch: pytest.MonkeyPatch) -> None:
    def no_duplicate(_producers: ProducerStates, _header: BatchHeader) -> None:
        return None

    patch.setattr(ProducerStates, "find_duplicate", no_duplicate)


@pytest.mark.parametrize(
    "plant",
    [
        acknowledge_before_the_sync,
        sync_no_directory_after_a_roll,
        sync_the_active_segment_only,
        end_a_flush_that_a_truncation_overtook,
        truncate_without_lowering_the_recovery_point,
        trust_the_tail_without_its_checksum,
        take_every_torn_write_for_damage,
        keep_snapshots_beyond_the_end,
        remove_segments_before_the_start_is_noted,
        take_what_recovery_found_for_durable,
        take_what_can_be_read_for_written,
        raise_the_recovery_point_without_the_epochs,
        forget_producers_below_the_recovery_point,
        keep_aborted_transactions_that_were_cut,
        write_a_retry_again,
    ],
)
def test_the_machine_notices_a_planted_bug(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    tried = in_turn(SEEDS, NOTICED_BY.get(plant.__name__, 0))
    caught_by = next((seed for seed in tried if _fails(seed)), None)

    assert caught_by is not None, f"{SEEDS} runs did not notice"
    print(f"caught by seed {caught_by}")


def _fails(seed: int) -> bool:
    try:
        run(seed)
    except (Violation, BarnabasError, DamagedIndex):
        return True
    return False
