"""A whole fetch request, from any edge: all its partitions, its fetch session, how long it waits and how much it may
hold.

`FetchRounds.begin` looks at the partitions. A `FetchRound` that `is_ready` has enough records, or nothing to wait for;
any other is waited for (`long_poll`) until it is, or the client's wait time is up. Only sizes are looked at until then,
so nothing is read twice. Then `read_now` reads what is in memory; False means that `read` must read the rest. An edge
makes its answer from the partitions in `found` that belong in it (`is_told`).

A request for very many partitions takes turns with everything else: `fetch_in_turns`.

Must not know: where a request came from, and how it is answered.
"""

import asyncio
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeGuard

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.access.resources import topic as topic_resource
from barnabas.core.errors import BarnabasError, TopicAuthorizationFailed, UnknownTopicId, UnknownTopicOrPartition
from barnabas.core.fetched import READ_COMMITTED, FetchPartition, FetchRequest, PartitionKey
from barnabas.core.model import NO_NODE
from barnabas.runtime.led_replicas import LedReplicas
from barnabas.runtime.partition import Partition
from barnabas.runtime.watermark import GrowthWaiter
from barnabas.services.access import Access
from barnabas.services.closest_replicas import ClosestReplicas
from barnabas.services.fetch import Fetch, FetchingReplica, Found
from barnabas.services.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchSession, FetchSessions, goes_on
from barnabas.services.resting_partitions import RestingPartitions
from barnabas.services.served import ServedTopics
from barnabas.services.session import Session
from barnabas.services.syncing import UnsyncedEnds
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
            if session is not None:
                self.visit(client, session, request)
                if goes_on(request):
                    wanted = {key: session.partitions[key].wanted for key in session.ready}
        begun = FetchRound(self, client, request, wanted, session, room)
        begun.look()
        return begun

    def visit(self, client: Session, session: FetchSession, request: FetchRequest) -> None:
        """A request of a session begins. A follower that may do so no longer is refused everything."""
        session.visit(request, now_ms=LedReplicas.now_ms())
        if session.resting is not None and not self.access.is_open:
            try:
                self.access.authorize(client, Operation.CLUSTER_ACTION, CLUSTER)
            except BarnabasError:
                session.resting.wake_all()


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

    @property
    def size(self) -> int:
        """Bytes of records that were found."""
        return self._size

    @property
    def is_first_of_session(self) -> bool:
        """Whether this request has begun its session."""
        return self._session is not None and not goes_on(self._request)

    # Whether it can be answered

    @property
    def is_ready(self) -> bool:
        """Whether there is nothing to wait for."""
        return not (self.must_wait or self.note_unsynced())

    @property
    def must_wait(self) -> bool:
        """Whether there is less than `min_bytes`, and the client has not waited yet."""
        request = self._request
        if self._size >= request.min_bytes or request.max_wait_ms <= 0 or self._is_urgent:
            return False
        return bool(self.wanted) or bool(self.resting)

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

    def look_at(self, key: PartitionKey) -> Found | BarnabasError | None:
        """Look at one partition, in addition to what was found in the others; None if it has left the session."""
        wanted = self.wanted.get(key)
        if wanted is None:
            known = None if self._session is None else self._session.partitions.get(key)
            if known is None:
                return None
            wanted = self.wanted[key] = known.wanted
        found = self.found.get(key)
        if isinstance(found, Found):
            self._size -= found.size
        self._look_at(key, wanted)
        return self.found[key]

    @property
    def resting(self) -> RestingPartitions | None:
        """The partitions of a follower's session that are not looked at until they change."""
        return None if self._session is None else self._session.resting

    def add(self, key: PartitionKey, partition: Partition) -> None:
        """A partition that rested when the request began is to be looked at, too. Its follower was heard already."""
        if key not in self.wanted:
            self.partitions[key] = partition

    def find_news(self) -> list[PartitionKey]:
        """The partitions of a follower's session that have changed since they were last told, and are not found yet."""
        return [] if self.resting is None else [key for key in self.resting.ready if key not in self.found]

    def look_at_news(self) -> None:
        """Look at what has changed in resting partitions, to tell it along with the rest: of very many some."""
        for key in self.find_news()[:MAX_AT_ONCE]:
            partition = self.partitions.get(key)
            if partition is None and self.resting is not None:
                partition = self.resting.find(key)
            if partition is not None:
                self.add(key, partition)
                self.look_at(key)

    def _look_at(self, key: PartitionKey, wanted: FetchPartition) -> None:
        max_bytes, is_first = self._max_bytes - self._size, self._size == 0
        try:
            if self.is_replica:
                replica = None if key in self.partitions else self._replica
                partition = self._partition(key)
                found = self._fetch.look_for_replica(
                    partition,
                    wanted,
                    replica,
                    max_bytes=max_bytes,
                    is_first=is_first,
                    is_held_back=partition.throttle.sending is not None and self._is_held_back(partition),
                )
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

    def _is_held_back(self, partition: Partition) -> bool:
        """Whether a follower that is not in sync is throttled."""
        replica_id, now_ms = self._request.replica_id, LedReplicas.now_ms()
        return partition.throttle.holds_back(replica_id, partition.in_sync, now_ms=now_ms)

    def _note_sent(self, partition: Partition, size: int) -> None:
        replica_id, now_ms = self._request.replica_id, LedReplicas.now_ms()
        partition.throttle.note_sent(replica_id, partition.in_sync, size, now_ms=now_ms)

    def _find_preferred(self, partition: Partition, wanted: FetchPartition) -> int:
        """The replica that a consumer should read a partition from instead, if there is one closer to it."""
        if self._closest is None or not partition.is_led or partition.is_alone:
            return NO_NODE
        return self._closest.find(partition, wanted.fetch_offset, rack=self._request.rack)

    def _refuse(self, key: PartitionKey, error: BarnabasError) -> None:
        # One for all that are refused alike, without its frames, which know this round: many are dear to collect.
        if self._refusals is None:
            self._refusals = {}
        if key in self.partitions:
            self.partitions[key].traffic.failed_fetches += 1
        self.found[key] = self._refusals.setdefault(type(error), error.with_traceback(None))
        self._is_urgent = True

    @property
    def _replica(self) -> FetchingReplica:
        return FetchingReplica(self._request.replica_id, self._request.replica_epoch)

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
            if not self._access.is_open and not self._access.allows(self._client, Operation.CLUSTER_ACTION, CLUSTER):
                raise TopicAuthorizationFailed(f"not allowed: replicating {key}")  # as in Kafka, not the cluster's code
        elif not self._access.is_open and (topic is not None or isinstance(name, str)):
            resource = topic_resource(str(name)) if topic is None else topic.resource
            self._access.authorize(self._client, Operation.READ, resource)
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
        if (
            self.is_replica
            and isinstance(found, Found)
            and found.records
            and found.partition.throttle.sending is not None
        ):
            self._note_sent(found.partition, len(found.records))
        if isinstance(found, Found) and found.records:
            if self.is_replica:
                found.partition.traffic.replica_bytes_out += len(found.records)
            else:
                found.partition.traffic.bytes_out += len(found.records)
        session = self._session
        return session is None or session.note_told(key, found, is_full=not goes_on(self._request))


def is_ahead(found: Found | BarnabasError) -> TypeGuard[Found]:
    """Whether the client is at the high watermark, and the log has more."""
    if not isinstance(found, Found) or not found.partition.is_behind:
        return False
    return found.high_watermark <= found.offset < found.partition.end_offset
