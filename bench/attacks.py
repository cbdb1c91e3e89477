"""What a client that means well feels while another one does its worst: its p99 during an attack beside its p99 alone.

The healthy client asks for the metadata of a topic and writes a small batch, over and over, a few milliseconds apart.
An `Attack` runs in a thread of its own, on blocking sockets, and does next to nothing in Python while it is measured.
To add some: list them in a module of their own, as `bench.large_requests` does, and put that list into `ATTACKS`.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from barnabas.core.records.record import Record, encode_batch
from barnabas.testing.wire_client import WireClient, metadata_request, produce_request
from barnabas.wire.apis import METADATA, PRODUCE
from bench.attack import Attack
from bench.greedy_clients import GREEDY_CLIENTS
from bench.large_requests import LARGE_REQUESTS
from bench.measure import Row
from bench.rude_connections import RUDE_CONNECTIONS
from bench.served import Served, served

ATTACKS: Final[Sequence[Attack]] = (*LARGE_REQUESTS, *RUDE_CONNECTIONS, *GREEDY_CLIENTS)
MAX_RATIO: Final = 3.0
"""A healthy client may wait so many times as long as alone."""

TOPIC: Final = "healthy"
PAUSE_S: Final = 0.003


def rows(*, quick: bool) -> Iterator[Row]:
    for attack in ATTACKS:
        with served("log.flush.policy=os", *attack.settings) as broker:
            attack.prepare(broker)
            alone = asyncio.run(_healthy(broker, attack, seconds=0.5 if quick else 2))
            during = _under(attack, broker, seconds=0.5 if quick else 5)
            yield _row(attack, alone, during)


@dataclass(frozen=True, slots=True)
class _Felt:
    """How long a healthy client's requests took."""

    p99_s: float
    longest_s: float
    memory: int
    """Bytes that the broker has then."""


def _row(attack: Attack, alone: _Felt, during: _Felt) -> Row:
    ratio = during.p99_s / alone.p99_s
    return Row(
        attack.name,
        f"p99 {during.p99_s * 1000:.1f} ms, {ratio:.1f} times; longest {during.longest_s * 1000:,.0f} ms; "
        f"{during.memory / 1e6:,.0f} MB",
        f"alone {alone.p99_s * 1000:.1f} ms, at most {MAX_RATIO:.0f} times; {alone.memory / 1e6:,.0f} MB",
        MAX_RATIO / ratio,
        1.0,
    )


def _under(attack: Attack, broker: Served, *, seconds: float) -> _Felt:
    is_over = threading.Event()
    has_begun = threading.Event()
    thread = threading.Thread(target=_run, args=(attack.run, broker, has_begun, is_over))
    thread.start()
    try:
        has_begun.wait()
        return asyncio.run(_healthy(broker, attack, seconds=seconds))
    finally:
        is_over.set()
        thread.join()


def _run(
    run: Callable[[Served, threading.Event, threading.Event], None],
    broker: Served,
    has_begun: threading.Event,
    is_over: threading.Event,
) -> None:
    try:
        with suppress(ConnectionError, socket.timeout):  # an attacker that is thrown out has had its time
            run(broker, has_begun, is_over)
    finally:
        has_begun.set()


async def _healthy(broker: Served, attack: Attack, *, seconds: float) -> _Felt:
    host, _, port = broker.bootstrap.rpartition(":")
    client = await WireClient.connect(host, int(port))
    topic_id = await _topic_of(client)
    batch = bytes(encode_batch([Record(0, 0, b"key", bytes(attack.value_bytes))]))
    took: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for key, version, values in (
            (METADATA, 12, metadata_request([TOPIC])),
            (PRODUCE, 13, produce_request({topic_id: {0: batch}})),
        ):
            start = time.perf_counter()
            await client.ask(key, version, values, timeout_s=120)
            took.append(time.perf_counter() - start)
        await asyncio.sleep(PAUSE_S)
    client.close()
    took.sort()
    return _Felt(took[len(took) * 99 // 100], took[-1], broker.memory())


async def _topic_of(client: WireClient) -> UUID:
    asked: dict[str, Any] = {**metadata_request([TOPIC]), "allow_auto_topic_creation": True}
    answer = await client.ask(METADATA, 12, asked, timeout_s=120)
    topic_id: UUID = answer.topics[0].topic_id
    return topic_id
