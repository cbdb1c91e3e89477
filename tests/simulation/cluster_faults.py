"""What goes wrong in a simulated cluster, and how it comes to an end: faults for a while, then peace."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from barnabas.core.raft.voters import NO_VOTERS
from barnabas.testing.disk import Keep
from barnabas.testing.network import LOCALHOST
from barnabas.testing.wire_client import WireClient
from barnabas.wire.apis import ADD_RAFT_VOTER, REMOVE_RAFT_VOTER
from tests.simulation.cluster_clients import PORT
from tests.simulation.cluster_world import CLUSTER, ClusterNode, ClusterWorld
from tests.simulation.node_history import Violation

FAULTS_S: Final = 12.0
HEALING_S: Final = 30.0
LOOK_S: Final = 0.25
KEEPS: Final = (None, Keep.RANDOM, Keep.RANDOM, Keep.NOTHING)
JUMPS_MS: Final = (-86_400_000, -60_000, -500, 500, 60_000, 86_400_000)
USUAL_DELAY_S: Final = 0.01

Fault = Callable[[ClusterNode], Coroutine[Any, Any, None]]


class Trouble:
    """One run: nodes and clients start, things break, things heal, everything is checked."""

    def __init__(self, world: ClusterWorld, tasks: asyncio.TaskGroup) -> None:
        self._world = world
        self._tasks = tasks
        self._random = world.simulation.random("faults")
        self._loop = world.simulation.loop
        self._network = world.simulation.network
        self._is_over = False
        self._faults: tuple[tuple[Fault, float], ...] = (
            (self._lose_power, 3),
            (self._lose_power_soon, 3),
            (self._stop_cleanly, 1),
            (self._stay_away, 1),
            (self._replace_disk, 1),
            (self._pause, 3),
            (self._cut_off, 2),
            (self._split, 2),
            (self._slow_links, 1),
            (self._reset, 1),
            (self._slow_disk, 1),
            (self._fill_disk, 1),
            (self._break_disk, 1),
            (self._jump, 1),
            (self._change_voters, 4),
        )

    async def run(self) -> None:
        world = self._world
        for node in world.nodes:
            node.start()
        working = [self._tasks.create_task(client.run()) for client in world.clients]
        await self.until_whole("the start")
        breaking: list[asyncio.Task[None]] = []
        end = self._loop.time() + FAULTS_S
        while self._loop.time() < end:
            await self._sleep(self._random.expovariate(3))
            fault = self._random.choices([each for each, _ in self._faults], [each for _, each in self._faults])[0]
            breaking.append(self._tasks.create_task(fault(self._random.choice(world.nodes))))
            world.counts[fault.__name__.strip("_")] += 1
        self._is_over = True
        await self._heal(breaking)
        await self.until_whole("healing")
        for client in world.clients:
            client.is_over = True
        await asyncio.gather(*working)
        await self._change_on_every_node()
        await self.until_whole("the last changes")
        world.check_history()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Until something holds, and hardly longer."""
        while not holds():
            await self._sleep(0.001)

    async def _sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        self._world.checks.raise_broken()

    # Peace

    async def _heal(self, breaking: list["asyncio.Task[None]"]) -> None:
        world = self._world
        self._network.heal()
        for task in breaking:
            task.cancel()
        await asyncio.gather(*breaking, return_exceptions=True)
        for node in world.nodes:
            node.resume()
            node.disk.clear_faults()
            node.disk.crash_after(10**9)
            world.simulation.offload(node.name).max_delay_s = USUAL_DELAY_S
            if node.is_up and (node.has_bad_disk or node.is_stopping):
                node.crash(self._random.choice(KEEPS))
            node.has_bad_disk = False
            if not node.is_up:
                node.start()

    async def until_whole(self, after: str) -> None:
        deadline = self._loop.time() + HEALING_S
        while (why := self._world.why_not_whole()) is not None:
            if self._loop.time() > deadline:
                nodes = "\n".join(map(str, self._world.nodes))
                raise Violation(f"{HEALING_S} s after {after} the cluster is not whole: {why}\n{nodes}")
            await self._sleep(LOOK_S)

    async def _change_on_every_node(self) -> None:
        client = self._world.clients[0]
        for node in self._world.nodes:
            deadline = self._loop.time() + HEALING_S
            client.go_to(node)
            while not (await client.is_connected() and await client.create()):
                if self._loop.time() > deadline:
                    raise Violation(f"no change succeeds on {node.name}")
                await self._sleep(LOOK_S)
                client.go_to(node)
        client.hang_up()

    # Faults of a process

    async def _lose_power(self, node: ClusterNode) -> None:
        if node.is_up:
            node.crash(self._random.choice(KEEPS))
        await self._start_again(node)

    async def _lose_power_soon(self, node: ClusterNode) -> None:
        """In the middle of something that the node does to its disk, the start perhaps."""
        if not node.is_up:
            node.start()
        node.disk.crash_after(self._random.randrange(40))
        await asyncio.sleep(self._random.uniform(0, 2))
        await self._start_again(node)

    async def _stop_cleanly(self, node: ClusterNode) -> None:
        if node.is_up and not node.is_paused:
            await node.stop()
        await self._start_again(node)

    async def _stay_away(self, node: ClusterNode) -> None:
        """For so long that the others have forgotten what it needs of the log."""
        if node.is_up:
            node.crash(self._random.choice(KEEPS))
        await asyncio.sleep(self._random.uniform(4, 9))
        if not node.is_up:
            node.start()

    async def _replace_disk(self, node: ClusterNode) -> None:
        """A node that never votes comes back with an empty disk, as one that joins late."""
        observers = [each for each in self._world.nodes if not each.is_controller]
        if node.is_controller and observers:
            node = self._random.choice(observers)
        if node.is_controller:
            return
        if node.is_up:
            node.crash(Keep.NOTHING)
        node.insert_disk()
        node.format(NO_VOTERS)
        self._world.counts["empty disk"] += 1
        await self._start_again(node)

    async def _start_again(self, node: ClusterNode) -> None:
        await asyncio.sleep(self._random.choice((0, 0.1, 1, 3)))
        if not node.is_up:
            node.start()

    async def _pause(self, node: ClusterNode) -> None:
        if node.is_paused or not node.is_up:
            return
        node.pause()
        await asyncio.sleep(self._random.choice((0.1, 1, 3, 5)))
        node.resume()

    # Faults of the network

    async def _cut_off(self, node: ClusterNode) -> None:
        others = [each.name for each in self._world.nodes if each is not node]
        if self._random.random() < 0.5:
            others.append(LOCALHOST)
        one_way = self._random.random() < 0.5
        ends = ([node.name], others) if self._random.random() < 0.5 else (others, [node.name])
        self._network.partition(*ends, drop=self._random.random() < 0.5, one_way=one_way)
        await self._end_cuts()

    async def _split(self, _node: ClusterNode) -> None:
        names = [each.name for each in self._world.nodes]
        some = self._random.sample(names, self._random.randrange(len(names) + 1))
        others = [name for name in names if name not in some]
        self._network.partition(some, others, drop=self._random.random() < 0.5, one_way=self._random.random() < 0.3)
        await self._end_cuts()

    async def _slow_links(self, node: ClusterNode) -> None:
        others = [each.name for each in self._world.nodes if each is not node]
        self._network.slow([node.name], others, self._random.choice((0.05, 0.3, 1.0)))
        await self._end_cuts()

    async def _end_cuts(self) -> None:
        await asyncio.sleep(self._random.uniform(0.2, 4))
        self._network.heal()

    async def _reset(self, node: ClusterNode) -> None:
        self._network.reset_between(node.name)

    # Faults of disks and clocks

    async def _slow_disk(self, node: ClusterNode) -> None:
        offload = self._world.simulation.offload(node.name)
        offload.max_delay_s = self._random.choice((0.1, 0.5))
        await asyncio.sleep(self._random.uniform(0.5, 4))
        offload.max_delay_s = USUAL_DELAY_S

    async def _fill_disk(self, node: ClusterNode) -> None:
        """There is no room for a while."""
        node.disk.fail_write(count=None, after_bytes=self._random.randrange(2000))
        node.disk.fail_create(count=None)
        node.has_bad_disk = True  # it may refuse to start
        await asyncio.sleep(self._random.uniform(0.2, 3))
        node.disk.clear_faults()

    async def _break_disk(self, node: ClusterNode) -> None:
        """A sync fails: the process is of no more use until it is started anew. The next one may read what the disk has
        not, and goes on until the power is cut.
        """
        node.has_bad_disk = True
        node.disk.fail_sync(count=1)
        await asyncio.sleep(self._random.uniform(0.2, 2))
        node.disk.clear_faults()
        if node.is_up:
            node.crash(self._random.choice(KEEPS))
        await self._start_again(node)
        await asyncio.sleep(self._random.uniform(0, 2))
        if node.is_up:
            node.crash(Keep.NOTHING)
        await self._start_again(node)

    async def _jump(self, node: ClusterNode) -> None:
        self._world.simulation.clock(node.name).skew_ms += self._random.choice(JUMPS_MS)

    # Voters

    async def _change_voters(self, node: ClusterNode) -> None:
        """Ask any node to have a controller vote, or no more; whether that is refused is the leader's to say."""
        world = self._world
        other = self._random.choice(world.controllers)
        voters = None if node.metadata is None else node.metadata.driver.node.voters.current
        is_new = voters is None or voters.find(other.key) is None
        key = {"cluster_id": CLUSTER, "voter_id": other.node_id, "voter_directory_id": other.directory_id}
        try:
            async with asyncio.timeout(3):
                client = await WireClient.connect(node.name, PORT, client_id="operator")
                if is_new or self._random.random() < 0.1:
                    listener = {
                        "name": other.endpoint.listener,
                        "host": other.endpoint.host,
                        "port": other.endpoint.port,
                    }
                    values = {**key, "timeout": 2000, "listeners": [listener], "ack_when_committed": True}
                    answer = await client.ask(ADD_RAFT_VOTER, 1, values)
                else:
                    answer = await client.ask(REMOVE_RAFT_VOTER, 0, key)
                client.close()
        except (OSError, TimeoutError):
            return
        if answer.error_code == 0:
            world.counts["voters changed"] += 1
