"""The active controller notices at once that a broker's process has ended."""

import asyncio

import pytest

from barnabas.services.watching import TOLD_AFTER, Watching
from tests.unit.services.cluster_world import SESSION_MS, ClusterWorld, run


class Brokers:
    """The way to brokers: those that are up accept, those that are gone refuse, those cut off do not answer."""

    def __init__(self) -> None:
        self.gone: set[int] = set()
        self.cut_off: set[int] = set()
        self.held: dict[int, asyncio.Future[None]] = {}

    async def hold(self, node_id: int) -> "asyncio.Future[None]":
        if node_id in self.cut_off:
            raise TimeoutError
        if node_id in self.gone:
            raise ConnectionRefusedError
        self.held[node_id] = asyncio.get_running_loop().create_future()
        return self.held[node_id]

    def end(self, node_id: int) -> None:
        """Its process ends, and with it the connection."""
        self.gone.add(node_id)
        self.held[node_id].set_result(None)


def watched(world: ClusterWorld, brokers: Brokers, node_id: int = 1) -> None:
    """Have a node watch, whenever it is the active controller."""
    watching = Watching(world.metadata[node_id], world.controllers[node_id], brokers, node_id=node_id)
    world.tasks.append(world.begin(watching.run()))


def test_a_broker_whose_process_ends_is_fenced_long_before_its_session_does() -> None:
    async def scenario(world: ClusterWorld) -> None:
        brokers = Brokers()
        watched(world, brokers)
        await world.let_in(3)
        await asyncio.sleep(0.1)
        brokers.end(3)
        await asyncio.sleep(0.1)
        assert world.image.nodes[3].is_fenced

    run(scenario)


def test_a_broker_that_is_cut_off_keeps_its_session() -> None:
    async def scenario(world: ClusterWorld) -> None:
        brokers = Brokers()
        brokers.cut_off.add(3)
        watched(world, brokers)
        await world.let_in(3)
        await asyncio.sleep(SESSION_MS / 2000)
        assert not world.image.nodes[3].is_fenced

    run(scenario)


def test_a_connection_that_ends_is_made_again() -> None:
    async def scenario(world: ClusterWorld) -> None:
        brokers = Brokers()
        watched(world, brokers)
        await world.let_in(3)
        await asyncio.sleep(0.1)
        first = brokers.held[3]
        first.set_result(None)
        await asyncio.sleep(0.1)
        assert brokers.held[3] is not first
        assert not world.image.nodes[3].is_fenced

    run(scenario)


def test_a_new_controller_finds_out_who_is_gone_already() -> None:
    async def scenario(world: ClusterWorld) -> None:
        brokers = Brokers()
        watched(world, brokers, 2)
        await world.let_in(3)
        brokers.gone.add(3)
        await asyncio.sleep(1)
        assert not world.image.nodes[3].is_fenced
        world.log.elect(world.metadata[2])
        await asyncio.sleep(0.1)
        assert world.metadata[2].image.nodes[3].is_fenced

    run(scenario)


def test_a_broker_that_was_fenced_by_mistake_is_let_in_again_by_its_heartbeat() -> None:
    async def scenario(world: ClusterWorld) -> None:
        brokers = Brokers()
        watched(world, brokers)
        await world.join(3)
        await asyncio.sleep(0.1)
        brokers.end(3)
        epochs = len(world.log.records)
        await asyncio.sleep(2 * SESSION_MS / 1000)
        assert not world.image.nodes[3].is_fenced
        assert len(world.log.records) - epochs <= 4, "it is fenced and let in again and again"

    run(scenario)


def test_a_broker_that_lives_where_nobody_reaches_it_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: ClusterWorld) -> None:
        brokers = Brokers()
        brokers.cut_off.add(3)
        watched(world, brokers)
        await world.join(3)
        await asyncio.sleep(TOLD_AFTER * 3)

    run(scenario)
    told = [each.getMessage() for each in caplog.records if "cannot be reached" in each.getMessage()]
    assert len(told) == 1
    assert "broker 3 sends heartbeats, but cannot be reached where it says that it listens" in told[0]
    assert "Correct advertised.listeners of that node" in told[0]
