"""A request to read very many partitions: it is handled in turns with all other work.

It does what a small one does (`fetch_round`), a few partitions at a time, and registers as a waiter on each. Partitions
that grow meanwhile notify it, and only those are looked at again. An await is a gap: a topic may be deleted, or another
one take its name, between two turns. Its waiters are notified; located records that no longer exist are left out when
they are read.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from barnabas.core.fetched import FetchPartition, FetchRequest, PartitionKey
from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import in_turns, next_turn, pieces
from barnabas.services.fetch import Found, UnreadRecords
from barnabas.services.fetch_round import FetchRound, FetchRounds, Room, is_ahead
from barnabas.services.fetch_sessions import goes_on
from barnabas.services.session import Session
from barnabas.services.syncing import SYNC_WAIT_S
from barnabas.services.watermark_news import WatermarkNews

LOOKS_PER_TURN: Final = 25
"""Partitions with records in one turn."""

PER_CHEAP_TURN: Final = 250
"""Elements in one turn, each of a microsecond or two."""


class FetchInTurns:
    """Handles one request, from now on: its `max_wait_ms` runs while the request is still being decoded."""

    def __init__(self, rounds: FetchRounds, client: Session, room: Room) -> None:
        self._rounds = rounds
        self._client = client
        self._room = room
        self._began_at = asyncio.get_running_loop().time()
        self._parked: dict[Partition, PartitionKey] = {}
        self._grown: dict[PartitionKey, None] = {}  # to be looked at again
        self._ahead: dict[Partition, None] = {}  # what is wanted of them is being synced
        self._news = asyncio.Event()
        self._is_hurried = False
        self._begun: FetchRound | None = None
        self._watermarks = WatermarkNews(self.hurry)

    def hurry(self) -> None:
        """Stop waiting: answer with what is available."""
        self._is_hurried = True
        self._news.set()

    async def begin(self, request: FetchRequest) -> FetchRound:
        """The round of a request, without any lookup yet. Refused if its fetch session is."""
        wanted: dict[PartitionKey, FetchPartition] = {}
        places = ((topic, each) for topic, partitions in request.topics for each in partitions)
        async for topic, each in in_turns(places, per_turn=PER_CHEAP_TURN):
            wanted[PartitionKey(topic, each.partition)] = each
        now_s = asyncio.get_running_loop().time()
        session = await self._rounds.sessions.take_in_turns(request, wanted, now_s=now_s)
        if session is not None:
            self._rounds.visit(self._client, session, request)
            if goes_on(request):
                known = in_turns(list(session.ready), per_turn=PER_CHEAP_TURN)
                wanted = {key: session.partitions[key].wanted async for key in known if key in session.partitions}
        request = request._replace(topics=[], forgotten=[])  # what is alive is gone over by the collector
        return FetchRound(self._rounds, self._client, request, wanted, session, self._room)

    async def finish(self, begun: FetchRound) -> None:
        """Look at all partitions, wait for as long as the client does, and read what was found."""
        self._begun = begun
        resting = begun.resting
        try:
            if resting is not None:
                resting.listener = self
            async for key in in_turns(list(begun.wanted), per_turn=LOOKS_PER_TURN):
                self._look_at(begun, key)
            await self._wait(begun, lambda: begun.must_wait, until=self._began_at + begun.max_wait_s)
            until = asyncio.get_running_loop().time() + SYNC_WAIT_S
            await self._wait(begun, lambda: bool(self._ahead) and begun.has_nothing, until=until)
            await self._stop_waiting()
            begun.look_at_news()
        finally:
            if resting is not None and resting.listener is self:
                resting.listener = None
            self._watermarks.cancel()
            for partition in self._parked:
                self._leave(partition)
        await self._read(begun)

    # Looking and waiting

    def _look_at(self, begun: FetchRound, key: PartitionKey) -> None:
        """Look at a partition, and register as its waiter in the same turn, so that no append is missed."""
        found = begun.look_at(key)
        if not isinstance(found, Found):
            return
        partition = found.partition
        if is_ahead(found):
            self._ahead[partition] = None
        elif not begun.must_wait:
            return
        self._parked[partition] = key
        begun.wait_at(partition, self)
        if begun.passes_watermarks_on:
            begun.wait_for_watermark(key, self._watermarks)

    def note_growth(self, partition: Partition) -> None:
        """A partition has grown, or is gone."""
        key = self._parked.get(partition)
        if key is not None:
            self._ahead.pop(partition, None)
            self._grown[key] = None
            self._news.set()

    def note_append(self, key: PartitionKey, partition: Partition) -> None:
        """A partition that rested in the session of a follower may have records."""
        if self._begun is not None:
            self._begun.add(key, partition)
            self._grown[key] = None
            self._news.set()

    def note_watermark(self, partition: Partition) -> None:
        """The high watermark of a partition that rested has moved."""
        if self._begun is not None and self._begun.passes_watermarks_on:
            self._watermarks.note_growth(partition)

    async def _wait(self, begun: FetchRound, must_wait: Callable[[], bool], *, until: float) -> None:
        """Look at partitions that grow for as long as there is something to wait for."""
        loop = asyncio.get_running_loop()
        while True:
            grown, self._grown = self._grown, {}
            async for key in in_turns(grown, per_turn=LOOKS_PER_TURN):
                self._look_at(begun, key)
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
                self._leave(partition)
            await next_turn()

    def _leave(self, partition: Partition) -> None:
        partition.stop_waiting(self)
        partition.stop_waiting(self._watermarks)

    # Reading

    async def _read(self, begun: FetchRound) -> None:
        """Read what was located: at once what is in memory, the rest on a thread."""
        fetch, room = self._rounds.fetch, self._room
        found = [
            each
            async for each in in_turns(begun.found.values(), per_turn=PER_CHEAP_TURN)
            if isinstance(each, Found) and (each.slice is not None or each.plan is not None)
        ]
        is_complete = True
        max_bytes = room.max_read_bytes
        async for some in pieces(found):
            is_complete &= fetch.read_now(some, max_bytes=max_bytes)
            max_bytes -= _size_of(some)
        if is_complete:
            return
        is_first = not any(each.records for each in found)
        with room.reading() as left:
            max_bytes = left
            async for some in pieces(found):
                await fetch.read(some, max_bytes=max(max_bytes, 0), is_first=is_first)
                is_first = is_first and not any(each.records for each in some)
                max_bytes -= _size_of(some)


def _size_of(found: Sequence[Found]) -> int:
    """How many bytes of records were read."""
    return sum(len(each.records) for each in found if not isinstance(each.records, UnreadRecords))
