"""A whole cluster with replicas in simulation: three or five of the very nodes that are shipped, with records.

    PYTHONPATH=. python -m tests.simulation.replicas_world 42

Producers of every kind write, consumers read, topics are created, moved and deleted, while nodes lose power, one, some
or all at once, die, stop, stand still and are cut off, and disks are slow, full and fail. What must hold is checked
whenever a watermark moves and whenever the metadata change (`replicas_truth`), and what clients are told at the moment
they are told (`replicas_clients`). Then all faults are over: within bounded virtual time every partition has a leader
and all its replicas in sync, writes succeed, and all replicas are the same, byte for byte.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final

import msgspec

from barnabas.core.metadata.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from barnabas.core.metadata.records import NO_LEADER
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.testing.disk import Keep, SimulatedCrash
from barnabas.testing.link import NetworkConfig
from barnabas.testing.simulation import Simulation
from barnabas.testing.wire_client import ACKS_ALL
from barnabas.wire.apis import Api
from tests.simulation.cluster_faults import HEALING_S, LOOK_S, Trouble
from tests.simulation.cluster_world import DATA, ClusterNode, ClusterWorld
from tests.simulation.node_history import Violation
from tests.simulation.replicas_admin import Administrator
from tests.simulation.replicas_bank import TOPICS as BANK_TOPICS
from tests.simulation.replicas_bank import BankClients, BankWorld
from tests.simulation.replicas_clients import Consumer, Producer, Target, Topic
from tests.simulation.replicas_groups import PROPERTIES as GROUP_PROPERTIES
from tests.simulation.replicas_groups import TOPICS as GROUP_TOPICS
from tests.simulation.replicas_groups import GroupClients, GroupsWorld
from tests.simulation.replicas_liveness import Liveness
from tests.simulation.replicas_logs import LogView
from tests.simulation.replicas_truth import Promise, Truth, watched
from tests.simulation.replicas_ways import GROUP, PARTITIONS, TRANSACTION
from tests.simulation.share_support import LIMIT, LOCK_MS

MAX_STEPS: Final = 6_000_000
FAULTS_S: Final = 12.0
NETWORK: Final = NetworkConfig(spike_chance=0.01, reset_chance=0.0003, refuse_chance=0.01)
LAG_MS: Final = 1500
RECORDS: Final = "records"
TRANSACTIONS: Final = "transactions"
GROUPS: Final = "groups"
LOADS: Final = (RECORDS, TRANSACTIONS, GROUPS)
"""What clients do; a run can do with some of it."""
INTERNAL: Final = {
    OFFSETS_TOPIC: Promise(3, 2, has_values=False),
    TRANSACTIONS_TOPIC: Promise(3, 2, has_values=False),
    SHARE_STATE_TOPIC: Promise(3, 2, has_values=False),
}
PROPERTIES: Final = {
    **GROUP_PROPERTIES,
    "offsets.topic.num.partitions": str(PARTITIONS[GROUP]),
    "transaction.state.log.num.partitions": str(PARTITIONS[TRANSACTION]),
    "min.insync.replicas": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.delivery.count.limit": str(LIMIT),
}


class ReplicasWorld(ClusterWorld):
    """All nodes and clients, and the truth that they are checked against."""

    properties = PROPERTIES

    def __init__(self, simulation: Simulation, *, voters: int | None = None) -> None:
        count = voters or simulation.random("size").choice((3, 3, 3, 5))
        super().__init__(simulation, voters=count)
        self.views = {node.node_id: LogView(node.disk, DATA) for node in self.nodes}
        self.checks = self.truth = Truth(self.counts, self.views)
        self.truth.promises.update(INTERNAL)
        self.clients = []
        self.topics: list[Topic] = []
        self.other_topics: list[Topic] = []
        self.is_over = False
        self.took_s: dict[str, float] = {}
        self.bank = BankWorld(self)
        self.groups = GroupsWorld(self)
        self.on_answer: Callable[[Api, ClusterNode], None] = lambda _api, _node: None
        """Called when a client was told something that must hold from then on."""

    def _config(self, node: ClusterNode, snapshot_bytes: int) -> BrokerConfig:
        config = super()._config(node, snapshot_bytes)
        replicas = msgspec.structs.replace(
            config.replicas,
            replica_lag_time_max_ms=LAG_MS,
            replica_fetch_wait_max_ms=300,
            replica_fetch_backoff_ms=200,
            replica_socket_timeout_ms=1500,
            replica_fetch_max_bytes=self.random.choice((500, 1_000_000)),
            replica_high_watermark_checkpoint_interval_ms=700,
            leader_imbalance_check_interval_seconds=3,
        )
        return msgspec.structs.replace(config, replicas=replicas)

    # What clients ask

    def note_answer(self, api: Api, node_id: int) -> None:
        self.on_answer(api, self.nodes[node_id - 1])

    def addresses(self) -> Sequence[ClusterNode]:
        return self.nodes

    def random_for(self, name: str) -> Random:
        return self.simulation.random(name)

    # Whether all is well

    def why_not_in_sync(self) -> str | None:
        """What is missing for partitions that all lead and all follow; None if nothing is."""
        live = {topic.topic_id for topic in (*self.topics, *self.other_topics) if not topic.may_be_gone}
        for key, state in self.truth.states.items():
            if key[0] not in live and self.truth.names[key].topic not in INTERNAL:
                continue
            if state.leader == NO_LEADER or set(state.isr) != set(state.replicas) or state.adding or state.removing:
                return f"{self.truth.names[key]} is {state}"
            log = self.truth.logs.get(key)
            if log is None:
                continue
            is_durable = log.promise.is_synced
            ends = {node: self.views[node].end_offset(log.name, is_durable=is_durable) for node in state.replicas}
            if set(ends.values()) != {log.end_offset}:
                return f"{log.name} is committed to {log.end_offset} and on disk to {ends}"
        return None

    def check_logs(self) -> None:
        """All replicas are what was committed, byte for byte."""
        for key, log in self.truth.logs.items():
            state = self.truth.states.get(key)
            for node in () if state is None else state.replicas:
                found = self.views[node].batches(log.name, is_durable=log.promise.is_synced)
                if found != log.batches:
                    raise Violation(f"{log.name} on node {node} is not what was committed")


class ReplicaTrouble(Trouble):
    """One run: what `Trouble` does, and what only replicas suffer from."""

    def __init__(self, world: ReplicasWorld, tasks: asyncio.TaskGroup) -> None:
        super().__init__(world, tasks)
        self.world = world
        self.bank = BankClients(world.bank)
        self.groups = GroupClients(world.groups)
        self.loads: Sequence[str] = LOADS
        self._working: list[asyncio.Task[None]] = []
        self._faults = (
            (self._lose_power, 2),
            (self._lose_power_soon, 2),
            (self._stop_cleanly, 2),
            (self._pause, 2),
            (self._cut_off, 1),
            (self._split, 1),
            (self._slow_links, 1),
            (self._reset, 1),
            (self._slow_disk, 2),
            (self._fill_disk, 0.5),
            (self._break_disk, 0.5),
            (self._jump, 0.5),
            (self._lose_all_power, 1.5),
            (self._lose_leader, 3),
            (self._isolate_leader, 3),
            (self._lose_follower, 1),
            (self._lose_an_answer, 1),
            (self._change_voters, 2),
        )

    def suffer_only(self, *names: str) -> None:
        """Have nothing else go wrong, and these as often as one another."""
        self._faults = tuple((fault, 1) for fault, _ in self._faults if fault.__name__.strip("_") in names)

    async def run(self) -> None:
        await self.begin()
        await self.suffer()
        await self.end()

    async def suffer(self) -> None:
        """Have things go wrong, and then nothing any more."""
        breaking = await self._break_things()
        self._is_over = True
        await self._heal(breaking)

    async def begin(self) -> None:
        """Start nodes and clients."""
        world = self.world
        for node in world.nodes:
            node.start()
        await self.until_whole("the start")
        admin = Administrator(world)
        await admin.create_all()
        if TRANSACTIONS in self.loads:
            for name, (partitions, promise) in BANK_TOPICS.items():
                world.bank.add(await admin.create_other(name, partitions, promise))
            self.bank.start(self._tasks)
        if GROUPS in self.loads:
            for name, (partitions, promise) in GROUP_TOPICS.items():
                world.groups.add(await admin.create_other(name, partitions, promise))
            self.groups.start(self._tasks)
        clients: list[Producer | Consumer | Administrator] = [admin]
        if RECORDS in self.loads:
            clients += self._producers()
            clients += [Consumer(world, f"consumer{number}") for number in range(2)]
        self._working = [self._tasks.create_task(client.run()) for client in clients]

    async def end(self) -> None:
        """All faults are over: everything is well soon, and all that was promised is there."""
        world = self.world
        await self.until_whole("healing")
        await self._serve_anybody()
        if GROUPS in self.loads:
            async with self.soon("all groups are stable"):
                await self.groups.check()
            async with self.soon("all members are done"):
                await self.groups.end()
        world.is_over = True
        await self.bank.kill()
        async with self.soon("every client is done"):
            await asyncio.gather(*self._working)
        if RECORDS in self.loads:
            await self._write_everywhere()
        await self.until_in_sync()
        if RECORDS in self.loads:
            await self._read_everything()
        if TRANSACTIONS in self.loads:
            await self._settle_the_bank()
        await self.until_in_sync()
        world.check_logs()
        world.checks.raise_broken()

    async def _serve_anybody(self) -> None:
        if set(self.loads) == set(LOADS):
            liveness = Liveness(self.world, self.world.bank, self.world.groups)
            await liveness.check()
            self.world.took_s = liveness.took_s

    async def _settle_the_bank(self) -> None:
        async with self.soon("the bank is settled"):
            await self.bank.check()
        async with self.soon("every transactional id is used again"):
            await self.bank.use_again()
        await self.bank.check()

    def _producers(self) -> list[Producer]:
        world = self.world
        return [
            Producer(world, "all0", acks=ACKS_ALL, is_idempotent=True),
            Producer(world, "all1", acks=ACKS_ALL, is_idempotent=True),
            Producer(world, "plain", acks=ACKS_ALL, is_idempotent=False),
            Producer(world, "one0", acks=1, is_idempotent=True),
            Producer(world, "zero", acks=0, is_idempotent=False),
        ]

    async def _break_things(self) -> list["asyncio.Task[None]"]:
        breaking: list[asyncio.Task[None]] = []
        end = self._loop.time() + FAULTS_S
        while self._loop.time() < end:
            await self._sleep(self._random.expovariate(1.5))
            fault = self._random.choices([each for each, _ in self._faults], [each for _, each in self._faults])[0]
            breaking.append(self._tasks.create_task(fault(self._random.choice(self.world.nodes))))
            self.world.counts[fault.__name__.strip("_")] += 1
        return breaking

    # Peace

    async def until_in_sync(self) -> None:
        deadline = self._loop.time() + HEALING_S
        while (why := self.world.why_not_in_sync()) is not None:
            if self._loop.time() > deadline:
                nodes = "\n".join(map(str, self.world.nodes))
                raise Violation(f"{HEALING_S} s after healing not everything is in sync: {why}\n{nodes}")
            await self._sleep(LOOK_S)

    async def _write_everywhere(self) -> None:
        """Every partition takes records again."""
        producer = Producer(self.world, "allend", acks=ACKS_ALL, is_idempotent=True)
        for topic in self.world.topics:
            for number in () if topic.may_be_gone else range(topic.partitions):
                async with self.soon(f"{topic.name}-{number} takes a record"):
                    await producer.write(Target(topic, number))
        producer.hang_up()

    async def _read_everything(self) -> None:
        reader = Consumer(self.world, "reader")
        for topic in self.world.topics:
            for number in () if topic.may_be_gone else range(topic.partitions):
                target = Target(topic, number)
                async with self.soon(f"{topic.name}-{number} is read"):
                    while reader.positions.get(target, 0) < self.world.truth.logs[target.key].end_offset:
                        if not await reader.read(target):
                            await reader.pause()
        reader.hang_up()

    def soon(self, what: str) -> "_Soon":
        return _Soon(self.world, what)

    # Faults of several nodes, and of those that lead

    async def _lose_all_power(self, _node: ClusterNode) -> None:
        """At one moment; they come back one after the other."""
        for node in self.world.nodes:
            if node.is_up:
                node.crash(self._random.choice((Keep.RANDOM, Keep.NOTHING)))
        for node in self._random.sample(self.world.nodes, len(self.world.nodes)):
            await asyncio.sleep(self._random.choice((0, 0, 0.3, 1)))
            if not node.is_up:
                node.start()

    async def _lose_leader(self, node: ClusterNode) -> None:
        await self._lose_power(self._some_leader() or node)

    async def _isolate_leader(self, node: ClusterNode) -> None:
        """Cut one that leads off from the other nodes, not from its clients: it takes records that nobody gets."""
        node = self._some_leader() or node
        others = [each.name for each in self.world.nodes if each is not node]
        ends = ([node.name], others) if self._random.random() < 0.5 else (others, [node.name])
        self._network.partition(*ends, drop=self._random.random() < 0.5, one_way=self._random.random() < 0.3)
        await asyncio.sleep(self._random.uniform(1, 4))
        if self._random.random() < 0.3 and node.is_up:
            node.crash(self._random.choice((None, Keep.RANDOM, Keep.NOTHING)))
            await self._start_again(node)
        self._network.heal()

    async def cut_a_leader_off(self, seconds: float) -> None:
        """As `_isolate_leader` does, both ways, for so long."""
        leader = self._some_leader()
        assert leader is not None
        self._network.partition(
            [leader.name], [each.name for each in self.world.nodes if each is not leader], drop=True
        )
        await asyncio.sleep(seconds)
        self._network.heal()

    async def _lose_follower(self, node: ClusterNode) -> None:
        """Have a follower come back that cannot be heard by a leader for a while."""
        leader = self._some_leader() or node
        follower = self._random.choice([each for each in self.world.nodes if each is not leader])
        if follower.is_up:
            follower.crash(self._random.choice((None, Keep.RANDOM, Keep.NOTHING)))
        self._network.partition([follower.name], [leader.name], drop=self._random.random() < 0.5)
        await self._start_again(follower)
        await asyncio.sleep(self._random.uniform(1, 3))
        self._network.heal()

    async def _lose_an_answer(self, _node: ClusterNode) -> None:
        """Have a leader not hear what became of the ISR that it asked for, nor of the follower that has joined it."""
        found = self._find_follower()
        if found is None:
            return
        controller, leader, follower = found
        if follower.is_up:
            follower.crash(self._random.choice((None, Keep.RANDOM)))
        asked: asyncio.Future[None] = self._loop.create_future()

        def note(node_id: int, joining: set[int]) -> None:
            if node_id == leader.node_id and follower.node_id in joining and not asked.done():
                self._network.partition([controller.name, follower.name], [leader.name], drop=True, one_way=True)
                asked.set_result(None)

        self.world.truth.on_proposal = note
        try:
            await asyncio.sleep(1)
            if not follower.is_up:
                follower.start()
            async with asyncio.timeout(4):
                await asked
        except TimeoutError:
            return
        finally:
            asked.cancel()  # from now on nothing is cut
        self.world.counts["answer lost"] += 1
        await asyncio.sleep(self._random.choice((1, 6)))
        self._network.heal()

    def _find_follower(self) -> tuple[ClusterNode, ClusterNode, ClusterNode] | None:
        """The controller, a leader on another node, and a follower of that on a third: best of a partition that the
        controller's node has no replica of.
        """
        nodes = {node.node_id: node for node in self.world.nodes}
        for controller in (node for node in self.world.nodes if node.is_active):
            apart = [
                (state.leader, follower)
                for state in sorted(
                    self.world.truth.states.values(), key=lambda each: controller.node_id in each.replicas
                )
                for follower in state.isr
                if state.leader != NO_LEADER and len({controller.node_id, state.leader, follower}) == 3
            ]
            if apart:
                leader, follower = self._random.choice(apart[: 1 + len(apart) // 3])
                return controller, nodes[leader], nodes[follower]
        return None

    def _some_leader(self) -> ClusterNode | None:
        leaders = sorted({state.leader for state in self.world.truth.states.values() if state.leader != NO_LEADER})
        return self.world.nodes[self._random.choice(leaders) - 1] if leaders else None


class _Soon:
    """Within bounded virtual time."""

    def __init__(self, world: ReplicasWorld, what: str) -> None:
        self._world = world
        self._what = what
        self._timeout = asyncio.timeout(HEALING_S)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._timeout.__aexit__(*error)  # type: ignore[arg-type]
        except TimeoutError as timeout:
            self._world.checks.raise_broken()
            states = [f"{self._world.truth.names[key]}: {state}" for key, state in self._world.truth.states.items()]
            nodes = "\n".join([*map(str, self._world.nodes), *states])
            raise Violation(f"{HEALING_S} s passed before {self._what}\n{nodes}") from timeout
        self._world.checks.raise_broken()


def run_scenario(
    seed: int, scenario: Callable[[ReplicasWorld, ReplicaTrouble], Awaitable[None]], *, voters: int | None = None
) -> tuple[Counter[str], str]:
    """One run of a scenario: how often what happened, and a hash of all of it."""
    with Simulation(seed, network=NETWORK, max_steps=MAX_STEPS) as simulation:
        world = ReplicasWorld(simulation, voters=voters)
        loop = simulation.loop

        async def run() -> None:
            try:
                async with asyncio.TaskGroup() as tasks:
                    await scenario(world, ReplicaTrouble(world, tasks))
            finally:
                loop.unhandled = [error for error in loop.unhandled if not isinstance(error, SimulatedCrash)]

        with watched(world.truth):
            simulation.run(run)
        world.counts[f"{len(world.nodes)} nodes"] += 1
        for what, took_s in world.took_s.items():
            world.counts[f"{what}, ms"] += round(took_s * 1000)
        return world.counts, simulation.trace_hash()


def run_seed(
    seed: int, *faults: str, voters: int | None = None, loads: Sequence[str] = LOADS
) -> tuple[Counter[str], str]:
    """One run: with everything that goes wrong or these faults only, of a cluster of any size or of this one, and with
    clients of every kind or of these.
    """

    async def scenario(_world: ReplicasWorld, trouble: ReplicaTrouble) -> None:
        trouble.loads = loads
        if faults:
            trouble.suffer_only(*faults)
        await trouble.run()

    return run_scenario(seed, scenario, voters=voters)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(*run_seed(int(argument)))
