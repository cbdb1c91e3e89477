"""What a coordinator cannot read is not taken for nothing: everybody who needs it hears so, in every API."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from barnabas.core.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.services.broker import Broker
from barnabas.services.coordinators import partition_of
from barnabas.testing.disk import SimulatedDisk
from barnabas.wire import apis
from tests.unit.edge.kafka.handlers.grouping import commit, join
from tests.unit.edge.kafka.support import ask, config_of, create, serving
from tests.unit.edge.kafka.transactions.support import GENERATIONS, NEW, Client, fetch_offset

CONFIG = config_of(offsets_topic_num_partitions="2", transaction_state_log_num_partitions="2")
GROUP, OTHER_GROUP = "g", "h"
ID, OTHER_ID = "id", "ie"
NOT_AVAILABLE = 15
assert partition_of(GROUP, 2) != partition_of(OTHER_GROUP, 2)
assert partition_of(ID, 2) != partition_of(OTHER_ID, 2)

Damage = Callable[[SimulatedDisk, str], None]


def flip(disk: SimulatedDisk, directory: str) -> None:
    """A bit of the last record flips."""
    path = f"{directory}/00000000000000000000.log"
    disk.flip_bit(path, disk.file_size(path) - 3, 4)


def lose(disk: SimulatedDisk, directory: str) -> None:
    """Somebody has removed the directory."""
    for name in disk.list_dir(directory):
        disk.remove(f"{directory}/{name}")
    disk.remove_dir(directory)


damages = pytest.mark.parametrize("damage", [flip, lose])


async def use(broker: Broker) -> None:
    """Every group has an offset, every transactional id a transaction that was committed."""
    await create(broker, "t")
    for group in (GROUP, OTHER_GROUP):
        assert await commit(broker, "t", {0: 5}, group_id=group) == [0]
    for name in (ID, OTHER_ID):
        client = Client(broker, name)
        assert await client.init() == 0
        assert await client.send("t", b"v") == 0
        assert await client.end() == 0
    broker.logs.data_dir.checkpoint()


async def damaged(topic: str, name: str, damage: Damage) -> SimulatedDisk:
    """The disk of a broker that was used, with damage in the partition that a group or an id lives in."""
    disk = SimulatedDisk(1)
    async with serving(CONFIG, disk=disk) as broker:
        await use(broker)
    if damage is flip:
        disk.remove("/data/recovery-point-offset-checkpoint")  # so that all is checked
    damage(disk, f"/data/{topic}-{partition_of(name, 2)}")
    disk.restart()
    return disk


async def find(broker: Broker, key_type: int, *keys: str) -> list[int]:
    answer = await ask(broker, apis.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=keys)
    return [int(each.error_code.value) for each in answer.coordinators]


@damages
def test_no_offset_of_a_damaged_partition_is_called_uncommitted(damage: Damage) -> None:
    async def scenario() -> None:
        disk = await damaged(OFFSETS_TOPIC, GROUP, damage)
        async with serving(CONFIG, disk=disk) as broker:
            wanted = [{"name": "t", "partition_indexes": (0,)}]
            for topics in (wanted, None):
                answer = await ask(
                    broker, apis.OFFSET_FETCH, 8, groups=[{"group_id": GROUP, "topics": topics}], require_stable=False
                )
                assert answer.groups[0].error_code.value == NOT_AVAILABLE
            answer = await ask(broker, apis.OFFSET_FETCH, 5, group_id=GROUP, topics=wanted)
            assert answer.error_code.value == NOT_AVAILABLE
            assert await fetch_offset(broker, OTHER_GROUP, "t") == (5, 0)

    asyncio.run(scenario())


@damages
def test_every_request_of_a_group_that_cannot_be_read_is_refused(damage: Damage) -> None:
    async def scenario() -> None:
        disk = await damaged(OFFSETS_TOPIC, GROUP, damage)
        async with serving(CONFIG, disk=disk) as broker:
            assert await commit(broker, "t", {0: 7}, group_id=GROUP) == [NOT_AVAILABLE]
            assert await find(broker, 0, GROUP, OTHER_GROUP) == [NOT_AVAILABLE, 0]
            assert (await join(broker, group=GROUP)).error_code == NOT_AVAILABLE
            beat = await ask(
                broker,
                apis.CONSUMER_GROUP_HEARTBEAT,
                1,
                group_id=GROUP,
                member_id="m",
                member_epoch=0,
                topic_partitions=(),
            )
            assert beat.error_code.value == NOT_AVAILABLE
            for api, version, request in (
                (apis.DESCRIBE_GROUPS, 5, {"groups": (GROUP,)}),
                (apis.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": (GROUP,)}),
            ):
                (described,) = (await ask(broker, api, version, **request)).groups
                assert described.error_code.value == NOT_AVAILABLE
            (deleted,) = (await ask(broker, apis.DELETE_GROUPS, 2, groups_names=(GROUP,))).results
            assert deleted.error_code.value == NOT_AVAILABLE
            assert await commit(broker, "t", {0: 7}, group_id=OTHER_GROUP) == [0]

    asyncio.run(scenario())


@damages
@pytest.mark.parametrize("generation", GENERATIONS)
def test_no_transaction_takes_offsets_of_a_group_that_cannot_be_read(damage: Damage, generation: int) -> None:
    async def scenario() -> None:
        disk = await damaged(OFFSETS_TOPIC, GROUP, damage)
        async with serving(CONFIG, disk=disk) as broker:
            client = Client(broker, generation=generation)
            assert await client.init() == 0
            assert await client.commit_offset(GROUP, "t", 9) == NOT_AVAILABLE
            assert await client.commit_offset(OTHER_GROUP, "t", 9) == 0
            assert await client.end() == 0  # no marker is owed to a partition that cannot take it
            assert await fetch_offset(broker, OTHER_GROUP, "t") == (9, 0)

    asyncio.run(scenario())


@damages
def test_lists_are_refused_rather_than_cut_short(damage: Damage) -> None:
    async def scenario() -> None:
        disk = await damaged(OFFSETS_TOPIC, GROUP, damage)
        async with serving(CONFIG, disk=disk) as broker:
            listed = await ask(broker, apis.LIST_GROUPS, 5)
            assert (listed.error_code.value, listed.groups) == (NOT_AVAILABLE, ())
        disk = await damaged(TRANSACTIONS_TOPIC, ID, damage)
        async with serving(CONFIG, disk=disk) as broker:
            listed = await ask(broker, apis.LIST_TRANSACTIONS, 2)
            assert (listed.error_code.value, listed.transaction_states) == (NOT_AVAILABLE, ())

    asyncio.run(scenario())


@damages
def test_every_request_of_an_id_that_cannot_be_read_is_refused(damage: Damage) -> None:
    async def scenario() -> None:
        disk = await damaged(TRANSACTIONS_TOPIC, ID, damage)
        async with serving(CONFIG, disk=disk) as broker:
            client = Client(broker, ID)
            assert await client.init() == NOT_AVAILABLE
            assert await find(broker, 1, ID, OTHER_ID) == [NOT_AVAILABLE, 0]
            client._take(0, 0)
            assert await client.add("t", 0) == [NOT_AVAILABLE]
            assert await client.end() == NOT_AVAILABLE
            assert await client.send("t", b"v") != 0
            assert await client.commit_offset(GROUP, "t", 9) == NOT_AVAILABLE
            answer = await ask(broker, apis.DESCRIBE_TRANSACTIONS, 0, transactional_ids=(ID, OTHER_ID))
            codes = [each.error_code.value for each in answer.transaction_states]
            assert codes == [NOT_AVAILABLE, 0]
            assert await Client(broker, OTHER_ID, generation=NEW).init() == 0

    asyncio.run(scenario())


@damages
def test_one_error_says_what_cannot_be_read_and_what_to_do(damage: Damage, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        disk = await damaged(OFFSETS_TOPIC, GROUP, damage)
        async with serving(CONFIG, disk=disk) as broker:
            for _ in range(3):
                assert await commit(broker, "t", {0: 7}, group_id=GROUP) == [NOT_AVAILABLE]

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    name = f"{OFFSETS_TOPIC}-{partition_of(GROUP, 2)}"
    assert f"the groups of {name} cannot be loaded" in said
    assert f"/data/{name}" in said
    assert "a backup" in said
    remedy = (
        "barnabas topic repair __consumer_offsets --data-dir /data" if damage is flip else "accept-data-loss instead"
    )
    assert said.count("topic repair") + said.count("accept-data-loss") == said.count(remedy) == 1  # one that helps


def test_groups_can_be_given_up_with_their_directory() -> None:
    async def scenario() -> None:
        disk = await damaged(OFFSETS_TOPIC, GROUP, flip)
        lose(disk, f"/data/{OFFSETS_TOPIC}-{partition_of(GROUP, 2)}")
        async with serving(CONFIG, disk=disk) as broker:
            assert await fetch_offset(broker, GROUP, "t") == (-1, 0)
            assert await commit(broker, "t", {0: 7}, group_id=GROUP) == [0]
            assert await fetch_offset(broker, OTHER_GROUP, "t") == (5, 0)

    asyncio.run(scenario())
