"""Whole clusters with records under faults, from many seeds; ``make sim ARGS=replicas SEEDS=1000`` tries more."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from barnabas.testing.disk import Keep
from tests.simulation import replicas_plants as plants
from tests.simulation.replicas_world import (
    GROUPS,
    RECORDS,
    TRANSACTIONS,
    ReplicasWorld,
    ReplicaTrouble,
    run_scenario,
    run_seed,
)
from tests.simulation.seeded import check_noticed, check_seeds
from tests.support.examples import LONG

SEEDS = 2
PLANTED_SEEDS = 24
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
    "committed by new",
    "committed by old",
    "committed",
    "synced",
    "fenced",
    "repeated",
    "stable",
)


def test_nothing_acknowledged_is_lost_and_all_replicas_are_the_same_in_the_end_whatever_happens() -> None:
    check_seeds(run_seed, default=SEEDS, events=EVENTS)


@pytest.mark.parametrize("keep", [Keep.NOTHING, Keep.RANDOM])
def test_after_a_power_cut_of_all_nodes_everything_acknowledged_is_there_and_served_by_itself(keep: Keep) -> None:
    async def scenario(world: ReplicasWorld, trouble: ReplicaTrouble) -> None:
        trouble.loads = (RECORDS,)
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


def run_only(
    *faults: str, first: int = 0, voters: int | None = None, loads: Sequence[str] = (RECORDS,)
) -> Callable[[int], tuple[Counter[str], str]]:
    """Runs in which only some things go wrong, for some clients, and of some seeds: what needs them is met soon."""

    def run(seed: int) -> tuple[Counter[str], str]:
        return run_seed(first + seed, *faults, voters=voters, loads=loads)

    return run


LEADERS = ("isolate_leader", "lose_leader")
CUT_S = 3.6
"""Long enough for another to lead and take records, and short enough for a request that waits for its answer."""


def cut_leaders_off(seed: int) -> tuple[Counter[str], str]:
    """A run in which leaders are cut off from the other nodes, one after the other, and come back."""

    async def scenario(world: ReplicasWorld, trouble: ReplicaTrouble) -> None:
        trouble.loads = (RECORDS,)
        await trouble.begin()
        for _ in range(4):
            await asyncio.sleep(0.7)
            await trouble.cut_a_leader_off(CUT_S)
        await trouble.end()

    return run_scenario(4 + seed, scenario, voters=3)


@pytest.mark.parametrize(
    ("plant", "run"),
    [
        (plants.acknowledge_before_the_sync, run_only()),
        (plants.count_what_a_follower_has_not_synced, run_only()),
        (plants.advance_with_too_few_in_sync, run_only()),
        (plants.count_what_diverges, run_only(first=2)),
        (plants.truncate_to_the_watermark, run_only()),
        (plants.grow_the_isr_too_early, run_only("lose_follower")),
        pytest.param(plants.lead_by_an_empty_log, run_only("lose_all_power"), marks=LONG),
        (plants.take_a_stale_broker_epoch, run_only("lose_follower", first=5)),
        (plants.acknowledge_by_offset_alone, cut_leaders_off),
        pytest.param(
            plants.drop_a_proposal_that_may_be_carried_out, run_only("lose_an_answer", first=5, voters=5), marks=LONG
        ),
        (plants.forget_producers_as_a_follower, run_only(*LEADERS, first=2)),
        (plants.elect_anybody, run_only(first=4)),
        (plants.take_every_retry_for_new, run_only(*LEADERS)),
        (plants.read_past_the_watermark, run_only()),
        (
            plants.answer_commits_by_the_leader_alone,
            run_only(*LEADERS, first=1, loads=(GROUPS,)),
        ),
        (plants.answer_before_the_log_is_read, run_only("lose_leader", loads=(GROUPS,))),
        (plants.forget_offsets_when_the_coordinator_moves, run_only("lose_leader", loads=(GROUPS,))),
        pytest.param(
            plants.lose_markers_when_the_coordinator_moves, run_only("lose_leader", loads=(TRANSACTIONS,)), marks=LONG
        ),
        pytest.param(
            plants.give_up_markers_that_are_refused, run_only(*LEADERS, first=4, loads=(TRANSACTIONS,)), marks=LONG
        ),
        (plants.show_what_is_not_stable, run_only("lose_leader", loads=(TRANSACTIONS,))),
    ],
)
def test_the_simulation_notices_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None],
    run: Callable[[int], tuple[Counter[str], str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)

    check_noticed(run, within=PLANTED_SEEDS)
