"""A whole node with its clients, through crashes, kills and resets: what clients were told stays true.

TEST_SEEDS says how many runs, TEST_FIRST_SEED where to begin, as for the other machines here. One run alone:
PYTHONPATH=. python -m tests.simulation.node_support SEED
"""

from collections.abc import Callable, Sequence

import pytest

from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import BatchHeader
from barnabas.core.replica.producers import ProducerStates
from barnabas.runtime.acks import AckCallback
from barnabas.runtime.applied_metadata import AppliedMetadata
from barnabas.runtime.partition import Partition
from barnabas.runtime.raft_driver import Proposal
from barnabas.storage.checkpoints import Checkpoints
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Appended, Log
from barnabas.storage.unsynced import FlushPlan
from tests.simulation.node_support import run
from tests.simulation.seeded import check_noticed, check_seeds

SEEDS = 6
PLANTED_SEEDS = 40
NOTICED_BY = {  # or else by the first
    "acknowledge_before_the_sync": 5,
    "show_what_is_not_synced": 4,
    "forget_producers_over_a_restart": 2,
}

pytestmark = pytest.mark.usefixtures("_quiet")


def test_what_clients_were_told_stays_true() -> None:
    check_seeds(
        run,
        default=SEEDS,
        events=("lose_power", "crash in a disk call", "lose_process", "deleted", "unacknowledged", "fetched"),
    )


# Planted bugs


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def call_at_once(_partition: Partition, _end_offset: int, callback: AckCallback) -> None:
        callback(None)

    patch.setattr(Partition, "call_when_acked", call_at_once)


def take_every_retry_for_new(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "find_duplicate", lambda _states, _header: None)
    patch.setattr(ProducerStates, "check", lambda _states, _header: None)


def show_what_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    append = Partition.append

    def append_and_show(partition: Partition, data: bytearray | memoryview, *, now_ms: int) -> Appended:
        appended = append(partition, data, now_ms=now_ms)
        partition._advance(partition.log.end_offset)
        return appended

    patch.setattr(Partition, "append", append_and_show)


def leave_the_files_of_deleted_topics(patch: pytest.MonkeyPatch) -> None:
    def remove_nothing(_: DataDir, __: Sequence[TopicPartition]) -> Callable[[], list[str]]:
        return list

    patch.setattr(DataDir, "begin_removal", remove_nothing)


def answer_before_the_metadata_is_synced(patch: pytest.MonkeyPatch) -> None:
    note = AppliedMetadata.note_proposal

    def note_and_apply(applied: AppliedMetadata, proposal: Proposal) -> None:
        note(applied, proposal)
        applied.commit_to(proposal.end_offset)

    patch.setattr(AppliedMetadata, "note_proposal", note_and_apply)


def forget_producers_over_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "restore", lambda _states, _producers: None)
    patch.setattr("barnabas.storage.recovery.replay_batch", lambda *_arguments: None)


def checkpoint_what_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    set_point = Checkpoints.set_recovery_point

    def set_end(checkpoints: Checkpoints, partition: TopicPartition, offset: int) -> None:
        set_point(checkpoints, partition, offset + 1 if offset else 0)

    patch.setattr(Checkpoints, "set_recovery_point", set_end)


def sync_nothing_of_the_second_file_on(patch: pytest.MonkeyPatch) -> None:
    def run_short(plan: FlushPlan, _synced: set[str] | None = None) -> None:
        plan.files[0].sync()

    patch.setattr(FlushPlan, "run", run_short)


def answer_a_retry_with_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    check = Log._check_producer

    def wrong(log: Log, data: bytearray | memoryview, header: BatchHeader) -> object:
        written = check(log, data, header)
        return None if written is None else written._replace(first_offset=log.end_offset)

    patch.setattr(Log, "_check_producer", wrong)


@pytest.mark.parametrize(
    "plant",
    [
        acknowledge_before_the_sync,
        take_every_retry_for_new,
        show_what_is_not_synced,
        leave_the_files_of_deleted_topics,
        answer_before_the_metadata_is_synced,
        forget_producers_over_a_restart,
        checkpoint_what_is_not_synced,
        sync_nothing_of_the_second_file_on,
        answer_a_retry_with_the_end_of_the_log,
    ],
)
def test_the_simulation_notices_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    check_noticed(run, within=PLANTED_SEEDS, likely=NOTICED_BY.get(plant.__name__, 0))
