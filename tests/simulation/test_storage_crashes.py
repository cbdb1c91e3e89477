"""Logs on a disk that loses power at any moment keep what they promised to keep.

TEST_SEEDS says how many runs (by default about 1,500 crashes in all), TEST_FIRST_SEED where to begin:

    TEST_SEEDS=100000 pytest tests/simulation/test_storage_crashes.py
"""

from collections import Counter

import pytest

from tests.simulation.seeded import seeds
from tests.simulation.storage_machine import Machine, run

PARTS = 4  # so that test processes can share them
SEEDS = 180


@pytest.mark.parametrize("part", range(PARTS))
def test_a_log_keeps_its_promises_through_thousands_of_crashes(part: int) -> None:
    mine = [seed for seed in seeds(default=SEEDS) if seed % PARTS == part]

    counts = sum((run(seed) for seed in mine), Counter[str]())

    print(f"{len(mine)} seeds, {counts.pop('crash points')} crash points: {dict(counts.most_common())}")
    assert counts["crash in recovery"] > len(mine), "the machine hardly crashes any more"


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = Machine(4711), Machine(4711)

    first.run(steps=80)
    second.run(steps=80)

    assert first.disk.fingerprint == second.disk.fingerprint
    assert first.counts == second.counts
