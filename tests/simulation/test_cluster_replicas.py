"""Whole clusters with records under faults, from many seeds; ``make sim ARGS=replicas SEEDS=1000`` tries more."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from barnabas.testing.disk import Keep
from tests.simulation import replicas_plants as plants
from tests.simulation.replicas_world import ReplicasWorld, ReplicaTrouble, run_scenario, run_seed
from tests.simulation.seeded import check_noticed, check_seeds, hash_in_another_process

SEEDS = 4
PLANTED_SEEDS = 12
EVENTS = (
    "acknowledged",
    "fetched",
    "ends found",
    "not the leader",
    "not enough replicas",
    "leader elected",
    "leader lost",
    "elected from ELR",
    "ISR shrinks",
    "ISR grows",
    "truncations",
    "truncated what it had taken as the leader",
    "reassigned",
    "deleted",
    "lose_power",
    "lose_all_power",
    "lose_leader",
    "isolate_leader",
    "stop_cleanly",
    "pause",
    "slow_disk",
)


def test_nothing_acknowledged_is_lost_and_all_replicas_are_the_same_in_the_end_whatever_happens() -> None:
    check_seeds(run_seed, default=SEEDS, events=EVENTS)


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_seed(1)[1] == hash_in_another_process(run_seed, 1)


@pytest.mark.parametrize("keep", [Keep.NOTHING, Keep.RANDOM])
def test_after_a_power_cut_of_all_nodes_everything_acknowledged_is_there_and_served_by_itself(keep: Keep) -> None:
    async def scenario(world: ReplicasWorld, trouble: ReplicaTrouble) -> None:
        await trouble.begin()
        for _ in range(2):
            await asyncio.sleep(2)
            for node in world.nodes:
                node.crash(keep)
            for node in world.nodes:
                node.start()
        await trouble.end()
        assert world.counts["acknowledged"] > 50

    run_scenario(1, scenario, voters=3)


# Planted bugs


def run_only(*faults: str, first: int = 0, voters: int | None = None) -> Callable[[int], tuple[Counter[str], str]]:
    """Runs in which only some things go wrong, and of some seeds: what needs them is met soon."""

    def run(seed: int) -> tuple[Counter[str], str]:
        return run_seed(first + seed, *faults, voters=voters)

    return run


@pytest.mark.parametrize(
    ("plant", "run"),
    [
        (plants.acknowledge_before_the_sync, run_seed),
        (plants.count_what_a_follower_has_not_synced, run_seed),
        (plants.advance_with_too_few_in_sync, run_seed),
        (plants.count_what_diverges, run_seed),
        (plants.truncate_to_the_watermark, run_seed),
        (plants.grow_the_isr_too_early, run_only("lose_follower")),
        (plants.lead_by_an_empty_log, run_only("lose_all_power")),
        (plants.take_a_stale_broker_epoch, run_only("lose_follower")),
        (plants.acknowledge_by_offset_alone, run_only("isolate_leader", first=3)),
        (plants.drop_a_proposal_that_may_be_carried_out, run_only("lose_an_answer", first=5, voters=5)),
        (plants.forget_producers_as_a_follower, run_only("isolate_leader", "lose_leader", first=2)),
        (plants.elect_anybody, run_only(first=4)),
    ],
)
def test_the_simulation_notices_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None],
    run: Callable[[int], tuple[Counter[str], str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)

    check_noticed(run, within=PLANTED_SEEDS)
