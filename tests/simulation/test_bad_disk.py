"""One bad disk among three replicas, in simulation: bits that flip are found and repaired from the others, and a node
whose disk fails leaves the others to go on. Nothing that was acknowledged is lost.
"""

import asyncio
from random import Random

from barnabas.core.metadata.records import NO_LEADER
from barnabas.core.records.batch import iter_whole_batches
from barnabas.storage.names import LOG
from barnabas.testing.wire_client import ACKS_ALL
from tests.simulation.cluster_world import DATA, ClusterNode
from tests.simulation.replicas_admin import Administrator
from tests.simulation.replicas_clients import Producer, Target
from tests.simulation.replicas_logs import LogView
from tests.simulation.replicas_world import ReplicasWorld, ReplicaTrouble, run_scenario
from tests.simulation.seeded import seeds

SEEDS = 2
SCRUBBED_S = 75.0
"""A node that has started reads its logs after a minute."""
MOMENTS_S = 10.0
WRITING_S = 3.0


async def begin(world: ReplicasWorld, trouble: ReplicaTrouble) -> list["asyncio.Task[None]"]:
    """A whole cluster, topics, and producers at work."""
    for node in world.nodes:
        node.start()
    await trouble.until_whole("the start")
    await Administrator(world).create_all()
    producers = [Producer(world, f"all{number}", acks=ACKS_ALL, is_idempotent=True) for number in range(3)]
    return [asyncio.ensure_future(producer.run()) for producer in producers]


async def end(world: ReplicasWorld, trouble: ReplicaTrouble, working: list["asyncio.Task[None]"]) -> None:
    """Everybody is done, and every replica is what was committed, read anew from its disk."""
    world.is_over = True
    await asyncio.gather(*working)
    await trouble.until_in_sync()
    for node in world.nodes:
        world.views[node.node_id] = LogView(node.disk, DATA)
    world.check_logs()
    world.checks.raise_broken()


def flip_some(world: ReplicasWorld, node: ClusterNode, random: Random) -> int:
    """Flip a bit in batches of partitions that others have, too; returns in how many."""
    flipped = 0
    for key, state in world.truth.states.items():
        directory = f"{DATA}/{world.truth.names[key]}"
        if node.node_id not in state.replicas or len(state.replicas) < 2 or not node.disk.exists(directory):
            continue
        for name in node.disk.list_dir(directory):
            if name.endswith(LOG) and random.random() < 0.7:
                flipped += flip_one(node, f"{directory}/{name}", random)
    return flipped


def flip_one(node: ClusterNode, path: str, random: Random) -> bool:
    file = node.disk.open(path)
    data = file.read(0, file.size())
    batches = list(iter_whole_batches(data))
    if not batches:
        return False
    position, header = random.choice(batches)
    epoch_at = range(12, 16)  # the leader epoch, which nothing vouches for
    byte = random.choice([at for at in range(header.size) if at not in epoch_at])
    node.disk.flip_bit(path, position + byte, random.randrange(8))
    return True


def test_bits_that_flip_under_one_node_are_repaired_from_the_others() -> None:
    found = 0

    async def scenario(world: ReplicasWorld, trouble: ReplicaTrouble) -> None:
        nonlocal found
        working = await begin(world, trouble)
        await asyncio.sleep(WRITING_S)
        world.is_over = True
        await asyncio.gather(*working)
        await trouble.until_in_sync()
        node = world.random.choice(world.nodes)
        flipped = flip_some(world, node, world.random)
        await asyncio.sleep(SCRUBBED_S)
        running = node._node
        assert running is not None
        assert running.broker is not None
        assert running.broker.replicas is not None
        repaired = running.broker.replicas.repairing.repaired
        found += repaired
        assert repaired == flipped, f"{flipped} flipped, {repaired} repaired"
        await end(world, trouble, [])

    for seed in seeds(default=SEEDS):
        run_scenario(seed, scenario, voters=3)
    assert found


def test_a_leader_whose_disk_fails_under_load_leaves_and_the_others_take_writes_within_moments() -> None:
    async def scenario(world: ReplicasWorld, trouble: ReplicaTrouble) -> None:
        working = await begin(world, trouble)
        await asyncio.sleep(WRITING_S)
        node = trouble._some_leader()
        assert node is not None
        node.has_bad_disk = True
        node.disk.fail_sync(count=None)
        async with asyncio.timeout(MOMENTS_S):
            await trouble.until(lambda: not node.is_up)
            await trouble.until(lambda: not leads(world, node))
        assert world.counts["gave up on its disk"] == 1
        await write_where_one_may_be_down(world)
        node.disk.clear_faults()
        node.has_bad_disk = False
        node.start()
        await trouble.until_whole("the disk was replaced")
        await end(world, trouble, working)

    for seed in seeds(default=SEEDS):
        run_scenario(seed, scenario, voters=3)


async def write_where_one_may_be_down(world: ReplicasWorld) -> None:
    """Three replicas, of which two must have a record: one more in each such partition, within moments."""
    producer = Producer(world, "after", acks=ACKS_ALL, is_idempotent=True)
    async with asyncio.timeout(MOMENTS_S):
        for topic in world.topics:
            promise = world.truth.promises[topic.name]
            for number in range(topic.partitions) if promise.replicas == 3 else ():
                await producer.write(Target(topic, number))
    producer.hang_up()


def leads(world: ReplicasWorld, node: ClusterNode) -> bool:
    """Whether a node leads a partition that another could lead, or nobody does."""
    states = [state for state in world.truth.states.values() if len(state.replicas) > 1]
    return any(state.leader in (node.node_id, NO_LEADER) for state in states)
