"""Fetching from one leader: all partitions that this node follows there, over one connection, in one fetch session.

One request is under way at a time. While records that were fetched are being synced the leader must not keep the next
request waiting, or it would hear of the sync only when there is something new. Such a request does not wait there. It
is sent when a sync has ended, or at once while there is much to fetch: so a busy follower fetches on while it syncs. A
leader without news has one request waiting.

A partition that is refused is left out of the session for a while; what one meets, the others do not notice. When the
leader cannot be reached, or forgets the session, everything is told it anew.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

from barnabas.core.errors import (
    BarnabasError,
    FencedLeaderEpoch,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OffsetOutOfRange,
)
from barnabas.core.model import NO_OFFSET
from barnabas.core.replica.leader_epochs import EpochEnd
from barnabas.runtime.following import Fetched, Following, Next
from barnabas.runtime.led_replicas import LedReplicas
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.other_brokers import Ask
from barnabas.runtime.replicating.session import FollowerSession, Limits, Self, TopicIdPartition
from barnabas.runtime.turns import in_turns
from barnabas.wire.apis import FETCH, LIST_OFFSETS
from barnabas.wire.writing import Values

log = get_logger("barnabas.replicas")

PURPOSE: Final = "replicas"
MUCH_BYTES: Final = 64 * 1024
"""An answer with so many bytes is likely to be followed by another: it is asked for while this one is synced."""
PARTITIONS_PER_TURN: Final = 25
_IDS_FROM: Final = 15  # the version from which on a replica tells its broker epoch
_LATEST: Final = -1
_EARLIEST: Final = -2
_REFUSALS: Final[dict[int, type[BarnabasError]]] = {
    each.kafka_code: each for each in (FencedLeaderEpoch, OffsetOutOfRange, NotLeaderOrFollower)
}


class FetcherConfig(Protocol):
    """Kafka's settings of how followers fetch."""

    @property
    def replica_fetch_max_bytes(self) -> int: ...
    @property
    def replica_fetch_response_max_bytes(self) -> int: ...
    @property
    def replica_fetch_min_bytes(self) -> int: ...
    @property
    def replica_fetch_wait_max_ms(self) -> int: ...
    @property
    def replica_fetch_backoff_ms(self) -> int: ...
    @property
    def replica_socket_timeout_ms(self) -> int: ...


class Fetcher:
    """Fetches from one node; `run` is its task."""

    def __init__(self, leader_id: int, brokers: Ask, config: FetcherConfig, who: Callable[[], Self]) -> None:
        self._leader_id = leader_id
        self._brokers = brokers
        self._config = config
        self._who = who
        self._session = FollowerSession()
        self._registered_as = NO_OFFSET  # the broker epoch that the session was begun with
        self._followed: dict[TopicIdPartition, Following] = {}
        self._due: dict[TopicIdPartition, None] = {}  # to be asked for anew
        self._forgotten: set[TopicIdPartition] = set()
        self._resting: dict[TopicIdPartition, asyncio.TimerHandle] = {}
        self._unsynced: set[TopicIdPartition] = set()
        self._has_much = False
        self._news = asyncio.Event()  # there is something that the leader should hear

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to fetch."""
        return not self._followed

    def follow(self, place: TopicIdPartition, following: Following) -> None:
        """Fetch a partition from now on, in place of what was fetched of it before. The same again changes nothing."""
        if self._followed.get(place) is following:
            return
        self.leave(place)
        self._followed[place] = following
        following.on_flushed = lambda: self._note_flushed(place)
        self._want_now(place)

    def leave(self, place: TopicIdPartition) -> None:
        """Fetch a partition no longer."""
        following = self._followed.pop(place, None)
        if following is not None:
            following.on_flushed = None
            self._put_aside(place)
            timer = self._resting.pop(place, None)
            if timer is not None:
                timer.cancel()

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            while not self._followed:
                self._news.clear()
                await self._news.wait()
            try:
                await self._fetch()
            except BarnabasError as error:  # whatever another node does, this one goes on
                log.info("node %s cannot be fetched from: %s", self._leader_id, error)
                self._begin_anew()
                await asyncio.sleep(self._pause_s)

    @property
    def _pause_s(self) -> float:
        return self._config.replica_fetch_backoff_ms / 1000

    # What is to be asked for

    def _want(self, place: TopicIdPartition) -> None:
        self._due[place] = None
        self._forgotten.discard(place)

    def _want_now(self, place: TopicIdPartition) -> None:
        self._want(place)
        self._news.set()

    def _put_aside(self, place: TopicIdPartition) -> None:
        """Leave a partition out of the session."""
        self._due.pop(place, None)
        self._unsynced.discard(place)
        self._forgotten.add(place)
        self._news.set()

    def _rest(self, place: TopicIdPartition) -> None:
        """Leave a partition out for a while."""
        self._put_aside(place)
        loop = asyncio.get_running_loop()
        self._resting[place] = loop.call_later(self._pause_s, self._end_rest, place)

    def _end_rest(self, place: TopicIdPartition) -> None:
        if _is_throttled(self._followed[place]):
            self._resting[place] = asyncio.get_running_loop().call_later(self._pause_s, self._end_rest, place)
            return
        del self._resting[place]
        self._want_now(place)

    def _note_flushed(self, place: TopicIdPartition) -> None:
        if place not in self._resting:
            self._want_now(place)

    def _begin_anew(self) -> None:
        """Tell the leader everything again."""
        for place, fetch in self._session.reset().items():
            following = self._followed.get(place)
            if following is not None:
                following.give_up(fetch)
        self._forgotten.clear()
        self._due = dict.fromkeys(place for place in self._followed if place not in self._resting)

    # A request and its answer

    async def _fetch(self) -> None:
        who = self._who()
        if who.broker_epoch != self._registered_as:
            self._begin_anew()
            self._registered_as = who.broker_epoch
        elif self._session.is_new:
            self._begin_anew()
        if self._unsynced and not self._has_much:
            await self._wait_for_sync()
        self._news.clear()
        due, self._due = self._due, {}
        forgotten, self._forgotten = self._forgotten, set()
        wanted = {}
        async for place in in_turns(due, per_turn=PARTITIONS_PER_TURN):
            following = self._followed.get(place)
            fetch = None if following is None or following.is_over else following.next_fetch()
            if fetch is not None and following is not None:
                wanted[place] = fetch
                (self._unsynced.add if following.is_unsynced else self._unsynced.discard)(place)
        if self._session.is_new and not wanted:
            await self._news.wait()
            return
        values = self._session.request(who, wanted, forgotten, self._limits())
        answer = await self._ask(FETCH.key, values, min_version=_IDS_FROM)
        if answer.error_code:
            log.info("the fetch session with node %s begins anew: error %d", self._leader_id, answer.error_code)
            self._begin_anew()
            return
        self._session.note_answer(answer.session_id)
        await self._take(answer)

    async def _wait_for_sync(self) -> None:
        """Wait until there is something to tell the leader: what was fetched is on disk, or a partition comes or goes.

        Not for long: a disk that takes seconds must not keep the other partitions from being fetched.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.replica_fetch_wait_max_ms / 1000):
                await self._news.wait()

    def _limits(self) -> Limits:
        config = self._config
        return Limits(
            0 if self._unsynced or self._due else config.replica_fetch_wait_max_ms,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_max_bytes,
        )

    async def _ask(self, api_key: int, values: Values, *, min_version: int = 0) -> Any:
        timeout_s = self._config.replica_socket_timeout_ms / 1000
        return await self._brokers.ask(
            self._leader_id, api_key, values, timeout_s=timeout_s, purpose=PURPOSE, min_version=min_version
        )

    async def _take(self, answer: Any) -> None:
        self._has_much = False
        size = 0
        unclear: list[TopicIdPartition] = []
        found = (
            (TopicIdPartition(topic.topic_id, each.partition_index), each)
            for topic in answer.responses
            for each in topic.partitions
        )
        async for place, message in in_turns(found, per_turn=PARTITIONS_PER_TURN):
            fetch, following = self._session.take(place), self._followed.get(place)
            if fetch is None or following is None or following.is_over:
                continue
            size += len(message.records or b"")
            _note_fetched(following, len(message.records or b""))
            step = following.receive(fetch, _fetched(message))
            if step is Next.ASK:
                unclear.append(place)
            else:
                self._go_on(place, following, step)
        self._has_much = size >= MUCH_BYTES
        for place in unclear:
            following = self._followed.get(place)
            if following is not None:
                self._go_on(place, following, await self._find_range(place, following))

    def _go_on(self, place: TopicIdPartition, following: Following, step: Next) -> None:
        if following.is_over:
            return
        if step is Next.FETCH and _is_throttled(following):
            self._rest(place)
        elif step is Next.FETCH:
            if following.is_unsynced:
                self._unsynced.add(place)
            self._want(place)
        elif step is Next.LATER:
            self._rest(place)
        else:
            self._put_aside(place)

    async def _find_range(self, place: TopicIdPartition, following: Following) -> Next:
        """Ask where the log of the leader starts and ends, for a follower that is out of it."""
        try:
            start_offset = await self._find_offset(place, following, _EARLIEST)
            end_offset = await self._find_offset(place, following, _LATEST)
        except BarnabasError as error:
            if following.is_over:
                return Next.STOP
            log.info("%s: where its leader's log starts and ends is not known: %s", following.partition.name, error)
            following.fail()
            return Next.LATER
        except BaseException:
            following.fail()
            raise
        if following.is_over:
            return Next.STOP
        return following.note_leader_offsets(start_offset=start_offset, end_offset=end_offset)

    async def _find_offset(self, place: TopicIdPartition, following: Following, timestamp: int) -> int:
        partition = following.partition
        asked = {
            "partition_index": place.partition,
            "current_leader_epoch": partition.leader_epoch,
            "timestamp": timestamp,
        }
        values: Values = {
            "replica_id": self._who().node_id,
            "topics": [{"name": partition.name.topic, "partitions": [asked]}],
        }
        answer = await self._ask(LIST_OFFSETS.key, values)
        found = next((each for topic in answer.topics for each in topic.partitions), None)
        if found is None:
            raise LeaderNotAvailable("the leader did not answer for the partition")
        if found.error_code:
            raise _refusal(int(found.error_code))
        return int(found.offset)


def _fetched(message: Any) -> Fetched:
    diverging = message.diverging_epoch
    code = int(message.error_code)
    return Fetched(
        records=message.records or b"",
        high_watermark=message.high_watermark,
        log_start_offset=message.log_start_offset,
        diverging=None if diverging.epoch < 0 else EpochEnd(diverging.epoch, diverging.end_offset),
        error=_refusal(code) if code else None,
    )


def _is_throttled(following: Following) -> bool:
    """Whether a replica that is not in sync has to wait before it fetches more."""
    quota = following.partition.throttle.fetching
    return quota is not None and not following.partition.is_in_sync and quota.is_exceeded(now_ms=LedReplicas.now_ms())


def _note_fetched(following: Following, size: int) -> None:
    quota = following.partition.throttle.fetching
    if quota is not None and not following.partition.is_in_sync:
        quota.note(size, now_ms=LedReplicas.now_ms())


def _refusal(code: int) -> BarnabasError:
    return _REFUSALS.get(code, LeaderNotAvailable)(f"the leader refused with error {code}")
