"""A bank on a whole node, through crashes, kills, zombies and repeated requests: transfers are whole, once, or not.

TEST_SEEDS says how many runs, TEST_FIRST_SEED where to begin, as for the other machines here. One run alone:
PYTHONPATH=. python -m tests.simulation.transaction_support SEED
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from barnabas.core.coordination import Reply
from barnabas.core.groups.records import GroupEntry
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import BatchHeader
from barnabas.core.replica.producers import ProducerStates, WrittenBatch
from barnabas.core.transactions import ending, partitions
from barnabas.core.transactions.ending import MarkersDue, TransactionEnd, markers_due
from barnabas.core.transactions.producers import check_owner
from barnabas.core.transactions.records import TransactionRecord
from barnabas.runtime import coordinator as runtime
from barnabas.runtime import transaction_coordinator
from barnabas.runtime.group_coordinator import GroupCoordinator
from barnabas.runtime.guards import Guards
from barnabas.runtime.partition import Partition
from barnabas.runtime.transaction_coordinator import TransactionCoordinator
from barnabas.services.markers import Markers
from barnabas.services.produce import Produce
from barnabas.services.transactions import TransactionService
from barnabas.storage.log import Appended, Log
from tests.simulation.seeded import check_noticed, check_seeds
from tests.simulation.transaction_crashes import COMPLETED, MARKING, POINTS, PREPARED, SYNCING
from tests.simulation.transaction_support import CUTS, cut_at, hang_up_at, run, run_undecided

SEEDS = 3
CUT_SEEDS = 3  # for each state of the coordinator
PLANTED_SEEDS = 12
NOTICED_BY = {"start_no_timers_after_a_restart": 2}  # or else by the first

pytestmark = pytest.mark.usefixtures("_quiet")


def test_transfers_are_whole_and_once_or_not_at_all() -> None:
    check_seeds(
        run,
        default=SEEDS,
        events=(
            "committed by new",
            "committed by old",
            "aborted by new",
            "aborted by old",
            "crash at an answer",
            "fenced",
            "hang",
            "late",
            "repeated",
            "reused",
            "unanswered",
            "unstable offset",
        ),
    )


@pytest.mark.parametrize("point", POINTS)
def test_a_power_cut_in_any_state_of_the_coordinator_leaves_nothing_open(point: str) -> None:
    run_cut = cut_at(point)

    for seed in range(CUT_SEEDS):
        counts, _ = run_cut(seed)

        assert counts[f"crash when {point}"] == CUTS


@pytest.mark.parametrize("point", [PREPARED, SYNCING])
def test_an_end_is_carried_out_though_whoever_asked_for_it_has_hung_up(point: str) -> None:
    counts, _ = hang_up_at(point)(0)

    assert counts[f"hung up when {point}"] == CUTS


# Planted bugs


def take_any_epoch_for_an_end(patch: pytest.MonkeyPatch) -> None:
    def check_id(record: TransactionRecord, producer_id: int, _epoch: int) -> None:
        check_owner(record, producer_id, record.owner.producer_epoch)

    patch.setattr(ending, "check_owner", check_id)
    patch.setattr(ending, "_is_retry", lambda *_arguments: False)


def resume_nothing_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionService, "_resume", lambda *_arguments: None)


def start_no_timers_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_coordinator, "timers_after_load", lambda *_arguments: [])


def take_writes_of_fenced_producers(patch: pytest.MonkeyPatch) -> None:
    def check_id(record: TransactionRecord, producer_id: int, _epoch: int) -> None:
        check_owner(record, producer_id, record.owner.producer_epoch)

    patch.setattr(ProducerStates, "check_epoch", lambda *_arguments: None)
    patch.setattr(partitions, "check_owner", check_id)


def show_offsets_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    def apply_at_once(coordinator: GroupCoordinator, _producer_id: int, entry: GroupEntry) -> None:
        coordinator.apply(entry)

    patch.setattr(GroupCoordinator, "apply_within", apply_at_once)


def answer_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def answer_at_once(_coordinator: TransactionCoordinator, replies: Sequence[Reply[Any]]) -> None:
        runtime._answer(replies)

    async def wait_for_nothing(_service: TransactionService, _transactional_id: str) -> None:
        await asyncio.sleep(0)

    patch.setattr(TransactionCoordinator, "_answer_when_durable", answer_at_once)
    patch.setattr(TransactionService, "_wait_ended", wait_for_nothing)


def write_markers_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    async def look(to: TransactionCoordinator, transactional_id: str) -> MarkersDue | None:
        record = to.transactions.get(transactional_id)
        return None if record is None else markers_due(record)

    patch.setattr(TransactionCoordinator, "markers_due", look)


def ask_no_coordinator_about_a_write(patch: pytest.MonkeyPatch) -> None:
    async def verify_nothing(*_arguments: object, **_named: object) -> None:
        await asyncio.sleep(0)

    def append(partition: Partition, data: bytearray, *, guard: object, now_ms: int) -> Appended:
        assert guard is None
        return partition.append(data, now_ms=now_ms)

    patch.setattr(Produce, "verify", verify_nothing)
    patch.setattr(Partition, "append_in_transaction", append)


def show_what_is_not_stable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "last_stable_offset", lambda _log, high_watermark: high_watermark)


def tell_nobody_what_was_aborted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("barnabas.services.fetch.aborted_transactions", lambda *_arguments: [])


def commit_what_is_aborted(patch: pytest.MonkeyPatch) -> None:
    append = Markers._append

    def append_commit(markers: Markers, end: TransactionEnd, name: TopicPartition) -> tuple[Partition, int, int]:
        return append(markers, end._replace(is_commit=True), name)

    patch.setattr(Markers, "_append", append_commit)


def forget_the_last_partition(patch: pytest.MonkeyPatch) -> None:
    write = Markers.write

    async def write_fewer(
        markers: Markers, end: TransactionEnd, names: tuple[TopicPartition, ...]
    ) -> dict[TopicPartition, object]:
        return dict(await write(markers, end, names[:-1]))

    patch.setattr(Markers, "write", write_fewer)


def complete_before_the_markers_are_synced(patch: pytest.MonkeyPatch) -> None:
    async def wait_for_nothing(_partition: Partition, _end_offset: int, **_deadline: float) -> None:
        await asyncio.sleep(0)

    patch.setattr("barnabas.services.markers.wait_acked", wait_for_nothing)


def take_every_retry_for_new(patch: pytest.MonkeyPatch) -> None:
    def find_none(_states: ProducerStates, _header: BatchHeader) -> None:
        return None

    patch.setattr(ProducerStates, "admit", find_none)
    patch.setattr(ProducerStates, "find_duplicate", find_none)


def know_a_retry_by_its_numbers_alone(patch: pytest.MonkeyPatch) -> None:
    def find_any(states: ProducerStates, header: BatchHeader) -> WrittenBatch | None:
        producer = states.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        numbers = (header.base_sequence, header.last_sequence)
        return next((batch for batch in producer.batches if batch[:2] == numbers), None)

    patch.setattr(ProducerStates, "find_duplicate", find_any)


@pytest.mark.parametrize(
    "plant",
    [
        take_any_epoch_for_an_end,
        start_no_timers_after_a_restart,
        take_writes_of_fenced_producers,
        show_offsets_before_the_commit,
        answer_before_the_sync,
        ask_no_coordinator_about_a_write,
        show_what_is_not_stable,
        tell_nobody_what_was_aborted,
        commit_what_is_aborted,
        forget_the_last_partition,
        take_every_retry_for_new,
        know_a_retry_by_its_numbers_alone,
    ],
)
def test_the_simulation_notices_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    check_noticed(run, within=PLANTED_SEEDS, likely=NOTICED_BY.get(plant.__name__, 0))


@pytest.mark.parametrize(
    ("plant", "point"),
    [
        (write_markers_before_the_sync, MARKING),
        (complete_before_the_markers_are_synced, COMPLETED),
        (resume_nothing_after_a_restart, COMPLETED),
    ],
)
def test_a_power_cut_brings_a_planted_bug_to_light(
    plant: Callable[[pytest.MonkeyPatch], None], point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    check_noticed(cut_at(point), within=PLANTED_SEEDS)


def test_the_simulation_notices_a_marker_that_is_missed_while_the_coordinator_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Guards, "end", lambda *_arguments, **_named: None)

    check_noticed(run_undecided, within=PLANTED_SEEDS)
