"""The driver of Raft under faults, from many seeds; and that the checks would notice the mistakes of a driver."""

from collections.abc import Callable

import pytest

from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.output import Output
from barnabas.storage.unsynced import FlushPlan
from tests.simulation.quorum_support import run_seed
from tests.simulation.seeded import check_noticed, check_seeds

SEEDS = 12
PLANTED_SEEDS = 50


def test_one_leader_leads_and_what_is_committed_stays_whatever_happens() -> None:
    check_seeds(
        run_seed, default=SEEDS, events=("leader", "acknowledged", "death", "cut", "snapshot", "no room", "refused")
    )


# Planted bugs


def count_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FlushPlan, "run", lambda _plan: None)


def apply_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    appended = RaftNode.appended

    def and_commit(node: RaftNode, end_offset: int, *, epoch: int, now_ms: int) -> Output:
        output = appended(node, end_offset, epoch=epoch, now_ms=now_ms)
        output.high_watermark = end_offset
        return output

    patch.setattr(RaftNode, "appended", and_commit)


@pytest.mark.parametrize(
    "plant",
    [
        count_before_the_sync,
        apply_before_it_is_committed,
    ],
)
def test_the_simulation_notices_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    check_noticed(run_seed, within=PLANTED_SEEDS)
