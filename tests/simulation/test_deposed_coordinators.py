"""A coordinator that stands still is replaced; when it wakes it answers nothing, though it has not heard of it yet."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from barnabas.core.errors import NotCoordinator
from barnabas.runtime.replica import Replica
from barnabas.testing.simulation import Simulation
from barnabas.testing.wire_client import WireClient, create_topic_request
from barnabas.wire.apis import (
    CREATE_TOPICS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from tests.simulation.cluster_clients import PORT
from tests.simulation.cluster_faults import Trouble
from tests.simulation.cluster_world import ClusterNode, ClusterWorld
from tests.simulation.seeded import seeds

SEEDS: Final = 3
GROUPS: Final = 40
PATIENCE_S: Final = 30.0
LOOK_S: Final = 0.1
NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = NotCoordinator.kafka_code

Scenario = Callable[[ClusterWorld, Trouble], Awaitable[None]]


def run_scenario(seed: int, scenario: Scenario) -> None:
    """Three nodes, of which all are controllers."""
    with Simulation(seed) as simulation:
        world = ClusterWorld(simulation, voters=3)

        async def run() -> None:
            async with asyncio.TaskGroup() as tasks:
                for node in world.nodes:
                    node.start()
                trouble = Trouble(world, tasks)
                await trouble.until_whole("the start")
                async with connected(world.nodes[0]) as client:
                    created = await client.ask(CREATE_TOPICS, 7, create_topic_request("t"))
                assert created.topics[0].error_code == 0
                await trouble.until_whole("a topic is there")
                await scenario(world, trouble)

        simulation.run(run)


@asynccontextmanager
async def connected(node: ClusterNode) -> AsyncIterator[WireClient]:
    client = await WireClient.connect(node.name, PORT)
    try:
        yield client
    finally:
        client.close()


async def coordinator_of(group: str, among: list[ClusterNode]) -> ClusterNode | None:
    """Who coordinates a group, as these nodes say; None while they do not agree on one of them."""
    found = set()
    for node in among:
        async with connected(node) as client:
            answer = await client.ask(FIND_COORDINATOR, 3, {"key": group, "key_type": 0})
        found.add(answer.node_id if answer.error_code == 0 else -1)
    nodes = [node for node in among if {node.node_id} == found]
    return nodes[0] if nodes else None


def commit_of(group: str, offset: int) -> dict[str, Any]:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": "t", "partitions": [partition]}],
    }


def fetch_of(group: str) -> dict[str, Any]:
    return {"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}], "require_stable": False}


async def commit(client: WireClient, group: str, offset: int) -> int:
    answer = await client.ask(OFFSET_COMMIT, 8, commit_of(group, offset))
    return int(answer.topics[0].partitions[0].error_code)


async def find_group(world: ClusterWorld, *, on_controller: bool) -> tuple[str, ClusterNode]:
    """A group that is coordinated by the active controller's node, or by another."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for number in range(GROUPS):
                node = await coordinator_of(f"group{number}", world.nodes)
                if node is not None and node.is_active is on_controller:
                    async with connected(node) as client:
                        if await commit(client, f"group{number}", 1) == 0:
                            return f"group{number}", node
            await asyncio.sleep(LOOK_S)


async def commit_elsewhere(world: ClusterWorld, group: str, offset: int, *, but: ClusterNode) -> ClusterNode:
    """Commit where the others say that the group is coordinated; returns by whom it was taken."""
    others = [node for node in world.nodes if node is not but]
    async with asyncio.timeout(PATIENCE_S):
        while True:
            node = await coordinator_of(group, others)
            if node is not None:
                async with connected(node) as client:
                    if await commit(client, group, offset) == 0:
                        return node
            await asyncio.sleep(LOOK_S)


async def answers_of_a_woken_coordinator(world: ClusterWorld, *, on_controller: bool) -> list[int]:
    """What a coordinator answers to requests that came while it stood still, another having taken a commit."""
    group, node = await find_group(world, on_controller=on_controller)
    async with connected(node) as client:
        assert (await client.ask(OFFSET_FETCH, 7, fetch_of(group))).topics[0].partitions[0].committed_offset == 1
        node.pause()
        await commit_elsewhere(world, group, 2, but=node)
        fetched = client.send(OFFSET_FETCH, 7, fetch_of(group))
        described = client.send(DESCRIBE_GROUPS, 5, {"groups": [group], "include_authorized_operations": False})
        listed = client.send(LIST_GROUPS, 4, {"states_filter": []})
        node.resume()
        answers = [(await fetched), (await described).groups[0], (await listed)]
    return [int(each.error_code) for each in answers]


@pytest.mark.parametrize("on_controller", [False, True])
def test_a_coordinator_that_wakes_answers_nothing_from_before(on_controller: bool) -> None:
    async def scenario(world: ClusterWorld, trouble: Trouble) -> None:
        codes = await answers_of_a_woken_coordinator(world, on_controller=on_controller)
        # Of the list it may have heard by then that it leads nothing any more: then the list is empty.
        assert codes[:2] == [NOT_COORDINATOR] * 2
        assert codes[2] in (0, NOT_AVAILABLE, NOT_COORDINATOR)
        await trouble.until_whole("it is back")

    for seed in seeds(default=SEEDS):
        run_scenario(seed, scenario)


def test_without_the_lease_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "may_answer", True)
    codes: list[int] = []

    async def scenario(world: ClusterWorld, _trouble: Trouble) -> None:
        codes.extend((await answers_of_a_woken_coordinator(world, on_controller=False))[:2])

    for seed in range(SEEDS):
        run_scenario(seed, scenario)

    assert 0 in codes


def test_a_coordinator_that_no_controller_can_hear_answers_until_its_lease_is_over_and_again_when_one_can() -> None:
    async def scenario(world: ClusterWorld, _trouble: Trouble) -> None:
        group, node = await find_group(world, on_controller=False)
        others = [each.name for each in world.nodes if each is not node]
        async with connected(node) as client:
            world.simulation.network.partition([node.name], others)
            assert (await client.ask(OFFSET_FETCH, 7, fetch_of(group))).error_code == 0
            await asyncio.sleep(3)
            assert (await client.ask(OFFSET_FETCH, 7, fetch_of(group))).error_code == NOT_COORDINATOR
        world.simulation.network.heal()
        await commit_elsewhere(world, group, 2, but=node)
        await wait_read(world, group, 2)

    run_scenario(1, scenario)


async def wait_read(world: ClusterWorld, group: str, offset: int) -> None:
    """Return when the coordinator of a group says that this is committed."""
    async with asyncio.timeout(PATIENCE_S):
        found = await reads(world, group)
        while found != offset:
            await asyncio.sleep(LOOK_S)
            found = await reads(world, group)


async def reads(world: ClusterWorld, group: str) -> int | None:
    """The offset of a group, as its coordinator says now."""
    node = await coordinator_of(group, world.nodes)
    if node is None:
        return None
    async with connected(node) as client:
        answer = await client.ask(OFFSET_FETCH, 7, fetch_of(group))
    return None if answer.error_code else int(answer.topics[0].partitions[0].committed_offset)
