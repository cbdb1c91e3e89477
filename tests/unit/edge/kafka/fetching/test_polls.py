"""Fetch on a whole broker: polls that wait for records, and what ends the wait."""

import asyncio
from typing import Any

import pytest

from barnabas.services.broker import Broker
from tests.unit.edge.kafka.calling import Caller
from tests.unit.edge.kafka.fetching.support import fill, is_parked, partitions_in, values_in, wait_parked
from tests.unit.edge.kafka.support import create, run


def test_a_poll_is_answered_when_something_is_written() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        call = Caller(broker).fetch(("t", 0, 0), max_wait_ms=60_000)
        await wait_parked(broker, "t")
        assert not call.is_answered
        await fill(broker, "t", b"a")
        assert values_in((await call.read()).responses[0].partitions[0]) == [b"a"]
        assert not is_parked(broker, "t")

    run(scenario)


def test_a_poll_waits_for_as_many_bytes_as_it_asks_for_over_all_its_partitions() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        call = Caller(broker).fetch(("t", 0, 0), ("t", 1, 0), max_wait_ms=60_000, min_bytes=500)
        await fill(broker, "t", b"x" * 200)
        await asyncio.sleep(0)
        assert not call.is_answered
        await fill(broker, "t", b"y" * 200, partition=1)
        response = await call.read()
        assert [values_in(each) for each in partitions_in(response)] == [[b"x" * 200], [b"y" * 200]]

    run(scenario)


def test_a_poll_ends_with_what_there_is_when_its_time_is_over() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        call = Caller(broker).fetch(("t", 0, 0), max_wait_ms=60, min_bytes=10_000)
        await fill(broker, "t", b"a")
        assert values_in((await call.read()).responses[0].partitions[0]) == [b"a"]
        assert values_in(await Caller(broker).fetched(("t", 0, 1), max_wait_ms=5)) == []
        assert not is_parked(broker, "t")

    run(scenario)


@pytest.mark.parametrize("options", [{"max_wait_ms": 0}, {"min_bytes": 0}, {"max_wait_ms": -1}, {"min_bytes": -1}])
def test_who_does_not_want_to_wait_does_not(options: Any) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        began_s = asyncio.get_running_loop().time()
        await Caller(broker).fetch(("t", 0, 0), **{"max_wait_ms": 60_000, **options}).read()
        assert asyncio.get_running_loop().time() == began_s

    run(scenario, is_virtual=True)


def test_a_poll_for_nothing_is_answered_at_once() -> None:
    async def scenario(broker: Broker) -> None:
        assert (await Caller(broker).fetch(max_wait_ms=60_000).read()).responses == ()

    run(scenario)


def test_an_error_in_one_partition_is_told_without_waiting_for_the_others() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        response = await Caller(broker).fetch(("t", 0, 0), ("t", 9, 0), max_wait_ms=60_000).read()
        assert [each.error_code.value for each in partitions_in(response)] == [0, 3]

    run(scenario)


def test_a_poll_hears_when_its_topic_is_deleted() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        call = Caller(broker).fetch(("t", 0, 0), max_wait_ms=60_000)
        await broker.topics.delete("t")
        assert (await call.read()).responses[0].partitions[0].error_code.value == 3

    run(scenario)


def test_a_client_that_leaves_is_forgotten_by_its_partitions() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=3)
        call = Caller(broker).fetch(*[("t", n, 0) for n in range(3)], max_wait_ms=60_000)
        await wait_parked(broker, "t", 2)
        assert call.slot is not None
        call.slot.close()
        await asyncio.sleep(0)
        assert not any(is_parked(broker, "t", n) for n in range(3))
        await fill(broker, "t", b"a")
        assert not call.is_answered

    run(scenario)


def test_a_node_that_stops_answers_its_polls() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        call = Caller(broker).fetch(("t", 0, 0), max_wait_ms=60_000)
        assert call.slot is not None
        assert call.slot.on_hurry is not None
        call.slot.on_hurry()
        assert values_in((await call.read()).responses[0].partitions[0]) == []

    run(scenario)
