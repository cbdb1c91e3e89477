"""The bus for asyncio: the verbs of `barnabas.Bus`, awaited."""

import asyncio
import contextlib
import functools
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeAlias, TypeVar

from barnabas.client import bus as synchronous
from barnabas.client.aio.calling import Lane
from barnabas.client.aio.jobs import Queue
from barnabas.client.aio.reading import FromChunks, FromGenerator, Reader, Source
from barnabas.client.aio.sending import Outcomes, Sending, Sent, Transaction
from barnabas.client.bus import Partitioner
from barnabas.client.consuming import Start
from barnabas.client.contact import PATIENCE_S
from barnabas.client.group_reading import MAX_POLL_RECORDS, Mode
from barnabas.client.message import HeadersLike, Message
from barnabas.client.processing import BATCH_SIZE, MAX_WAIT_S, Function, Made, Processed
from barnabas.client.producers import Delivery
from barnabas.client.queues.queue import LINGER_MS, MAX_HOLD_S, PREFETCH, AckMode
from barnabas.client.readers import Reading
from barnabas.client.rewindable import TransactionalReader
from barnabas.client.settings import Consistency, Isolation
from barnabas.client.topics import TIMEOUT_S
from barnabas.client.transactions import TIMEOUT_S as TRANSACTION_TIMEOUT_S

P = ParamSpec("P")
R = TypeVar("R")
AsyncFunction: TypeAlias = Callable[[Message], Coroutine[Any, Any, Made]]

_CALLS: Final = 8  # of topics and groups that may be under way at once


def _awaited(
    method: Callable[Concatenate[synchronous.Bus, P], R],
) -> Callable[Concatenate["Bus", P], Coroutine[Any, Any, R]]:
    """The same verb, in a thread."""

    async def call(self: "Bus", /, *arguments: P.args, **named: P.kwargs) -> R:
        return await self._calls.call(method, self._bus, *arguments, **named)

    functools.update_wrapper(call, method)
    return call


class Bus:
    """A message bus for the tasks of one event loop; made within it. Arguments as for `barnabas.Bus`.

    Use it in an `async with`, or `await bus.aclose()`: that ends its readers, and delivers what was sent.
    """

    def __init__(
        self,
        bootstrap: str | None = None,
        *,
        client_id: str = "barnabas",
        config: Mapping[str, str] | None = None,
        partitioner: Partitioner = "murmur2",
        delivery: Delivery | str | None = None,
        timeout: float = TIMEOUT_S,
        connect_timeout: float = PATIENCE_S,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._bus = synchronous.Bus(
            bootstrap,
            client_id=client_id,
            config=config,
            partitioner=partitioner,
            delivery=delivery,
            timeout=timeout,
            connect_timeout=connect_timeout,
        )
        self._calls = Lane("barnabas-calls", _CALLS)
        self._waiting_for_room = Lane("barnabas-sending")
        self._sending = Sending(Outcomes(self._loop), self._waiting_for_room)
        self._open: weakref.WeakSet[Reader | Queue] = weakref.WeakSet()

    @property
    def bootstrap(self) -> str:
        return self._bus.bootstrap

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.aclose()
        except BaseException:
            if error is None:  # else the first failure is the one to see
                raise

    async def aclose(self) -> None:
        """End all readers and queues, deliver what was sent and close all connections; raises `DeliveryFailed` if
        something was not delivered.
        """
        try:
            for each in list(self._open):
                await each.aclose()
        finally:
            try:
                await self._calls.call(self._bus.close)
            finally:
                self._calls.end()
                self._waiting_for_room.end()

    # Topics and groups

    create_topic = _awaited(synchronous.Bus.create_topic)
    delete_topic = _awaited(synchronous.Bus.delete_topic)
    list_topics = _awaited(synchronous.Bus.list_topics)
    describe_topic = _awaited(synchronous.Bus.describe_topic)
    alter_topic = _awaited(synchronous.Bus.alter_topic)
    add_partitions = _awaited(synchronous.Bus.add_partitions)
    truncate = _awaited(synchronous.Bus.truncate)
    groups = _awaited(synchronous.Bus.groups)
    describe_group = _awaited(synchronous.Bus.describe_group)
    reset_group = _awaited(synchronous.Bus.reset_group)
    delete_group = _awaited(synchronous.Bus.delete_group)

    # Sending

    async def send(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: HeadersLike | None = None,
        timestamp_ms: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> Sent:
        """Queue one record, waiting while the queue is full; awaiting what is returned says where it went.

        ``await bus.send(...)`` queues; ``await (await bus.send(...))`` is acknowledged.
        """
        more: dict[str, Any] = {
            "key": key,
            "partition": partition,
            "headers": headers,
            "timestamp_ms": timestamp_ms,
            "partitioner": partitioner,
        }
        return await self._sending.send(
            partial(self._bus.send_nowait, topic, value, **more), partial(self._bus.send, topic, value, **more)
        )

    flush = _awaited(synchronous.Bus.flush)

    @contextlib.asynccontextmanager
    async def transaction(
        self,
        transactional_id: str,
        *,
        timeout: float = TRANSACTION_TIMEOUT_S,  # noqa: ASYNC109 - the cluster's, as in the other bus
    ) -> AsyncIterator[Transaction]:
        """A transaction for an `async with` block: committed at its end; aborted if the block raises, or is
        cancelled.
        """
        lane = Lane("barnabas-transaction")
        block = await lane.call(self._bus.transaction, transactional_id, timeout=timeout)
        entering = lane.begin(block.__enter__)
        try:
            transaction = await _ended(entering)
        except asyncio.CancelledError as error:
            if entering.exception() is None:
                await _ended(lane.begin(block.__exit__, type(error), error, None))
            lane.end()
            raise
        try:
            try:
                yield Transaction(transaction, self._sending)
            except BaseException as error:
                await _ended(lane.begin(block.__exit__, type(error), error, error.__traceback__))
                raise
            await _ended(lane.begin(block.__exit__, None, None, None))
        finally:
            lane.end()

    async def process(
        self,
        source: str | Iterable[str],
        function: Function | AsyncFunction,
        sink: str,
        *,
        group: str | None = None,
        exactly_once: bool = True,
        batch_size: int = BATCH_SIZE,
        max_wait: float = MAX_WAIT_S,
        instance: str | None = None,
        until_end: bool = False,
    ) -> Processed:
        """As `barnabas.Bus.process`, with a function that may be asynchronous; ends when the task is cancelled, after
        the batch that is under way.
        """
        lane, stop = Lane("barnabas-process"), threading.Event()
        running = lane.begin(
            self._bus.process,
            source,
            self._called_in_loop(function),
            sink,
            group=group,
            exactly_once=exactly_once,
            batch_size=batch_size,
            max_wait=max_wait,
            instance=instance,
            stop=stop,
            until_end=until_end,
        )
        lane.end()
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            await _ended(running)
            raise

    def _called_in_loop(self, function: Function | AsyncFunction) -> Function:
        """The function as a thread calls it: what it returns is awaited in the event loop, if it can be."""

        def call(message: Message) -> Made:
            made = function(message)
            if not isinstance(made, Coroutine):
                return made
            return asyncio.run_coroutine_threadsafe(made, self._loop).result()

        return call

    # Reading

    def consume(  # noqa: PLR0913 - one for each way of reading
        self,
        topics: str | Iterable[str],
        *,
        group: str | None = None,
        mode: Mode = "at-least-once",
        max_poll_records: int = MAX_POLL_RECORDS,
        partitions: Sequence[int] | None = None,
        offset: Start = "earliest",
        timestamp_ms: int | None = None,
        last: int | None = None,
        until_end: bool = False,
        until_ms: int | None = None,
        max_records: int | None = None,
        timeout: float | None = None,
        isolation: Isolation | None = None,
        consistency: Consistency | None = None,
    ) -> Reader:
        """Read records as they arrive: `async for message in bus.consume(...)`; see `barnabas.Bus.consume`.

        A record counts as processed when the next one is asked for. A task that is cancelled while it waits loses none.
        """
        reading = Reading(
            topics=topics,
            group=group,
            mode=mode,
            max_poll_records=max_poll_records,
            partitions=partitions,
            offset=offset,
            timestamp_ms=timestamp_ms,
            last=last,
            until_end=until_end,
            until_ms=until_ms,
            max_records=max_records,
            timeout=timeout,
            isolation=isolation,
            consistency=consistency,
        )
        return self._reader(partial(self._opened, reading))

    def _opened(self, reading: Reading) -> Source:
        found = self._bus.readers.open(reading)
        return found if isinstance(found, TransactionalReader) else FromChunks(found())

    def merge(
        self,
        topics: str | Iterable[str],
        *,
        partitions: Sequence[int] | None = None,
        offset: Start = "earliest",
        timestamp_ms: int | None = None,
        last: int | None = None,
        until_ms: int | None = None,
        timeout: float | None = None,
        isolation: Isolation | None = None,
    ) -> Reader:
        """All partitions up to their current end, as one stream by timestamp; see `barnabas.Bus.merge`."""
        reading = Reading(
            topics=topics,
            partitions=partitions,
            offset=offset,
            timestamp_ms=timestamp_ms,
            last=last,
            until_end=True,
            until_ms=until_ms,
            timeout=timeout,
            isolation=isolation,
        )
        return self._reader(lambda: FromGenerator(self._bus.readers.merge(reading)))

    get = _awaited(synchronous.Bus.get)

    def _reader(self, open_source: Callable[[], Source]) -> Reader:
        reader = Reader(open_source)
        self._open.add(reader)
        return reader

    def queue(
        self,
        topics: str | Iterable[str],
        *,
        group: str,
        ack: AckMode = "batched",
        linger_ms: float = LINGER_MS,
        prefetch: int = PREFETCH,
        max_hold: float = MAX_HOLD_S,
        timeout: float | None = None,
    ) -> Queue:
        """Topics as a queue: `async for job in bus.queue(...): async with job: ...`; see `barnabas.Bus.queue`."""
        open_queue = partial(
            self._bus.queue,
            topics,
            group=group,
            ack=ack,
            linger_ms=linger_ms,
            prefetch=prefetch,
            max_hold=max_hold,
            timeout=timeout,
        )
        queue = Queue(open_queue, timeout_s=timeout, is_sync=ack == "sync")
        self._open.add(queue)
        return queue


async def _ended(running: "asyncio.Future[R]") -> R:
    """Wait for a call whose end must be known, however often the task is cancelled meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return running.result()
