"""Whole clusters under faults, from many seeds; ``make sim ARGS=quorum SEEDS=1000`` tries more."""

from tests.simulation.cluster_support import run_seed
from tests.simulation.seeded import check_seeds, hash_in_another_process

SEEDS = 10
EVENTS = (
    "leader",
    "acknowledged",
    "unknown",
    "producer id",
    "lose_power",
    "crash in a disk call",
    "pause",
    "cut_off",
    "split",
    "slow_links",
    "slow_disk",
    "fill_disk",
    "break_disk",
    "jump",
    "change_voters",
)


def test_nothing_that_a_client_was_told_is_lost_and_the_cluster_heals_whatever_happens() -> None:
    check_seeds(run_seed, default=SEEDS, events=EVENTS)


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_seed(1)[1] == hash_in_another_process(run_seed, 1)
