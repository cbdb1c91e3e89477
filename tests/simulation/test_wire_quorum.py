"""A quorum over the wire under faults, from many seeds."""

from tests.simulation.seeded import check_seeds
from tests.simulation.wire_quorum_support import run_seed

SEEDS = 8


def test_images_are_equal_at_equal_offsets_and_nothing_acknowledged_is_lost() -> None:
    check_seeds(run_seed, default=SEEDS, events=("leader", "acknowledged", "death", "cut", "refused"))
