"""A fetch of many partitions: it is read, looked at and answered in turns with everything else.

It does what a small one does (`fetching`), a few partitions at a time, and parks on each as it looks at it. Whatever
grows meanwhile says so, and only that is looked at again.

An await is a gap: a topic may be deleted, or another one have its name, between two turns. Who is parked there hears
it; what was located and is not there any more is left out when it is read.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final
from uuid import UUID

from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.one_fetch import OneFetch, as_topic, encode, is_ahead
from barnabas.runtime.connections import Answer, Connection, Slot
from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import finish, in_turns, next_turn, pieces
from barnabas.services.broker import Broker
from barnabas.services.fetch import Found, UnreadRecords, Wanted
from barnabas.services.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, PartitionKey, Session
from barnabas.services.syncing import SYNC_WAIT_S
from barnabas.wire.fetch import TOPIC_IDS_FROM, write_fetch_in_steps
from barnabas.wire.fetch_request import FetchPartition, FetchRequest, read_fetch_in_steps
from barnabas.wire.frame import RequestHeader, answer_head

LOOKS_PER_TURN: Final = 50
"""Of partitions that have records."""

PER_CHEAP_TURN: Final = 250
"""Elements of which each takes a microsecond or two."""


class FetchInTurns:
    """One request with many partitions. Called with its slot, it answers into it."""

    def __init__(self, broker: Broker, header: RequestHeader, frame: memoryview, connection: Connection) -> None:
        self._broker = broker
        self._header = header
        self._connection = connection
        self._reading = read_fetch_in_steps(frame, header.body_at, len(frame), header.version)
        self._began_at = asyncio.get_running_loop().time()
        self._parked: dict[Partition, PartitionKey] = {}
        self._grown: dict[PartitionKey, None] = {}  # to be looked at again
        self._ahead: dict[Partition, None] = {}  # what is wanted of them is being synced
        self._news = asyncio.Event()
        self._is_hurried = False

    def __call__(self, slot: Slot) -> None:
        slot.on_hurry = self._hurry  # when its client is gone it is cancelled
        slot.continue_with(self._answer())

    async def _answer(self) -> Answer:
        request = await finish(self._reading)
        try:
            fetch = await _Beginning(self._broker, self._header, request).fetch(self._connection)
        except BarnabasError as error:
            return encode(self._header, [], error_code=error.kafka_code)
        try:
            async for key in in_turns(fetch.wanted, per_turn=LOOKS_PER_TURN):
                self._look_at(fetch, key)
            await self._wait(fetch, lambda: fetch.must_wait, until=self._began_at + request.max_wait_ms / 1000)
            until = asyncio.get_running_loop().time() + SYNC_WAIT_S
            await self._wait(fetch, lambda: bool(self._ahead) and fetch.has_nothing, until=until)
            await self._stop_waiting()
        finally:
            for partition in self._parked:
                partition.stop_waiting(self)
        await self._read(fetch)
        return await self._write(fetch)

    # Looking and waiting

    def _look_at(self, fetch: OneFetch, key: PartitionKey) -> None:
        """Look at a partition, and park on it in the same turn, so that nothing that comes after is missed."""
        found = fetch.look_at(key)
        if not isinstance(found, Found):
            return
        partition = found.partition
        if is_ahead(found):
            self._ahead[partition] = None
        elif not fetch.must_wait:
            return
        self._parked[partition] = key
        partition.wait_for_growth(self)

    def note_growth(self, partition: Partition) -> None:
        """This one has more, or is gone."""
        key = self._parked.get(partition)
        if key is not None:
            self._ahead.pop(partition, None)
            self._grown[key] = None
            self._news.set()

    def _hurry(self) -> None:
        self._is_hurried = True
        self._news.set()

    async def _wait(self, fetch: OneFetch, must_wait: Callable[[], bool], *, until: float) -> None:
        """Look at what grows for as long as there is something to wait for."""
        loop = asyncio.get_running_loop()
        while True:
            grown, self._grown = self._grown, {}
            async for key in in_turns(grown, per_turn=LOOKS_PER_TURN):
                self._look_at(fetch, key)
            if not must_wait() or self._is_hurried or loop.time() >= until:
                return
            self._news.clear()
            if not self._grown:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(until):
                        await self._news.wait()

    async def _stop_waiting(self) -> None:
        while self._parked:
            for _ in range(min(PER_CHEAP_TURN, len(self._parked))):
                partition, _ = self._parked.popitem()
                partition.stop_waiting(self)
            await next_turn()

    # Answering

    async def _read(self, fetch: OneFetch) -> None:
        """Read what was found: at once what is in memory, the rest on a thread."""
        found = [
            each
            async for each in in_turns(fetch.found.values(), per_turn=PER_CHEAP_TURN)
            if isinstance(each, Found) and (each.slice is not None or each.plan is not None)
        ]
        is_complete = True
        max_bytes = self._connection.max_read_bytes
        async for some in pieces(found):
            is_complete &= self._broker.fetch.read_now(some, max_bytes=max_bytes)
            max_bytes -= _size_of(some)
        if is_complete:
            return
        is_first = not any(each.records for each in found)
        with self._connection.reading() as left:
            max_bytes = left
            async for some in pieces(found):
                await self._broker.fetch.read(some, max_bytes=max(max_bytes, 0), is_first=is_first)
                is_first = is_first and not any(each.records for each in some)
                max_bytes -= _size_of(some)

    async def _write(self, fetch: OneFetch) -> Answer:
        async for key, found in in_turns(fetch.found.items()):
            fetch.tell(key, found)
        topics = [as_topic(name, each) async for name, each in in_turns(fetch.told.items(), per_turn=PER_CHEAP_TURN)]
        body = await finish(write_fetch_in_steps(self._header.version, topics, session_id=fetch.session_id))
        return [answer_head(self._header, sum(map(len, body))), *body]


class _Beginning:
    """What a request and its session want together."""

    def __init__(self, broker: Broker, header: RequestHeader, request: FetchRequest) -> None:
        self._broker = broker
        self._header = header
        self._request = request

    async def fetch(self, connection: Connection) -> OneFetch:
        wanted: dict[PartitionKey, Wanted] = {}
        places = in_turns(_take_partitions(self._request), per_turn=PER_CHEAP_TURN)
        async for topic, each in places:
            wanted[PartitionKey(topic, each.partition)] = Wanted(
                each.fetch_offset, each.max_bytes, each.current_leader_epoch, each.last_fetched_epoch
            )
        is_incremental = self._request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH)
        session: Session | None
        if is_incremental:
            session = await self._go_on(wanted)
            known = in_turns(list(session.partitions.items()), per_turn=PER_CHEAP_TURN)
            wanted = {key: each.wanted async for key, each in known}
        else:
            session = await self._begin(wanted)
        return OneFetch(
            self._broker, self._header, self._request, wanted, session, connection, is_incremental=is_incremental
        )

    async def _begin(self, wanted: dict[PartitionKey, Wanted]) -> Session | None:
        sessions = self._broker.fetch_sessions
        sessions.end(self._request.session_id)
        if self._request.session_epoch == FINAL_EPOCH:
            return None
        first = dict(islice(wanted.items(), 1))
        session = sessions.begin(first, uses_topic_ids=self._uses_ids, now_s=asyncio.get_running_loop().time())
        if session is not None:
            async for key, each in in_turns(wanted.items(), per_turn=PER_CHEAP_TURN):
                session.want(key, each)
        return session

    async def _go_on(self, wanted: dict[PartitionKey, Wanted]) -> Session:
        request = self._request
        session = self._broker.fetch_sessions.go_on(
            request.session_id,
            request.session_epoch,
            {},
            [],
            uses_topic_ids=self._uses_ids,
            now_s=asyncio.get_running_loop().time(),
        )
        async for key, each in in_turns(wanted.items(), per_turn=PER_CHEAP_TURN):
            session.want(key, each)
        forgotten = (PartitionKey(topic, each) for topic, partitions in request.forgotten for each in partitions)
        async for key in in_turns(forgotten, per_turn=PER_CHEAP_TURN):
            session.forget(key)
        return session

    @property
    def _uses_ids(self) -> bool:
        return self._header.version >= TOPIC_IDS_FROM


def _take_partitions(request: FetchRequest) -> Iterator[tuple[str | UUID, FetchPartition]]:
    """The partitions of a request, which it has not any more then: what is alive is gone over by the collector."""
    for topic, partitions in request.topics:
        for each in partitions:
            yield topic, each
        partitions.clear()
    request.topics.clear()


def _size_of(found: Sequence[Found]) -> int:
    """How many bytes of records were read."""
    return sum(len(each.records) for each in found if not isinstance(each.records, UnreadRecords))
