"""A data directory that Barnabas wrote when its coordinators' logs were in msgpack: everything in it is still there.

`tests/support/old_data_directory` was made by that version. It has been killed with transactions in every state, of
both generations of producers, with offsets of theirs, with groups of all kinds, and with some of each deleted.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.groups.encoding import decode as decode_group
from barnabas.core.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.core.records.batch import iter_whole_batches
from barnabas.core.records.record import decode_records
from barnabas.core.transactions.encoding import decode as decode_transaction
from barnabas.core.transactions.records import State
from barnabas.services.broker import Broker
from barnabas.testing.disk import Keep, SimulatedCrash, SimulatedDisk
from barnabas.wire import apis
from tests.unit.edge.kafka.calling import Caller
from tests.unit.edge.kafka.handlers.grouping import commit
from tests.unit.edge.kafka.support import ask, config_of, serving
from tests.unit.edge.kafka.transactions.support import Client, fetch_offset, read

DIRECTORY = Path("tests/support/old_data_directory")
CONFIG = config_of(
    offsets_topic_num_partitions="1",
    transaction_state_log_num_partitions="1",
    group_initial_rebalance_delay_ms="0",
)
PENDING = (-1, 88)


def old_disk() -> SimulatedDisk:
    """The directory on a simulated disk, all of it durable."""
    disk = SimulatedDisk(1)
    disk.make_dir("/data")
    for directory in sorted(DIRECTORY.iterdir()):
        disk.make_dir(f"/data/{directory.name}")
        for path in sorted(directory.iterdir()):
            disk.open(f"/data/{directory.name}/{path.name}", create=True).write(0, path.read_bytes())
    disk.sync_all()
    return disk


async def check_groups(broker: Broker) -> None:
    listed = await ask(broker, apis.LIST_GROUPS, 5)
    assert {(each.group_id, each.group_state, each.group_type) for each in listed.groups} >= {
        ("classic", "Stable", "Classic"),
        ("simple", "Empty", "Classic"),
        ("expiring", "Empty", "Classic"),
        ("consumer", "Reconciling", "Consumer"),
        ("left", "Empty", "Consumer"),
        ("mixed", "Reconciling", "Consumer"),
    }
    assert "deleted" not in {each.group_id for each in listed.groups}
    (classic,) = (await ask(broker, apis.DESCRIBE_GROUPS, 5, groups=("classic",))).groups
    (member,) = classic.members
    assert (classic.protocol_data, member.member_metadata, member.member_assignment) == ("range", b"meta", b"all")
    described = (await ask(broker, apis.CONSUMER_GROUP_DESCRIBE, 1, group_ids=("consumer", "mixed"))).groups
    consumer, mixed = described
    names = [(each.member_id, each.instance_id, each.rack_id, each.subscribed_topic_regex) for each in consumer.members]
    assert names == [("m1", None, None, None), ("m2", "i2", "a", "there.*")]
    assert [each.member_type for each in mixed.members] == [1, 0]  # m4, and the classic one
    shares = {
        each.member_id: [part.partitions for part in each.assignment.topic_partitions] for each in consumer.members
    }
    assert shares == {"m1": [(0, 1, 2, 3)], "m2": [(0, 1)]}  # the first has yet to give up its last


async def check_offsets(broker: Broker) -> None:
    offsets = [("classic", 0, 5), ("classic", 1, 6), ("simple", 1, -1), ("simple", 2, 3), ("expiring", 2, 7)]
    for group, partition, offset in offsets:
        assert await offset_of(broker, group, "t", partition) == (offset, f"at {offset}" if offset >= 0 else "")
    assert await offset_of(broker, "consumer", "there", 0) == (4, "at 4")
    assert await fetch_offset(broker, "deleted", "t") == (-1, 0)
    assert await fetch_offset(broker, "txn-committed", "t") == (9, 0)
    assert await fetch_offset(broker, "txn-committed-old", "t") == (9, 0)
    assert await fetch_offset(broker, "txn-aborted", "t") == (-1, 0)
    assert await fetch_offset(broker, "txn-prepared-commit", "t") == (9, 0)
    assert await fetch_offset(broker, "txn-prepared-abort", "t") == (-1, 0)
    assert await fetch_offset(broker, "simple", "t", stable=False) == (1, 0)
    assert await fetch_offset(broker, "simple", "t") == PENDING
    assert await fetch_offset(broker, "only-pending", "t") == PENDING


async def offset_of(broker: Broker, group: str, topic: str, partition: int) -> tuple[int, str]:
    groups = [{"group_id": group, "topics": [{"name": topic, "partition_indexes": (partition,)}]}]
    answer = await ask(broker, apis.OFFSET_FETCH, 8, groups=groups, require_stable=False)
    found = answer.groups[0].topics[0].partitions[0]
    return found.committed_offset, found.metadata


async def check_transactions(broker: Broker) -> None:
    states = {
        "committed": State.COMPLETE_COMMIT,
        "committed-old": State.COMPLETE_COMMIT,
        "aborted": State.COMPLETE_ABORT,
        "empty": State.EMPTY,
        "ongoing": State.ONGOING,
        "prepared-commit": State.COMPLETE_COMMIT,
        "prepared-abort": State.COMPLETE_ABORT,
    }
    for name, state in states.items():
        assert (await broker.transactions.describe(name)).state is state, name


async def wait_ended(broker: Broker) -> None:
    """What was prepared when the node was killed is ended, with markers in all partitions."""
    for name in ("prepared-commit", "prepared-abort"):
        await broker.transactions._named(name)


async def check_all(broker: Broker) -> None:
    await wait_ended(broker)
    await check_groups(broker)
    await check_offsets(broker)
    await check_transactions(broker)


async def records_of(broker: Broker, topic: str) -> list[Any]:
    """The records of the topic's one partition, keys and values, as a client reads them."""
    answer = await Caller(broker).fetched((topic, 0, 0), isolation_level=0)
    data = memoryview(bytes(answer.records or b""))
    return [
        record
        for position, header in iter_whole_batches(data)
        if not header.is_control
        for record in decode_records(data, position, header)
    ]


def test_everything_in_an_old_directory_is_still_there_and_after_each_start() -> None:
    async def scenario() -> None:
        disk = old_disk()
        ends = []
        for _ in range(3):
            async with serving(CONFIG, disk=disk) as broker:
                await check_all(broker)
                ends.append(
                    [broker.served.get_partition(name, 0).end_offset for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)]
                )
            disk.restart()
        assert ends[1] == ends[2]  # nothing is rewritten twice

    asyncio.run(scenario())


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_that_an_older_version_began_is_ended(is_commit: bool) -> None:
    async def scenario() -> None:
        disk = old_disk()
        async with serving(CONFIG, disk=disk) as broker:
            record = await broker.transactions.describe("ongoing")
            client = Client(broker, "ongoing")
            client._take(record.producer_id, record.producer_epoch)
            assert await client.end(commit=is_commit) == 0
            assert await fetch_offset(broker, "simple", "t") == (9 if is_commit else 1, 0)
        disk.crash(Keep.NOTHING)
        async with serving(CONFIG, disk=disk) as broker:
            assert await fetch_offset(broker, "simple", "t") == (9 if is_commit else 1, 0)
            assert await fetch_offset(broker, "only-pending", "t") == (8 if is_commit else -1, 0)
            assert (b"ongoing" in await read(broker, "t")) is is_commit

    asyncio.run(scenario())


def test_all_that_counts_is_in_kafkas_format_after_the_start() -> None:
    async def scenario() -> None:
        async with serving(CONFIG, disk=old_disk()) as broker:
            await check_all(broker)
            assert await commit(broker, "t", {2: 4}, group_id="simple") == [0]
            for topic, decode in ((OFFSETS_TOPIC, decode_group), (TRANSACTIONS_TOPIC, decode_transaction)):
                last: dict[bytes, Any] = {}
                for record in await records_of(broker, topic):
                    last[bytes(record.key)] = record.value
                left = {key for key, value in last.items() if value is not None}
                assert left
                assert {key[0] for key in left} == {0}
                for key in left:
                    decode(key, bytes(last[key]))

    asyncio.run(scenario())


@pytest.mark.parametrize("keep", [Keep.NOTHING, Keep.RANDOM, Keep.EVERYTHING])
def test_a_node_that_crashes_while_it_starts_on_an_old_directory_loses_nothing(keep: Keep) -> None:
    async def scenario(step: int) -> None:
        disk = old_disk()
        disk.crash_after(step)
        try:
            async with serving(CONFIG, disk=disk) as broker:
                await wait_ended(broker)
        except (SimulatedCrash, BaseExceptionGroup):
            disk.crash(keep)
        else:
            disk.restart()
        disk.crash_after(10**9)
        async with serving(CONFIG, disk=disk) as broker:
            await check_all(broker)

    for step in range(0, 90, 3):
        asyncio.run(scenario(step))
