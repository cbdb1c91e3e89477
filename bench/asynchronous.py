"""`barnabas.aio` beside `barnabas.Bus`, in turns on one broker: what a task pays for each record."""

import asyncio
from collections.abc import Iterator

from barnabas import aio
from barnabas.client import Bus
from bench.measure import Compared, Row, compare, rate, seconds
from bench.served import served

VALUE = bytes(100)


def rows(*, quick: bool) -> Iterator[Row]:
    count = 10_000 if quick else 200_000
    with served("log.flush.policy=os") as broker, Bus(broker.bootstrap) as bus:
        for topic in ("sent", "read"):
            bus.create_topic(topic)
        _send(bus, "read", count)
        asynchronous, synchronous = (
            lambda: asyncio.run(_send_awaited(broker.bootstrap, count)),
            lambda: seconds(lambda: _send(bus, "sent", count)),
        )
        yield _row("sends of 100 B, asyncio", compare(asynchronous, synchronous, amount=count))
        asynchronous, synchronous = (
            lambda: asyncio.run(_read_awaited(broker.bootstrap)),
            lambda: seconds(lambda: sum(1 for _ in bus.consume("read", until_end=True))),
        )
        yield _row("records read, asyncio", compare(asynchronous, synchronous, amount=count))


def _row(name: str, found: Compared) -> Row:
    return Row(name, rate(found.ours, "records/s"), f"Bus {rate(found.limit, 'records/s')}", found.ratio)


def _send(bus: Bus, topic: str, count: int) -> None:
    for _ in range(count):
        bus.send(topic, VALUE)
    bus.flush()


async def _send_awaited(bootstrap: str, count: int) -> float:
    async with aio.Bus(bootstrap) as bus:
        await bus.send("sent", VALUE)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for _ in range(count):
            await bus.send("sent", VALUE)
        await bus.flush()
        return loop.time() - begun


async def _read_awaited(bootstrap: str) -> float:
    async with aio.Bus(bootstrap) as bus:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async for _ in bus.consume("read", until_end=True):
            pass
        return loop.time() - begun
