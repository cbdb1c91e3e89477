"""A quorum over the wire under faults, from many seeds."""

from tests.simulation.seeded import check_seeds, hash_in_another_process
from tests.simulation.wire_quorum_support import run_seed

SEEDS = 15


def test_images_are_equal_at_equal_offsets_and_nothing_acknowledged_is_lost() -> None:
    check_seeds(run_seed, default=SEEDS, events=("leader", "acknowledged", "death", "cut", "refused"))


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_seed(12)[1] == hash_in_another_process(run_seed, 12)
