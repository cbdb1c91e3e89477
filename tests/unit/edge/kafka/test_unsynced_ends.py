"""Asking for the end of a partition while it is synced: what is acknowledged is found, and only what is on disk."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas.services.broker import Broker
from barnabas.services.syncing import SYNC_WAIT_S, wait_synced
from barnabas.wire.apis import DELETE_RECORDS, LIST_OFFSETS
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.fetching.support import is_parked, values_in
from tests.unit.edge.kafka.holding import Held
from tests.unit.edge.kafka.producing.support import Gate, hold_flushes
from tests.unit.edge.kafka.support import append, ask, create, run

pytestmark = pytest.mark.usefixtures("both_ways")

LATEST, EARLIEST, NEWEST = -1, -2, -3
Ask = Callable[[Broker], Awaitable[Any]]


async def offset_of(broker: Broker, timestamp: int, *, partition: int = 0) -> tuple[int, int]:
    wanted = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1}
    request = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "t", "partitions": [wanted]}]}
    (answer,) = (await ask(broker, LIST_OFFSETS, 11, **request)).topics[0].partitions
    return answer.error_code.value, answer.offset


async def delete_to(broker: Broker, offset: int) -> tuple[int, int]:
    partition = {"partition_index": 0, "offset": offset}
    request = {"topics": [{"name": "t", "partitions": [partition]}], "timeout": 30_000}
    (answer,) = (await ask(broker, DELETE_RECORDS, 2, **request)).topics[0].partitions
    return answer.error_code.value, answer.low_watermark


async def fetch(broker: Broker, offset: int = 1, **options: Any) -> list[bytes | None]:
    return values_in(await Caller(broker).fetched(("t", 0, offset), **options))


async def acknowledged(broker: Broker) -> Gate:
    """One record on disk, and one that is acknowledged and is being synced."""
    await create(broker, "t")
    caller = Caller(broker)
    assert await caller.refusal("t", batch(b"a")) == 0
    gate = hold_flushes(broker)
    assert await caller.refusal("t", batch(b"b"), acks=1) == 0
    await gate.is_waited_for.wait()
    partition = broker.served.get_partition("t", 0)
    assert (partition.high_watermark, partition.end_offset) == (1, 2)
    return gate


ENDS: dict[str, tuple[Ask, Any, Any]] = {
    # What is asked, the answer when the sync is done, and the answer when it takes too long.
    "the last offset": (lambda broker: offset_of(broker, LATEST), (0, 2), (0, 1)),
    "the newest": (lambda broker: offset_of(broker, NEWEST), (0, 0), (0, 0)),
    "deleting all": (lambda broker: delete_to(broker, -1), (0, 2), (0, 1)),
    "deleting to the end": (lambda broker: delete_to(broker, 2), (0, 2), (1, -1)),
    "a fetch that does not wait": (lambda broker: fetch(broker, max_wait_ms=0), [b"b"], []),
    "a fetch that wants nothing": (lambda broker: fetch(broker, min_bytes=0, max_wait_ms=1), [b"b"], []),
    "a fetch that waits for a moment": (lambda broker: fetch(broker, max_wait_ms=10, min_bytes=999), [b"b"], []),
}


@pytest.mark.parametrize("what", ENDS)
def test_whoever_asks_for_the_end_hears_of_what_is_being_synced(what: str) -> None:
    asked, expected, _ = ENDS[what]

    async def scenario(broker: Broker) -> None:
        gate = await acknowledged(broker)
        asking = asyncio.ensure_future(asked(broker))
        await asyncio.sleep(SYNC_WAIT_S / 2)
        assert not asking.done()
        gate.is_open.set()
        assert await asking == expected
        assert not is_parked(broker, "t")

    run(scenario, is_virtual=True)


@pytest.mark.parametrize("what", ENDS)
def test_nobody_waits_for_long_nor_hears_of_what_is_not_on_disk(what: str) -> None:
    asked, _, expected = ENDS[what]

    async def scenario(broker: Broker) -> None:
        gate = await acknowledged(broker)
        began_s = asyncio.get_running_loop().time()
        assert await asked(broker) == expected
        assert asyncio.get_running_loop().time() - began_s <= SYNC_WAIT_S + 0.1
        assert not is_parked(broker, "t")
        gate.is_open.set()

    run(scenario, is_virtual=True)


def test_an_offset_is_found_by_its_time_as_soon_as_it_is_synced() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        gate = hold_flushes(broker)
        assert await Caller(broker).refusal("t", batch(b"a"), acks=1) == 0
        asking = [asyncio.ensure_future(offset_of(broker, timestamp)) for timestamp in (0, NEWEST)]
        await gate.is_waited_for.wait()
        assert not any(each.done() for each in asking)
        gate.is_open.set()
        assert [await each for each in asking] == [(0, 0), (0, 0)]

    run(scenario)


@pytest.mark.parametrize(
    "asked",
    [
        lambda broker: offset_of(broker, EARLIEST),
        lambda broker: offset_of(broker, LATEST, partition=9),
        lambda broker: delete_to(broker, 1),
        lambda broker: delete_to(broker, 3),
        lambda broker: fetch(broker, 0),
    ],
)
def test_whoever_does_not_ask_for_the_end_does_not_wait(asked: Ask) -> None:
    async def scenario(broker: Broker) -> None:
        gate = await acknowledged(broker)
        began_s = asyncio.get_running_loop().time()
        await asked(broker)
        assert asyncio.get_running_loop().time() == began_s
        gate.is_open.set()

    run(scenario, is_virtual=True)


def test_where_all_is_synced_nobody_waits() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        assert await Caller(broker).refusal("t", batch(b"a")) == 0
        hold_flushes(broker)
        began_s = asyncio.get_running_loop().time()
        assert await offset_of(broker, LATEST) == (0, 1)
        assert await fetch(broker, max_wait_ms=0) == []
        assert await delete_to(broker, -1) == (0, 1)
        assert asyncio.get_running_loop().time() == began_s

    run(scenario, is_virtual=True)


def test_what_is_appended_later_is_not_waited_for() -> None:
    async def scenario(broker: Broker) -> None:
        gate = await acknowledged(broker)
        asking = asyncio.ensure_future(offset_of(broker, LATEST))
        await asyncio.sleep(0)
        next_gate = Gate()
        assert await Caller(broker).refusal("t", batch(b"c"), acks=1) == 0
        broker.logs.flusher._offload = next_gate
        gate.is_open.set()
        assert await asking == (0, 2)
        await next_gate.is_waited_for.wait()
        next_gate.is_open.set()

    run(scenario)


def test_a_topic_that_is_deleted_meanwhile_keeps_nobody_waiting() -> None:
    async def scenario(broker: Broker) -> None:
        gate = await acknowledged(broker)
        began_s = asyncio.get_running_loop().time()
        asking = asyncio.ensure_future(offset_of(broker, LATEST))
        await asyncio.sleep(0)
        broker.served.get_partition("t", 0).delete()
        assert (await asking)[0] == 3
        assert asyncio.get_running_loop().time() == began_s
        gate.is_open.set()

    run(scenario, is_virtual=True)


def test_several_partitions_are_waited_for_at_once() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", 3)
        gate = hold_flushes(broker)
        partitions = [broker.served.get_partition("t", number) for number in range(3)]
        for number in (0, 2):
            assert await Caller(broker).refusal("t", batch(b"a"), partition=number, acks=1) == 0
        waiting = asyncio.ensure_future(wait_synced(partitions))
        await gate.is_waited_for.wait()
        assert not waiting.done()
        gate.is_open.set()
        await waiting
        assert [partition.high_watermark for partition in partitions] == [1, 0, 1]

    run(scenario)


def test_very_many_partitions_are_waited_for_one_by_one() -> None:
    async def scenario(broker: Broker) -> None:
        many = 400
        await create(broker, "t", many)
        hold_flushes(broker)
        partitions = [broker.served.get_partition("t", number) for number in range(many)]
        for number in range(many):
            append(broker, "t", NOW_MS, partition=number)
        waiting = asyncio.ensure_future(wait_synced(partitions))
        while not is_parked(broker, "t", many - 1):  # noqa: ASYNC110
            await asyncio.sleep(0)
        with Held() as held:
            for partition in partitions:
                assert not waiting.done()
                partition._advance(partition.end_offset)
            await waiting
        assert held.calls < 30 * many  # and not many for each

    run(scenario)
