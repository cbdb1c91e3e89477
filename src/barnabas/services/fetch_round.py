"""A whole fetch request, from any edge: all its partitions, its fetch session, how long it waits and how much it may
hold.

`FetchRounds.begin` looks at the partitions. A `FetchRound` that `is_ready` has enough records, or nothing to wait for;
any other calls back when it is ready, or the client's wait time is up. Only sizes are looked at until then, so nothing
is read twice. Then `read_now` reads what is in memory; False means that `read` must read the rest. An edge makes its
answer from the partitions in `found` that belong in it (`is_told`).

A request for very many partitions takes turns with everything else: `fetch_in_turns`.

Must not know: where a request came from, and how it is answered.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeGuard

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.access.resources import topic as topic_resource
from barnabas.core.errors import BarnabasError, UnknownTopicId, UnknownTopicOrPartition
from barnabas.core.fetched import READ_COMMITTED, FetchPartition, FetchRequest, PartitionKey
from barnabas.core.model import NO_NODE
from barnabas.runtime.partition import Partition
from barnabas.runtime.watermark import GrowthWaiter
from barnabas.services.access import Access
from barnabas.services.closest_replicas import ClosestReplicas
from barnabas.services.fetch import Fetch, Found, Replica
from barnabas.services.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchSession, FetchSessions, goes_on
from barnabas.services.served import ServedTopics
from barnabas.services.session import Session
from barnabas.services.syncing import SYNC_WAIT_S, UnsyncedEnds
from barnabas.services.watermark_news import WatermarkNews

MAX_AT_ONCE: Final = 128
"""The most partitions of a session that are handled at once. More take turns with all other work."""

_ALL_SYNCED: Final = UnsyncedEnds(())


class Room(Protocol):
    """Memory for records read for a client, until the client has received them."""

    @property
    def max_read_bytes(self) -> int:
        """How many bytes may be read at once."""
        ...

    def reading(self) -> AbstractContextManager[int]:
        """While something is read on a thread: how many bytes may be read; they count against the budget."""
        ...


class FetchRounds:
    """The verb: take whole requests."""

    def __init__(
        self,
        fetch: Fetch,
        sessions: FetchSessions,
        served: ServedTopics,
        access: Access,
        *,
        max_bytes: int,
        closest: ClosestReplicas | None = None,
    ) -> None:
        """`closest` chooses replicas for consumers that say where they are; without it they read from leaders."""
        self.fetch = fetch
        self.closest = closest
        self.sessions = sessions
        self.served = served
        self.access = access
        self.max_bytes = max_bytes  # of one answer, whatever is asked for

    def takes_turns(self, request: FetchRequest) -> bool:
        """Whether a request that names few partitions belongs to a session with many."""
        return request.session_id != NO_SESSION and self.sessions.size_of(request.session_id) > MAX_AT_ONCE

    def begin(self, client: Session, request: FetchRequest, room: Room) -> "FetchRound":
        """A round that has looked at its partitions. Refused if its session does not exist or is out of sequence."""
        wanted = {
            PartitionKey(topic, each.partition): each for topic, partitions in request.topics for each in partitions
        }
        session = None
        if request.session_id != NO_SESSION or request.session_epoch != FINAL_EPOCH:
            session = self.sessions.take(request, wanted, now_s=asyncio.get_running_loop().time())
            if session is not None and goes_on(request):
                wanted = {key: each.wanted for key, each in session.partitions.items()}
        begun = FetchRound(self, client, request, wanted, session, room)
        begun.look()
        return begun


class FetchRound:
    """One request: what it wants, what was found, and when that is enough."""

    __slots__ = (
        "_access",
        "_client",
        "_closest",
        "_fetch",
        "_is_committed",
        "_is_urgent",
        "_max_bytes",
        "_refusals",
        "_request",
        "_room",
        "_served",
        "_session",
        "_size",
        "_unsynced",
        "found",
        "is_replica",
        "partitions",
        "wanted",
    )

    def __init__(
        self,
        rounds: FetchRounds,
        client: Session,
        request: FetchRequest,
        wanted: dict[PartitionKey, FetchPartition],
        session: FetchSession | None,
        room: Room,
    ) -> None:
        self._fetch = rounds.fetch
        self._closest = rounds.closest
        self._served = rounds.served
        self._access = rounds.access
        self._client = client
        self._request = request
        self._room = room
        self._session = session
        self._max_bytes = min(request.max_bytes, rounds.max_bytes)
        self._is_committed = request.isolation_level == READ_COMMITTED
        self.is_replica = request.replica_id >= 0  # -1 is a consumer, -2 a debugging one
        self.wanted = wanted
        self.partitions: dict[PartitionKey, Partition] = {}
        self.found: dict[PartitionKey, Found | BarnabasError] = {}
        self._refusals: dict[type[BarnabasError], BarnabasError] | None = None
        self._size = 0
        self._is_urgent = False  # an error or a divergence is told at once
        self._unsynced = _ALL_SYNCED

    @property
    def session_id(self) -> int:
        return NO_SESSION if self._session is None else self._session.session_id

    # Whether it can be answered

    @property
    def is_ready(self) -> bool:
        """Whether there is nothing to wait for."""
        return not (self.must_wait or self.note_unsynced())

    @property
    def must_wait(self) -> bool:
        """Whether there is less than `min_bytes`, and the client has not waited yet."""
        request = self._request
        return self._size < request.min_bytes and request.max_wait_ms > 0 and not self._is_urgent and bool(self.wanted)

    @property
    def has_nothing(self) -> bool:
        """Whether nothing was found that must be answered."""
        return not self._size and not self._is_urgent

    def note_unsynced(self) -> bool:
        """Whether nothing was found, and there will be something when the sync in progress is done."""
        if self._size or self._is_urgent:
            return False
        self._unsynced = UnsyncedEnds(each.partition for each in self.found.values() if is_ahead(each))
        return self.awaits_sync

    @property
    def awaits_sync(self) -> bool:
        """Whether there is still nothing, and the noted partitions are not synced."""
        return self.has_nothing and bool(self._unsynced)

    def call_when_ready(self, on_ready: Callable[[], None]) -> "LongPoll":
        """Call back once, when there is enough or the wait time is up; returns an object to cancel or hurry it."""
        return LongPoll(self, on_ready)

    @property
    def max_wait_s(self) -> float:
        """How long the client waits."""
        return self._request.max_wait_ms / 1000

    # Looking

    def look(self) -> None:
        """Look at all partitions."""
        self.found.clear()
        self._size = 0
        for key, wanted in self.wanted.items():
            self._look_at(key, wanted)

    def look_at(self, key: PartitionKey) -> Found | BarnabasError:
        """Look at one partition, in addition to what was found in the others."""
        known = self.found.get(key)
        if isinstance(known, Found):
            self._size -= known.size
        self._look_at(key, self.wanted[key])
        return self.found[key]

    def _look_at(self, key: PartitionKey, wanted: FetchPartition) -> None:
        max_bytes, is_first = self._max_bytes - self._size, self._size == 0
        try:
            if self.is_replica:
                replica = None if key in self.partitions else self._replica
                partition = self._partition(key)
                found = self._fetch.look_for_replica(partition, wanted, replica, max_bytes=max_bytes, is_first=is_first)
            else:
                partition = self._partition(key)
                rack = self._request.rack
                found = self._fetch.look(
                    partition,
                    wanted,
                    is_committed=self._is_committed,
                    max_bytes=max_bytes,
                    is_first=is_first,
                    at_any=bool(rack),
                    preferred=self._find_preferred(partition, wanted) if rack else NO_NODE,
                )
        except BarnabasError as error:
            self._refuse(key, error)
            return
        self.found[key] = found
        self._size += found.size
        if found.diverging is not None or found.preferred != NO_NODE:
            self._is_urgent = True

    def _find_preferred(self, partition: Partition, wanted: FetchPartition) -> int:
        """The replica that a consumer should read a partition from instead, if there is one closer to it."""
        if self._closest is None or not partition.is_led or partition.is_alone:
            return NO_NODE
        return self._closest.find(partition, wanted.fetch_offset, rack=self._request.rack)

    def _refuse(self, key: PartitionKey, error: BarnabasError) -> None:
        # One for all that are refused alike, without its frames, which know this round: many are dear to collect.
        if self._refusals is None:
            self._refusals = {}
        self.found[key] = self._refusals.setdefault(type(error), error.with_traceback(None))
        self._is_urgent = True

    @property
    def _replica(self) -> Replica:
        return Replica(self._request.replica_id, self._request.replica_epoch)

    def wait_at(self, partition: Partition, waiter: GrowthWaiter) -> None:
        """Have somebody called when a partition has more for this request."""
        if self.is_replica:
            partition.wait_for_append(waiter)
        else:
            partition.wait_for_growth(waiter)

    @property
    def passes_watermarks_on(self) -> bool:
        """Whether a follower asks to whom consumers are sent: they wait for it to know the high watermark."""
        return self.is_replica and self._closest is not None and self._session is not None

    def wait_for_watermark(self, key: PartitionKey, news: WatermarkNews) -> None:
        """Have somebody called when the high watermark of a partition moves, or is another one than was told last."""
        found = self.found.get(key)
        if isinstance(found, Found) and self._session is not None:
            found.partition.wait_for_growth(news)
            if self._session.has_news(key, found.partition.high_watermark):
                news.note_growth(found.partition)

    def _partition(self, key: PartitionKey) -> Partition:
        name = key.topic
        topic = self._served.by_name.get(name) if isinstance(name, str) else self._served.by_id.get(name)
        if self.is_replica:
            if not self._access.is_open:
                self._access.authorize(self._client, Operation.CLUSTER_ACTION, CLUSTER)
        elif not self._access.is_open and (topic is not None or isinstance(name, str)):
            named = str(name) if topic is None else topic.name
            self._access.authorize(self._client, Operation.READ, topic_resource(named))
        if topic is None:
            if isinstance(name, str):
                raise UnknownTopicOrPartition(f"topic '{name}' does not exist")
            raise UnknownTopicId(f"topic id {name} does not exist")
        partition = topic.get(key.partition)
        self.partitions[key] = partition
        return partition

    # Reading and telling

    def read_now(self) -> bool:
        """Read what is in memory; False if something is left for `read`."""
        return self._fetch.read_now(self._located(), max_bytes=self._room.max_read_bytes)

    async def read(self) -> None:
        """Read the rest, on a thread."""
        with self._room.reading() as max_bytes:
            await self._fetch.read(self._located(), max_bytes=max_bytes)

    def _located(self) -> list[Found]:
        return [each for each in self.found.values() if isinstance(each, Found)]

    def is_told(self, key: PartitionKey, found: Found | BarnabasError) -> bool:
        """Whether a partition belongs in the answer: in an incremental fetch only if it has changed.

        To be called once for each: the change then counts as sent.
        """
        if self.is_replica and isinstance(found, Found) and found.partition.leader_epoch == found.leader_epoch:
            found.high_watermark = found.partition.high_watermark  # which may have moved since records were looked for
        session = self._session
        return session is None or session.note_told(key, found, is_full=not goes_on(self._request))


class LongPoll:
    """Waits for the partitions of a round to grow.

    If its time is up with nothing found, it waits a little longer for records that are being synced (`syncing`): a
    client that was told that they are written must find them, however short its wait.
    """

    __slots__ = ("_is_done", "_is_overdue", "_is_scheduled", "_loop", "_news", "_on_ready", "_round", "_timer")

    def __init__(self, waiting: FetchRound, on_ready: Callable[[], None]) -> None:
        self._round = waiting
        self._on_ready = on_ready
        self._is_done = self._is_scheduled = self._is_overdue = False
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(waiting.max_wait_s, self._on_time)
        self._news = WatermarkNews(self.hurry) if waiting.passes_watermarks_on else None
        if self._news is not None:
            for key in waiting.partitions:
                waiting.wait_for_watermark(key, self._news)
        self._park()

    def _park(self) -> None:
        for partition in self._round.partitions.values():
            self._round.wait_at(partition, self)

    def note_growth(self, _: Partition) -> None:
        """A partition has grown; look once for all that grew in this turn of the loop."""
        if not self._is_scheduled and not self._is_done:
            self._is_scheduled = True
            self._loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        self._is_scheduled = False
        if self._is_done:
            return
        self._round.look()
        if self._round.awaits_sync if self._is_overdue else self._round.must_wait:
            self._park()
        else:
            self.hurry()

    def _on_time(self) -> None:
        """The client's wait time is up."""
        if self._is_overdue or not self._round.note_unsynced():
            self.hurry()
            return
        self._is_overdue = True
        self._timer = self._loop.call_later(SYNC_WAIT_S, self._on_time)

    def cancel(self) -> None:
        """The client is gone."""
        self._is_done = True
        self._timer.cancel()
        for partition in self._round.partitions.values():
            partition.stop_waiting(self)
        if self._news is not None:
            self._news.cancel()
            for partition in self._round.partitions.values():
                partition.stop_waiting(self._news)

    def hurry(self) -> None:
        """Be ready now, with what is available."""
        if not self._is_done:
            self.cancel()
            self._on_ready()


def is_ahead(found: Found | BarnabasError) -> TypeGuard[Found]:
    """Whether the client is at the high watermark, and the log has more."""
    if not isinstance(found, Found) or not found.partition.is_behind:
        return False
    return found.high_watermark <= found.offset < found.partition.end_offset
