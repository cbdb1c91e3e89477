"""What the tests of produce share: flushes that are held, and what is in the log."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from barnabas.core.records.batch import seal
from barnabas.core.records.record import Record, decode_batch
from barnabas.services.broker import Broker
from tests.unit.edge.kafka.calling import batch

T = TypeVar("T")


class Gate:
    """Blocking work that does not end before it is let through."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_waited_for = asyncio.Event()

    async def run(self, function: Callable[[], T]) -> T:
        self.is_waited_for.set()
        await self.is_open.wait()
        return function()


def hold_flushes(broker: Broker) -> Gate:
    gate = Gate()
    broker.logs.flusher._offload = gate
    return gate


def records_of(broker: Broker, topic: str, partition: int = 0) -> list[Record]:
    log = broker.served.get_partition(topic, partition).find_log()
    segments = () if log is None else log.segments
    return [record for segment in segments for each in segment.batches() for record in decode_batch(each.data)]


def header_of(broker: Broker, topic: str) -> Any:
    log = broker.served.get_partition(topic, 0).log
    return [each.header for segment in log.segments for each in segment.batches()][-1]


def patched(data: bytes, at: int, value: bytes) -> bytes:
    """A batch with other bytes, and the checksum that belongs to them."""
    out = bytearray(data)
    out[at : at + len(value)] = value
    seal(out, 0, len(out))
    return bytes(out)


GOOD = batch(b"a", b"b")
