"""Keeping ISRs: what is proposed when, and what an answer of the controller leads to."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest

from barnabas.core.errors import (
    BarnabasError,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    StaleBrokerEpoch,
    StorageError,
)
from barnabas.core.fetched import FetchPartition
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.isr import IsrChange
from barnabas.core.metadata.records import NodeRecord
from barnabas.services.in_sync import InSync
from tests.unit.runtime.replicating.replica_support import BROKER_EPOCH, FOLLOWER, LEADER, Side, in_loop
from tests.unit.runtime.test_partition_transactions import InPlace

MAX_LAG_MS = 10_000


class Controllers:
    """`Membership` as far as ISRs need it."""

    def __init__(self) -> None:
        self.asked: list[list[IsrChange]] = []
        self.answers: list[BarnabasError | None] = []
        self.is_whole = False  # whether the next answer is to the request, not to a partition

    async def alter_partitions(self, changes: Sequence[IsrChange]) -> list[BarnabasError | None]:
        self.asked.append(list(changes))
        answer = self.answers.pop(0) if self.answers else None
        if self.is_whole and answer is not None:
            raise answer
        return [answer for _ in changes]


class World:
    """A leader of two replicas, of which one is not in sync yet, and its keeper."""

    def __init__(self) -> None:
        self.leader = Side(LEADER)
        self.controllers = Controllers()
        membership: Any = self.controllers
        self.keeper = InSync(self.leader.logs, membership, InPlace(), Image(), max_lag_ms=MAX_LAG_MS)
        self._running = asyncio.get_running_loop().create_task(self.keeper.run())

    async def __aenter__(self) -> "World":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    def fetch(self, offset: int) -> None:
        wanted = FetchPartition(0, self.leader.partition.leader_epoch, offset, -1, 1000, offset)
        self.leader.partition.note_fetch(FOLLOWER, wanted, broker_epoch=BROKER_EPOCH)

    @property
    def proposed(self) -> list[list[int]]:
        return [[node for node, _ in change.isr] for changes in self.controllers.asked for change in changes]


def test_a_follower_that_has_caught_up_is_proposed_at_once() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.leader.lead(0, isr=(LEADER,))
            world.leader.append(b"a")
            world.leader.flush()
            await asyncio.sleep(0.05)
            assert world.proposed == []
            world.fetch(1)
            await asyncio.sleep(0.05)
            assert world.proposed == [[LEADER, FOLLOWER]]

    in_loop(scenario)


def test_a_follower_that_lags_is_proposed_to_leave() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.leader.lead()
            world.leader.append(b"a")
            await asyncio.sleep(MAX_LAG_MS / 1000)
            assert world.proposed == []
            await asyncio.sleep(MAX_LAG_MS / 1000)
            assert world.proposed == [[LEADER]]

    in_loop(scenario)


def test_a_proposal_that_was_taken_is_not_repeated() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.leader.lead(0, isr=(LEADER,))
            for _ in range(5):
                world.fetch(0)
                await asyncio.sleep(0.5)
            assert world.proposed == [[LEADER, FOLLOWER]]

    in_loop(scenario)


@pytest.mark.parametrize(
    "error", [NotController("moved"), StaleBrokerEpoch("registers again"), StorageError("the disk of the controller")]
)
def test_a_proposal_without_a_clear_answer_is_repeated(error: BarnabasError) -> None:
    async def scenario() -> None:
        async with World() as world:
            world.controllers.is_whole, world.controllers.answers = True, [error]
            world.leader.lead(0, isr=(LEADER,))
            world.fetch(0)
            await asyncio.sleep(1)
            first, second = world.controllers.asked
            assert first == second

    in_loop(scenario)


def test_a_refused_proposal_is_made_again_when_the_follower_fetches() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.leader.lead(0, isr=(LEADER,))
            world.controllers.answers = [InvalidRequest("no")]
            world.fetch(0)
            await asyncio.sleep(1)
            assert world.proposed == [[LEADER, FOLLOWER]]
            world.fetch(0)
            await asyncio.sleep(1)
            assert world.proposed == [[LEADER, FOLLOWER]] * 2

    in_loop(scenario)


def test_a_replica_that_is_not_eligible_counts_until_the_metadata_say_so_too() -> None:
    """An earlier try may have been carried out before the replica was fenced: then the metadata bring that first."""

    async def scenario() -> None:
        async with World() as world:
            world.leader.lead(0, isr=(LEADER,))
            world.leader.append(b"a")
            world.leader.flush()
            world.controllers.answers = [IneligibleReplica("fenced")] * 1000
            world.fetch(1)
            await asyncio.sleep(1)
            world.leader.append(b"b")
            world.leader.flush()
            await asyncio.sleep(3 * MAX_LAG_MS / 1000)
            assert world.leader.partition.high_watermark == 1
            asked = len(world.controllers.asked)
            assert asked > 2

            del world.leader.logs.replicas.active[FOLLOWER]
            await asyncio.sleep(1)

            assert world.leader.partition.high_watermark == 2
            assert len(world.controllers.asked) <= asked + 2

    in_loop(scenario)


def test_a_proposal_that_may_have_been_carried_out_counts_until_the_metadata_tell() -> None:
    """A second try is refused as outdated if the first was carried out: the follower may be in the ISR by then."""

    async def scenario() -> None:
        async with World() as world:
            world.controllers.answers = [InvalidUpdateVersion("outdated")]
            world.leader.lead(0, isr=(LEADER,))
            world.leader.append(b"a")
            world.leader.flush()
            world.fetch(1)
            await asyncio.sleep(1)
            world.leader.append(b"b")
            world.leader.flush()
            await asyncio.sleep(3 * MAX_LAG_MS / 1000)
            assert world.leader.partition.high_watermark == 1

            world.leader.lead(0, isr=(LEADER,), partition_epoch=1)
            assert world.leader.partition.high_watermark == 2

    in_loop(scenario)


def test_nodes_that_are_fenced_are_not_active() -> None:
    async def scenario() -> None:
        async with World() as world:
            active = world.leader.logs.replicas.active
            node = NodeRecord(3, "127.0.0.1", 9092, None, UUID(int=3), epoch=9)
            world.keeper.apply([node])
            assert active.get(3) == 9
            world.keeper.apply([msgspec.structs.replace(node, is_fenced=True)])
            assert 3 not in active

    in_loop(scenario)
