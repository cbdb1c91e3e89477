"""A leader that is cut off from the other nodes, but not from its clients: writes go on elsewhere, soon."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest

from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.broker_lease import BrokerLease
from barnabas.testing.simulation import Simulation
from barnabas.testing.wire_client import (
    WireClient,
    create_topic_request,
    fetch_request,
    init_producer_id_request,
    metadata_request,
    produce_request,
)
from barnabas.wire.apis import (
    CREATE_TOPICS,
    DESCRIBE_TOPIC_PARTITIONS,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    Api,
)
from barnabas.wire.writing import Values
from tests.simulation.cluster_clients import PORT
from tests.simulation.cluster_faults import Trouble
from tests.simulation.cluster_world import ClusterNode, ClusterWorld
from tests.simulation.seeded import seeds

SEEDS: Final = 2
SOON_S: Final = 10.0
"""What writes may take to go on, by the targets of this project."""
CUT_S: Final = 25.0
"""Less than a request may wait to be acknowledged (30 s, what most clients say)."""
PATIENCE_S: Final = 30.0
BACKOFF_S: Final = 0.1
NOT_LEADER: Final = 6
TOPIC: Final = "t"
SOLE: Final = "sole"
GROUP: Final = "g"

Cut = Callable[[ClusterWorld, ClusterNode], None]


class _World(ClusterWorld):
    properties = {  # noqa: RUF012 - as in the class that it extends
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        "offsets.topic.num.partitions": "3",
        "replica.lag.time.max.ms": "5000",
    }


class _UsualWorld(_World):
    """With the times that nodes have by default."""

    properties = {  # noqa: RUF012 - as in the class that it extends
        **_World.properties,
        "controller.quorum.election.timeout.ms": "1000",
        "controller.quorum.fetch.timeout.ms": "2000",
        "controller.quorum.request.timeout.ms": "2000",
        "controller.quorum.election.backoff.max.ms": "1000",
        "broker.heartbeat.interval.ms": "2000",
        "broker.session.timeout.ms": "9000",
    }


class _Client:
    """A client that is as patient as real ones, and asks any node where to go; or, as librdkafka does, always the node
    that it spoke to last.
    """

    def __init__(self, world: ClusterWorld, *, is_sticky: bool) -> None:
        self._nodes = {node.node_id: node for node in world.nodes}
        self._random: Random = world.simulation.random("client")
        self._is_sticky = is_sticky
        self._wires: dict[int, WireClient] = {}
        self._last = 1
        self._leader_epoch = -1
        self._leader: int | None = None
        self._coordinator: int | None = None
        self._topic_id: UUID | None = None
        self._producer_id = -1
        self._sequence = 0

    async def ask(self, node_id: int, api: Api, version: int, values: Values) -> Any:
        """The answer of a node; None if there is none."""
        self._last = node_id
        wire = self._wires.get(node_id)
        try:
            if wire is None or not wire.is_open:
                async with asyncio.timeout(1):
                    wire = self._wires[node_id] = await WireClient.connect(self._nodes[node_id].name, PORT)
            return await wire.ask(api, version, values, timeout_s=60)
        except (OSError, TimeoutError):
            self._last = self._random.choice(sorted(self._nodes))
            return None

    def _whom_to_ask(self) -> int:
        return self._last if self._is_sticky else self._random.choice(sorted(self._nodes))

    async def find_leader(self, topic: str = TOPIC) -> int | None:
        answer = await self.ask(self._whom_to_ask(), METADATA, 12, metadata_request([topic]))
        if answer is None or answer.topics[0].error_code:
            return None
        (found,) = answer.topics[0].partitions
        self._topic_id = answer.topics[0].topic_id
        if topic == TOPIC and found.leader_epoch < self._leader_epoch:
            return self._leader  # as clients do: what is older than what is known does not count
        self._leader_epoch = found.leader_epoch
        return None if found.leader_id < 0 else int(found.leader_id)

    async def write(self) -> int:
        """Write a record with acks=all and return once it is acknowledged: its offset."""
        while self._producer_id < 0:
            answer = await self.ask(self._whom_to_ask(), INIT_PRODUCER_ID, 4, init_producer_id_request())
            self._producer_id = -1 if answer is None or answer.error_code else answer.producer_id
        record = Record(0, 1_750_000_000_000, None, b"%d" % self._sequence)
        batch = encode_batch([record], producer_id=self._producer_id, producer_epoch=0, base_sequence=self._sequence)
        while True:
            if self._leader is None:
                self._leader = await self.find_leader()
            if self._leader is not None:
                request = produce_request({self._topic_id: {0: bytes(batch)}})
                answer = await self.ask(self._leader, PRODUCE, 13, request)
                found = None if answer is None else answer.responses[0].partition_responses[0]
                if found is not None and found.error_code == 0:
                    self._sequence += 1
                    return int(found.base_offset)
                self._leader = None
            await asyncio.sleep(BACKOFF_S)

    async def commit(self) -> None:
        """Commit an offset of the group, and return once that is answered."""
        partition = {"partition_index": 0, "committed_offset": self._sequence, "committed_metadata": ""}
        request: Any = {
            "group_id": GROUP,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": TOPIC, "partitions": [partition]}],
        }
        while True:
            if self._coordinator is None:
                found = await self.ask(self._whom_to_ask(), FIND_COORDINATOR, 3, {"key": GROUP, "key_type": 0})
                self._coordinator = None if found is None or found.error_code else found.node_id
            if self._coordinator is not None:
                answer = await self.ask(self._coordinator, OFFSET_COMMIT, 8, request)
                if answer is not None and answer.topics[0].partitions[0].error_code == 0:
                    return
                self._coordinator = None
            await asyncio.sleep(BACKOFF_S)

    async def coordinator(self) -> int:
        await self.commit()
        assert self._coordinator is not None
        return self._coordinator

    @property
    def leader(self) -> int:
        assert self._leader is not None
        return self._leader

    @property
    def topic_id(self) -> UUID | None:
        return self._topic_id

    def close(self) -> None:
        for each in self._wires.values():
            each.close()


Scenario = Callable[[ClusterWorld, Trouble, _Client], Awaitable[None]]


def run_scenario(
    seed: int,
    scenario: Scenario,
    *,
    is_sticky: bool = True,
    commits: bool = True,
    kind: type[ClusterWorld] = _World,
) -> None:
    """`commits`: whether there is a group as well."""
    with Simulation(seed) as simulation:
        world = kind(simulation, voters=3)

        async def run() -> None:
            async with asyncio.TaskGroup() as tasks:
                for node in world.nodes:
                    node.start()
                trouble = Trouble(world, tasks)
                await trouble.until_whole("the start")
                client = _Client(world, is_sticky=is_sticky)
                for name, replicas in ((TOPIC, 3), (SOLE, 1)):
                    request: Any = create_topic_request(name)
                    request["topics"][0]["replication_factor"] = replicas
                    created = await client.ask(1, CREATE_TOPICS, 7, request)
                    assert created.topics[0].error_code == 0
                await client.write()
                if commits:
                    await client.commit()
                await trouble.until_whole("topics are there")
                await scenario(world, trouble, client)
                client.close()

        simulation.run(run)


def _leader_at(node: ClusterNode) -> int | None:
    """Who leads, as a node knows it."""
    return None if node.image is None else node.image.topics[TOPIC].partitions[0].leader


def _others(world: ClusterWorld, node: ClusterNode) -> list[str]:
    return [each.name for each in world.nodes if each is not node]


def cut_both_ways(world: ClusterWorld, node: ClusterNode) -> None:
    world.simulation.network.partition([node.name], _others(world, node), drop=True)


def cut_its_way(world: ClusterWorld, node: ClusterNode) -> None:
    """What it sends to the others is lost."""
    world.simulation.network.partition([node.name], _others(world, node), drop=True, one_way=True)


def cut_their_way(world: ClusterWorld, node: ClusterNode) -> None:
    """What the others send to it is lost."""
    world.simulation.network.partition(_others(world, node), [node.name], drop=True, one_way=True)


async def within(seconds: float, work: Awaitable[object]) -> None:
    async with asyncio.timeout(seconds):
        await work


@pytest.mark.parametrize("is_sticky", [False, True])
@pytest.mark.parametrize("cut", [cut_both_ways, cut_its_way, cut_their_way])
def test_writes_go_on_within_ten_seconds_when_a_leader_is_cut_off(cut: Cut, is_sticky: bool) -> None:
    async def scenario(world: ClusterWorld, trouble: Trouble, client: _Client) -> None:
        offset = await client.write()
        deposed = client.leader
        cut(world, world.nodes[deposed - 1])
        async with asyncio.timeout(SOON_S):
            assert await client.write() == offset + 1
        assert client.leader != deposed
        world.simulation.network.heal()
        assert await client.write() == offset + 2
        await trouble.until_whole("it is mended")

    for seed in seeds(default=SEEDS):
        run_scenario(seed, scenario, is_sticky=is_sticky)


def test_another_leads_within_ten_seconds_by_default_where_a_leader_that_is_cut_off_was_the_controller() -> None:
    found: list[bool] = []

    async def scenario(world: ClusterWorld, trouble: Trouble, client: _Client) -> None:
        await client.write()
        deposed = world.nodes[client.leader - 1]
        found.append(deposed.is_active)
        if deposed.is_active:
            cut_both_ways(world, deposed)
            others = [node for node in world.nodes if node is not deposed]
            await within(SOON_S, trouble.until(lambda: _leader_at(others[0]) not in (None, deposed.node_id)))
            await client.write()

    for seed in range(20):
        if sum(found) < SEEDS:
            run_scenario(seed, scenario, commits=False, kind=_UsualWorld)
    assert sum(found) == SEEDS


@pytest.mark.parametrize("is_sticky", [False, True])
@pytest.mark.parametrize("cut", [cut_both_ways, cut_their_way])
def test_a_group_is_coordinated_elsewhere_within_ten_seconds_when_its_coordinator_is_cut_off(
    cut: Cut, is_sticky: bool
) -> None:
    async def scenario(world: ClusterWorld, trouble: Trouble, client: _Client) -> None:
        deposed = await client.coordinator()
        cut(world, world.nodes[deposed - 1])
        await within(SOON_S, client.commit())
        assert await client.coordinator() != deposed
        world.simulation.network.heal()
        await within(SOON_S, client.commit())
        await trouble.until_whole("it is mended")

    for seed in seeds(default=SEEDS):
        run_scenario(seed, scenario, is_sticky=is_sticky)


def test_a_leader_that_is_cut_off_refuses_records_at_once_and_serves_what_is_committed() -> None:
    async def scenario(world: ClusterWorld, _trouble: Trouble, client: _Client) -> None:
        await client.write()
        leader = client.leader
        cut_both_ways(world, world.nodes[leader - 1])
        await asyncio.sleep(5)
        batch = bytes(encode_batch([Record(0, 0, None, b"v")]))
        for acks in (-1, 1):
            answer = await client.ask(leader, PRODUCE, 13, produce_request({client.topic_id: {0: batch}}, acks=acks))
            refused = answer.responses[0].partition_responses[0]
            assert refused.error_code == NOT_LEADER
            assert refused.current_leader.leader_id == -1  # it does not know who leads, and must not name itself
        fetched = await client.ask(leader, FETCH, 13, fetch_request({client.topic_id: {0: 0}}))
        (found,) = fetched.responses[0].partitions
        assert (found.error_code, found.high_watermark) == (0, 2)
        assert found.records
        asked: Any = {"topics": [{"name": TOPIC}], "response_partition_limit": 10, "cursor": None}
        described = await client.ask(leader, DESCRIBE_TOPIC_PARTITIONS, 0, asked)
        assert described.topics[0].partitions[0].leader_id == -1

    run_scenario(1, scenario)


def test_the_only_replica_of_a_partition_takes_records_wherever_it_is_cut_off() -> None:
    async def scenario(world: ClusterWorld, _trouble: Trouble, client: _Client) -> None:
        leader = await client.find_leader(SOLE)
        topic_id = client.topic_id
        assert leader is not None
        cut_both_ways(world, world.nodes[leader - 1])
        await asyncio.sleep(5)
        found = await client.ask(leader, METADATA, 12, metadata_request([SOLE]))
        assert found.topics[0].partitions[0].leader_id == leader
        batch = bytes(encode_batch([Record(0, 0, None, b"v")]))
        answer = await client.ask(leader, PRODUCE, 13, produce_request({topic_id: {0: batch}}))
        assert answer.responses[0].partition_responses[0].error_code == 0

    run_scenario(1, scenario)


def test_a_leader_whose_followers_fetch_goes_on_without_a_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerLease, "holds", lambda _lease: False)  # as if none had answered for long

    async def scenario(_world: ClusterWorld, _trouble: Trouble, client: _Client) -> None:
        leader = client.leader
        for _ in range(5):
            await asyncio.sleep(2)
            await within(1, client.write())
            assert await client.find_leader() == client.leader == leader

    run_scenario(1, scenario, commits=False)
