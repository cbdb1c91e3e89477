"""Whole clusters under faults, from many seeds; ``make sim ARGS=quorum SEEDS=1000`` tries more."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from barnabas.core.metadata.commits import CommitReader
from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.output import Output
from barnabas.runtime.applied_metadata import AppliedMetadata
from barnabas.testing.disk import Keep
from tests.simulation.cluster_faults import Trouble
from tests.simulation.cluster_support import run_scenario, run_seed
from tests.simulation.cluster_world import ClusterWorld
from tests.simulation.seeded import check_noticed, check_seeds

SEEDS = 6
PLANTED_SEEDS = 30
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
    "voters changed",
    "stay_away",
    "snapshot fetched",
)


def test_nothing_that_a_client_was_told_is_lost_and_the_cluster_heals_whatever_happens() -> None:
    check_seeds(run_seed, default=SEEDS, events=EVENTS)


# What seeds have found


def test_a_controller_whose_disk_is_full_takes_nothing_for_committed() -> None:
    """Its own registration was in its image without being in the log, where it stayed when another node led."""

    async def scenario(world: ClusterWorld, trouble: Trouble) -> None:
        for node in world.nodes:
            node.start()
        await trouble.until_whole("the start")
        for node in world.nodes:
            node.crash(Keep.NOTHING)
        one, other, _ = world.nodes
        one.start()
        other.start()
        await trouble.until(lambda: one.is_active or other.is_active)
        leader = one if one.is_active else other
        leader.disk.fail_write(count=None)
        await asyncio.sleep(3)
        assert one.image is not None
        assert other.image is not None
        assert one.image.nodes[leader.node_id] == other.image.nodes[leader.node_id]
        assert not leader.is_ready
        leader.disk.clear_faults()
        world.nodes[2].start()
        await trouble.until_whole("there is room again")
        world.checks.raise_broken()

    run_scenario(1, scenario, voters=3)


def cut_a_leader_off(seed: int) -> tuple[Counter[str], str]:
    """One run in which nothing else goes wrong."""

    async def scenario(world: ClusterWorld, trouble: Trouble) -> None:
        for node in world.nodes:
            node.start()
        await trouble.until_whole("the start")
        (leader,) = (node for node in world.nodes if node.is_active)
        others = [node for node in world.nodes if node is not leader]
        world.simulation.network.partition([leader.name], [node.name for node in others])
        await trouble.until(lambda: any(node.is_active for node in others))
        world.simulation.network.heal()
        await trouble.until_whole("a leader was cut off")
        world.checks.raise_broken()

    run_scenario(seed, scenario, voters=3)
    return Counter(), ""


def test_a_leader_that_was_cut_off_leads_no_more() -> None:
    cut_a_leader_off(1)


# Planted bugs


def serve_as_a_deposed_leader(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AppliedMetadata, "lead_no_more", lambda _applied: None)


def apply_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    appended = RaftNode.appended

    def and_commit(node: RaftNode, end_offset: int, *, epoch: int, now_ms: int) -> Output:
        output = appended(node, end_offset, epoch=epoch, now_ms=now_ms)
        output.high_watermark = end_offset
        return output

    patch.setattr(RaftNode, "appended", and_commit)


def glue_half_a_commit_to_the_next_leaders(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitReader, "_drop", lambda _reader: None)


def run_in_pieces(seed: int) -> tuple[Counter[str], str]:
    """A run in which commits are of several batches: only those can be halved."""
    return run_seed(2 * seed + 1)


@pytest.mark.parametrize(
    ("plant", "run"),
    [
        (serve_as_a_deposed_leader, cut_a_leader_off),
        (apply_before_it_is_committed, run_seed),
        (glue_half_a_commit_to_the_next_leaders, run_in_pieces),
    ],
)
def test_the_simulation_notices_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None],
    run: Callable[[int], tuple[Counter[str], str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)

    check_noticed(run, within=PLANTED_SEEDS)
