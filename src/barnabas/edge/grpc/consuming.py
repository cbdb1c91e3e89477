"""Consume: one stream of records, from partitions that are named or that a group assigns.

There is one fetch at a time of each node that has some of the partitions, and none while as much is outstanding as the
client allows (`window`): so a stream holds what one fetch of each node has brought, however slowly its client reads.
Records are decoded on a thread.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from barnabas.core.access.resources import Operation, group
from barnabas.core.errors import (
    BarnabasError,
    InvalidRequest,
    OffsetOutOfRange,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from barnabas.core.model import TopicPartition
from barnabas.edge.grpc.calls import LARGE_BYTES, Call
from barnabas.edge.grpc.decoding import Decoded, decode_fetched, refusal_of_damage, takes_long
from barnabas.edge.grpc.encoding import size_of
from barnabas.edge.grpc.member import Member
from barnabas.edge.grpc.options import MAX_PARTITIONS, Beginning, Consuming, read_options
from barnabas.edge.grpc.routing import MAX_FETCH_BYTES, PASSING, RETRY_S, Fetched, Routes
from barnabas.edge.grpc.statuses import code_of, error_of
from barnabas.edge.grpc.window import Window
from barnabas.runtime.asking_brokers import AskedBroker
from barnabas.runtime.peers import Peer
from barnabas.runtime.turns import in_turns
from barnabas.services.call_quotas import Use
from barnabas.services.offsets import LATEST
from barnabas.v1 import bus_pb2

MAX_WAIT_MS: Final = 500
"""For one fetch: a partition that is added meanwhile is read after it."""
PARTITIONS_PER_FETCH: Final = 100
CLOSE_S: Final = 5.0
_LOOKS: Final = 3
PATIENCE_S: Final = 10.0
"""How long the start of a partition is looked up again while nobody leads it."""

Spawn = Callable[[Coroutine[Any, Any, None]], None]


class Consumption:
    """Serves the call."""

    def __init__(self, routes: Routes, spawn: Spawn) -> None:
        """`spawn` runs what a stream that was cancelled has left to do."""
        self._routes = routes
        self._spawn = spawn

    async def consume(self, call: Call) -> None:
        """See the service."""
        first = await call.read(bus_pb2.ConsumeRequest)
        if first is None:
            return
        if first.WhichOneof("request") != "options":
            raise InvalidRequest("the first request of a stream must have options")
        options = read_options(first.options)
        broker = self._routes.broker
        if options.group:
            broker.access.authorize(call.session, Operation.READ, group(options.group))
        for topic in options.topics:
            broker.access.authorize_topic(call.session, Operation.READ, topic)
        stream = _Stream(self._routes, call, options)
        try:
            await stream.run()
        except asyncio.CancelledError:
            self._spawn(stream.close())
            raise
        except BaseException:
            await stream.close()
            raise
        await stream.close()


@dataclass(slots=True)
class _Ready:
    """Records that are not sent yet, and where reading goes on behind them."""

    records: deque[bus_pb2.Record]
    next_offset: int
    high_watermark: int


class _Stream:
    """One stream."""

    def __init__(self, routes: Routes, call: Call, options: Consuming) -> None:
        self._routes = routes
        self._broker = routes.broker
        self._call = call
        self._options = options
        self._window = Window(max_records=options.max_outstanding_records, max_bytes=options.max_outstanding_bytes)
        self._member: Member | None = None
        if options.group:
            self._member = Member(
                routes,
                call.session,
                group=options.group,
                topics=options.topics,
                instance_id=options.instance_id,
            )
        self._positions: dict[TopicPartition, int] = {}  # where the next fetch begins
        self._ends: dict[TopicPartition, int] = {}  # with `until_end`
        self._ready: dict[TopicPartition, _Ready] = {}
        self._fetching: dict[int, asyncio.Task[None]] = {}
        self._ways: dict[int, tuple[Peer, AskedBroker]] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._silent: dict[TopicPartition, int] = {}  # how often nothing was found before the end
        self._failure: BarnabasError | None = None
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Serve until the client closes or everything is read."""
        if self._member is None:
            await self._begin()
        work: list[Callable[[], Coroutine[Any, Any, None]]] = [self._read]
        if self._member is not None:
            work += [partial(self._member.run, self), self._commit_regularly]
        acks = asyncio.ensure_future(self._take_acks())
        tasks = [asyncio.ensure_future(self._call.measured(each)) for each in work]
        try:
            waited = {acks, *tasks}
            while True:
                done, waited = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
                if not (done == {acks} and self._options.is_automatic):
                    return
        finally:
            await _end([acks, *tasks, *self._fetching.values()])

    async def close(self) -> None:
        """Commit what was acknowledged, leave the group, end the connections."""
        for peer, _ in self._ways.values():
            peer.close()
        self._ways.clear()
        if self._member is not None:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._commit(is_told=False)
            except TimeoutError:
                pass  # the group reads it again
            await self._member.leave()

    # Which partitions

    async def _begin(self) -> None:
        """Read the partitions that the options name."""
        starts: dict[TopicPartition, Beginning] = {}
        for topic, named in self._options.topics.items():
            partitions = self._broker.image.get_topic(topic).partitions
            for partition in named or partitions:
                if partition not in partitions:
                    raise UnknownTopicOrPartition(f"topic '{topic}' has no partition {partition}")
                starts[TopicPartition(topic, partition)] = named.get(partition, self._options.start)
        if len(starts) > MAX_PARTITIONS:
            raise InvalidRequest(f"a stream reads at most {MAX_PARTITIONS} partitions, not {len(starts)}")
        positions: dict[TopicPartition, int] = {}
        async for name, start in in_turns(starts.items()):
            if self._options.until_end or self._options.is_sure:
                end = await self._find(name, LATEST, is_sure=self._options.is_sure)
                if self._options.until_end:
                    self._ends[name] = end
            positions[name] = await self._locate(name, start)
        await self._take_over(positions)

    async def assign(self, names: Sequence[TopicPartition]) -> None:
        """See `member.Reader`."""
        assert self._member is not None
        positions: dict[TopicPartition, int] = {}
        for found in await self._member.committed(names):
            name = TopicPartition(found.topic, found.partition)
            if found.offset >= 0:
                self._committed[name] = found.offset
            beginning = Beginning(offset=found.offset) if found.offset >= 0 else self._options.start
            positions[name] = await self._locate(name, beginning)
        await self._take_over(positions)

    async def revoke(self, names: Sequence[TopicPartition], *, is_lost: bool) -> None:
        """See `member.Reader`."""
        if not is_lost:
            await self._commit()
        for name in names:
            self._positions.pop(name, None)
            self._ready.pop(name, None)
            self._committed.pop(name, None)
            self._window.remove(name)
        partitions = [bus_pb2.TopicPartition(topic=name.topic, partition=name.partition) for name in names]
        await self._write(bus_pb2.ConsumeResponse(revoked=bus_pb2.Revoked(partitions=partitions)))
        self._begin_anew()

    async def _take_over(self, positions: dict[TopicPartition, int]) -> None:
        told = [
            bus_pb2.Position(topic=name.topic, partition=name.partition, offset=offset)
            for name, offset in positions.items()
        ]
        member_id = "" if self._member is None else self._member.member_id
        await self._write(bus_pb2.ConsumeResponse(assigned=bus_pb2.Assigned(positions=told, member_id=member_id)))
        for name, offset in positions.items():
            self._window.add(name, offset)
            if offset < self._ends.get(name, offset + 1):
                self._positions[name] = offset
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Other partitions than before: fetches that wait would hold up those that are new."""
        for fetch in self._fetching.values():
            fetch.cancel()
        self._wake.set()

    async def _locate(self, name: TopicPartition, start: Beginning) -> int:
        """The offset to start at."""
        if start.offset is not None:
            return start.offset
        offset = await self._find(name, start.timestamp)
        return offset if offset >= 0 else await self._find(name, LATEST)

    async def _find(self, name: TopicPartition, timestamp: int, *, is_sure: bool = False) -> int:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while True:
            try:
                return await self._routes.find_offset(
                    self._call.session,
                    name,
                    timestamp,
                    is_committed=self._options.reading.is_committed,
                    is_sure=is_sure,
                )
            except PASSING as error:
                if loop.time() + RETRY_S >= deadline:
                    raise error.with_traceback(None) from None
            await asyncio.sleep(RETRY_S)

    # Reading

    async def _read(self) -> None:
        while True:
            self._wake.clear()
            if self._failure is not None:
                raise self._failure
            await self._send_ready()
            if self._options.until_end and not self._positions and not self._ready:
                return
            is_waiting = self._begin_fetches()
            try:
                async with asyncio.timeout(RETRY_S if is_waiting else None):
                    await self._wake.wait()
            except TimeoutError:
                pass  # somebody may lead by now

    def _begin_fetches(self) -> bool:
        """Fetch from every node that is not fetched from already; whether a partition has nobody to be read from."""
        if self._window.is_full and not self._options.is_automatic:
            return False
        wanted: dict[int, dict[TopicPartition, int]] = {}
        is_waiting = False
        for name, offset in self._positions.items():
            if name in self._ready:
                continue
            try:
                node_id = self._routes.reader_of(name, self._options.reading)
            except (*PASSING, UnknownTopicOrPartition) as error:
                if isinstance(error, UnknownTopicOrPartition) and self._member is None:
                    self._failure = error.with_traceback(None)
                    self._wake.set()
                is_waiting = True
                continue
            if node_id not in self._fetching:
                wanted.setdefault(node_id, {})[name] = offset
        for node_id, names in wanted.items():
            some = dict(list(names.items())[:PARTITIONS_PER_FETCH])
            for name in some:  # to the back, so that each has its turn
                self._positions[name] = self._positions.pop(name)
            wait_ms = max(MAX_WAIT_MS * len(some) // len(names), 10)
            task = asyncio.ensure_future(self._call.measured(partial(self._fetch, node_id, some, wait_ms)))
            self._fetching[node_id] = task
            task.add_done_callback(partial(self._end_fetch, node_id))
        return is_waiting

    def _end_fetch(self, node_id: int, task: asyncio.Future[None]) -> None:
        del self._fetching[node_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, BarnabasError):
                raise error
            self._failure = error
        self._wake.set()

    async def _fetch(self, node_id: int, wanted: dict[TopicPartition, int], wait_ms: int) -> None:
        routes, session, reading = self._routes, self._call.session, self._options.reading
        most = self._call.quotas.most_to_consume(session, MAX_FETCH_BYTES)
        try:
            if routes.is_here(node_id):
                found = await routes.fetch_here(session, wanted, reading, max_wait_ms=wait_ms, max_bytes=most)
            else:
                asked = self._way(node_id)
                found = await routes.fetch_there(asked, session, wanted, reading, max_wait_ms=wait_ms, max_bytes=most)
        except PASSING:
            self._drop_way(node_id)
            await asyncio.sleep(RETRY_S)
            return
        is_refused = False
        for name, each in found.items():
            if isinstance(each, BarnabasError):
                await self._note_refusal(name, each)
                is_refused = True
            elif each.records:
                await self._decode(name, wanted[name], each)
        self._note_silence(found)
        if is_refused:
            await asyncio.sleep(RETRY_S)

    def _note_silence(self, found: dict[TopicPartition, Fetched | BarnabasError]) -> None:
        """With `until_end`: what is left before the end may have been compacted away, so that nothing comes any more.
        One look may find nothing because the log was just cut or compacted.
        """
        if not self._ends or any(isinstance(each, BarnabasError) or each.records for each in found.values()):
            self._silent.clear()
            return
        for name, each in found.items():
            assert not isinstance(each, BarnabasError)
            end = each.last_stable_offset if self._options.reading.is_committed else each.high_watermark
            if name in self._positions and end >= self._ends[name]:
                self._silent[name] = self._silent.get(name, 0) + 1
                if self._silent[name] >= _LOOKS:
                    del self._positions[name]

    def _way(self, node_id: int) -> AskedBroker:
        if node_id not in self._ways:
            self._ways[node_id] = self._routes.own_way(node_id)
        return self._ways[node_id][1]

    def _drop_way(self, node_id: int) -> None:
        """The node may be gone, or have another address."""
        way = self._ways.pop(node_id, None)
        if way is not None:
            way[0].close()

    async def _note_refusal(self, name: TopicPartition, error: BarnabasError) -> None:
        if isinstance(error, PASSING) or name not in self._positions:
            return
        if isinstance(error, (UnknownTopicOrPartition, UnknownTopicId)) and self._member is not None:
            return  # deleted, or not heard of there yet: the group is told
        if not isinstance(error, OffsetOutOfRange) or self._options.start.offset is not None:
            raise error
        offset = await self._locate(name, self._options.start)  # what was there is deleted: as with auto.offset.reset
        if name in self._positions:
            self._positions[name] = offset

    async def _decode(self, name: TopicPartition, offset: int, found: Fetched) -> None:
        def decode() -> Decoded:
            is_committed = self._options.reading.is_committed
            return decode_fetched(found.records, start_offset=offset, aborted=found.aborted, is_committed=is_committed)

        try:
            is_long = takes_long(found.records)
            decoded = await self._broker.threads.compute.run(decode) if is_long else decode()
        except BarnabasError as error:
            raise refusal_of_damage(error, topic=name.topic, partition=name.partition) from None
        if self._positions.get(name) != offset:
            return  # taken away meanwhile
        end = self._ends.get(name)
        records = decoded.records if end is None else [each for each in decoded.records if each.offset < end]
        if end is not None and decoded.next_offset >= end:
            del self._positions[name]
        else:
            self._positions[name] = decoded.next_offset
        if records:
            self._ready[name] = _Ready(deque(records), decoded.next_offset, found.high_watermark)

    # Sending

    async def _send_ready(self) -> None:
        """Send what there is, as far as the client allows."""
        while self._ready and (self._options.is_automatic or not self._window.is_full):
            name = next(iter(self._ready))
            ready = self._ready.pop(name)
            message, size = self._take(name, ready)
            if ready.records:
                self._ready[name] = ready  # at the back
            count, next_offset = len(message.records), message.next_offset
            if not self._options.is_automatic:
                self._window.note_sent(name, next_offset=next_offset, records=count, size=size)
            await self._write(bus_pb2.ConsumeResponse(records=message), is_large=size > LARGE_BYTES)
            if self._options.is_automatic:
                self._note_automatic(name, next_offset)
            await self._call.pace(Use.CONSUMING, size)

    def _note_automatic(self, name: TopicPartition, next_offset: int) -> None:
        self._window.note_sent(name, next_offset=next_offset, records=0, size=0)
        self._window.acknowledge(name, next_offset)

    def _take(self, name: TopicPartition, ready: _Ready) -> tuple[bus_pb2.Records, int]:
        options = self._options
        most_records, most_bytes = options.max_batch_records, options.max_batch_bytes
        if not options.is_automatic:
            room_records, room_bytes = self._window.room
            most_records, most_bytes = min(most_records, room_records), min(most_bytes, room_bytes)
        taken: list[bus_pb2.Record] = []
        size = 0
        while ready.records and len(taken) < most_records:
            more = size_of(ready.records[0])
            if taken and size + more > most_bytes:
                break
            taken.append(ready.records.popleft())
            size += more
        next_offset = ready.records[0].offset if ready.records else ready.next_offset
        message = bus_pb2.Records(
            topic=name.topic,
            partition=name.partition,
            records=taken,
            next_offset=next_offset,
            high_watermark=ready.high_watermark,
        )
        return message, size

    async def _write(self, message: bus_pb2.ConsumeResponse, *, is_large: bool = False) -> None:
        async with self._writing:
            await self._call.write(message, is_large=is_large)

    # Acknowledging

    async def _take_acks(self) -> None:
        while True:
            request = await self._call.read(bus_pb2.ConsumeRequest)
            if request is None:
                return
            if request.WhichOneof("request") != "acknowledge":
                raise InvalidRequest("only the first request of a stream may have options; acknowledge with the others")
            if self._options.is_automatic:
                raise InvalidRequest("acknowledgements of this stream are automatic")
            for each in request.acknowledge.positions:
                self._window.acknowledge(TopicPartition(each.topic, each.partition), each.offset)
            self._wake.set()

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._options.commit_interval_s)
            await self._commit()

    async def _commit(self, *, is_told: bool = True) -> None:
        """Commit what was acknowledged since the last time."""
        if self._member is None:
            return
        acked = {name: at for name, at in self._window.acked().items() if self._committed.get(name) != at}
        if not acked:
            return
        errors = await self._member.commit(acked)
        done = [name for name, error in errors.items() if error is None]
        for name in done:
            self._committed[name] = acked[name]
        if not is_told:
            return
        if done:
            await self._write(bus_pb2.ConsumeResponse(committed=_committed(done, acked)))
        for name, error in errors.items():
            if error is not None and code_of(error) not in _TRIED_AGAIN:
                told = _committed([name], acked)
                told.error.CopyFrom(error_of(error))
                await self._write(bus_pb2.ConsumeResponse(committed=told))


_TRIED_AGAIN: Final = (13, 14, 15, 16, 113)  # codes of refusals that pass: committed with the next acknowledgements


def _committed(names: Sequence[TopicPartition], positions: dict[TopicPartition, int]) -> bus_pb2.Committed:
    return bus_pb2.Committed(
        positions=[
            bus_pb2.Position(topic=name.topic, partition=name.partition, offset=positions[name]) for name in names
        ]
    )


async def _end(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
