"""Clients that are killed while their request is at work: nobody waits for the answer, and what was decided is done."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from barnabas.core.transactions.records import State
from barnabas.services.broker import Broker
from tests.unit.edge.kafka.support import create, run
from tests.unit.edge.kafka.transactions.support import GENERATIONS, Client, read, stable_offset

both = pytest.mark.parametrize("generation", GENERATIONS)
every_step = pytest.mark.parametrize("steps", range(12))


async def leave(work: Coroutine[Any, Any, object], steps: int) -> None:
    """Begin something, and be gone after so many steps of the loop."""
    task = asyncio.get_running_loop().create_task(work)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def wait_settled(broker: Broker) -> State:
    """The state once nothing is being ended; it gets there by itself."""
    async with asyncio.timeout(60):
        while (record := await broker.transactions.describe("id")).state.is_prepared:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return record.state


@both
@every_step
def test_an_end_is_done_though_whoever_asked_is_gone(generation: int, steps: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker, generation=generation)
        await client.init()
        assert await client.send("t", b"v") == 0
        await leave(client.end(), steps)
        if await wait_settled(broker) is State.COMPLETE_COMMIT:
            assert await read(broker, "t") == [b"v"]
            assert await stable_offset(broker, "t") == (2, 2)
        successor = Client(broker, generation=generation)
        assert await successor.init() == 0

    run(scenario)


@both
@every_step
def test_a_producer_that_is_gone_when_it_has_taken_over_keeps_no_other_from_it(generation: int, steps: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker, generation=generation)
        await client.init()
        assert await client.send("t", b"v") == 0
        await leave(Client(broker, generation=generation).init(), steps)
        await wait_settled(broker)
        successor = Client(broker, generation=generation)
        assert await successor.init() == 0
        assert await successor.send("t", b"w") == 0
        assert await successor.end() == 0
        assert await read(broker, "t") == [b"w"]

    run(scenario)
