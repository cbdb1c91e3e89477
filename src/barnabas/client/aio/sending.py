"""Sending: a record is queued without a thread where there is room, and its outcome can be awaited.

Delivery reports come in the thread of the producer, many at once; the event loop is woken once for all that have come.
"""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from barnabas.client import producers, transactions
from barnabas.client.aio.calling import Lane
from barnabas.client.aio.reading import Reader
from barnabas.client.message import HeadersLike, RecordPlace

_TURN: Final = 64  # records that one task may queue before others have their turn


class Outcomes:
    """Wakes tasks of one event loop from other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._settled: list[asyncio.Future[None]] = []

    def future(self) -> "asyncio.Future[None]":
        return self._loop.create_future()

    def note(self, future: "asyncio.Future[None]") -> None:
        """In any thread: what this future stands for is known."""
        with self._lock:
            self._settled.append(future)
            if len(self._settled) > 1:
                return
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        with self._lock:
            settled, self._settled = self._settled, []
        for future in settled:
            if not future.done():
                future.set_result(None)


class Sent:
    """A record being sent: awaiting it gives where it was written, or raises why it was not."""

    __slots__ = ("_outcomes", "_sent")

    def __init__(self, sent: producers.Sent, outcomes: Outcomes) -> None:
        self._sent = sent
        self._outcomes = outcomes

    def done(self) -> bool:
        return self._sent.done()

    def __await__(self) -> Generator[Any, None, RecordPlace]:
        while not self._sent.done():
            future = self._outcomes.future()
            self._sent.call_when_done(partial(self._outcomes.note, future))
            yield from future.__await__()
        return self._sent.result(0)


class Sending:
    """The way of records into one queue after the other, for all tasks of a bus."""

    def __init__(self, outcomes: Outcomes, lane: Lane) -> None:
        self._outcomes = outcomes
        self._lane = lane
        self._count = 0

    async def send(self, at_once: Callable[[], producers.Sent | None], waiting: Callable[[], producers.Sent]) -> Sent:
        """Queue a record: at once if there is room, else in a thread that waits for it."""
        self._count += 1
        if not self._count % _TURN:
            await asyncio.sleep(0)
        sent = at_once()
        if sent is None:
            sent = await self._lane.call(waiting)
        return Sent(sent, self._outcomes)


class Transaction:
    """The object of an `async with bus.transaction(...)` block; see `barnabas.client.Transaction`."""

    def __init__(self, transaction: transactions.Transaction, sending: Sending) -> None:
        self._transaction = transaction
        self._sending = sending

    async def send(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: HeadersLike | None = None,
        timestamp_ms: int | None = None,
    ) -> Sent:
        """Queue one record, as `Bus.send` does. If a record is not delivered, the block raises."""
        more: dict[str, Any] = {
            "key": key,
            "partition": partition,
            "headers": headers,
            "timestamp_ms": timestamp_ms,
        }
        return await self._sending.send(
            partial(self._transaction.send_nowait, topic, value, **more),
            partial(self._transaction.send, topic, value, **more),
        )

    def commit_offsets(self, reader: Reader) -> None:
        """Commit, with this transaction, the offsets of what `reader` has returned by the end of the block.

        `reader` is what `Bus.consume(..., group=..., mode="transactional")` returns, after its first record. If the
        block raises, the reader returns the same records again: so call this first, before anything can fail.
        """
        self._transaction.commit_offsets(reader.offsets)
