"""A share group in whole clusters under faults, from many seeds.

TEST_SEEDS says how many runs, TEST_FIRST_SEED where to begin, as for the other machines here. One run alone:
PYTHONPATH=. python -m tests.simulation.replicas_shares SEED
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.core.groups.share import persisted
from barnabas.core.groups.share.partition import SharePartition
from barnabas.services.led_shares import LedShare
from tests.simulation.replicas_shares import run_shares
from tests.simulation.seeded import check_noticed, check_seeds
from tests.support.examples import LONG

SEEDS = 1
PLANTED_SEEDS = 12
EVENTS = ("acked", "again", "delivered", "done", "hang", "leader elected", "not fetched", "refused", "written")

pytestmark = pytest.mark.usefixtures("_quiet")


def test_no_job_is_lost_and_none_that_was_acknowledged_comes_back_whoever_leads() -> None:
    check_seeds(run_shares, default=SEEDS, events=EVENTS)


# Planted bugs


def answer_before_the_write(patch: pytest.MonkeyPatch) -> None:
    acknowledge = LedShare.acknowledge

    def acknowledge_at_once(led: LedShare, *arguments: Any) -> None:
        acknowledge(led, *arguments)

    patch.setattr(LedShare, "acknowledge", acknowledge_at_once)


def take_what_anybody_says(patch: pytest.MonkeyPatch) -> None:
    """Also of those whose lock has run out."""
    patch.setattr(SharePartition, "_check", lambda *_arguments: None)


def serve_as_a_deposed_leader(patch: pytest.MonkeyPatch) -> None:
    """And write as one."""
    patch.setattr(persisted, "_check_leader", lambda *_arguments: None)
    patch.setattr(LedShare, "is_current", property(lambda led: led.end is None and not led.partition.is_deleted))
    patch.setattr(LedShare, "check", _check_end_alone)


def _check_end_alone(led: LedShare) -> None:
    if led.end is not None:
        raise type(led.end)(*led.end.args)


def run_only(*faults: str, first: int = 0) -> Callable[[int], tuple[Counter[str], str]]:
    def run(seed: int) -> tuple[Counter[str], str]:
        return run_shares(first + seed, *faults)

    return run


@pytest.mark.parametrize(
    ("plant", "run"),
    [
        (answer_before_the_write, run_only("lose_leader", first=3)),
        (take_what_anybody_says, run_only("lose_leader", first=2)),
        pytest.param(serve_as_a_deposed_leader, run_only("isolate_leader"), marks=LONG),
    ],
)
def test_a_planted_bug_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None],
    run: Callable[[int], tuple[Counter[str], str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    check_noticed(run, within=PLANTED_SEEDS)
