"""Fetching for share groups, and acknowledging: the verbs of a member with the leaders of its partitions.

A request belongs to a share session. What it acknowledges is written before anything is fetched, so that what a member
releases may go to itself. Then it acquires from partition after partition, beginning at another one each time; while
there is nothing, it waits for records to be written, or to come back, and for partitions to be loaded. Whole batches
are sent, as they are on disk, and beside them which of their records the member has acquired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.core.errors import (
    BarnabasError,
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
)
from barnabas.core.fetched import FetchPartition
from barnabas.core.records.batch import BatchHeader, Buffer, read_header
from barnabas.core.records.control import MarkerType, read_marker
from barnabas.runtime.later import Later
from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import in_turns
from barnabas.services.fetch import Fetch, Found
from barnabas.services.led_shares import LedShare, LedShares
from barnabas.services.session import Session
from barnabas.services.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Place,
    SessionKey,
    ShareSession,
    ShareSessions,
)

if TYPE_CHECKING:
    from barnabas.core.groups.share import acknowledging, messages, persisted
    from barnabas.core.groups.share import partition as share_partition
    from barnabas.core.groups.share.partition import Acquired, LogBatch, Wanted
else:  # loaded with the first share group
    acknowledging, messages, persisted, share_partition = (
        Later(f"barnabas.core.groups.share.{name}") for name in ("acknowledging", "messages", "persisted", "partition")
    )

MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Of records in one answer, whatever is asked for: they are in memory until the client has them."""
MAX_PARTITION_BYTES: Final = 1024 * 1024
LOAD_WAIT_S: Final = 1.0  # for partitions that are being loaded, however little a client waits
PASSES_PER_LOOK: Final = 20  # over batches with nothing to deliver, in one look at a partition

RawAcks = Sequence[tuple[int, int, Sequence[int]]]
"""First offset, last offset and types of each acknowledgement, as a client sends them."""


class ShareFetchRequest(NamedTuple):
    """What a member asks for, and what it acknowledges."""

    group: str
    member: str
    session_epoch: int
    acks: Mapping[Place, RawAcks]  # of all partitions that the request names; mostly without any
    forgotten: Sequence[Place] = ()
    max_wait_ms: int = 0
    max_bytes: int = MAX_ANSWER_BYTES
    max_records: int = 500
    batch_size: int = 0
    is_strict: bool = False
    is_renewal: bool = False

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.group, self.member)


@dataclass(slots=True)
class ShareFetched:
    """What became of one partition."""

    error: BarnabasError | None = None
    ack_error: BarnabasError | None = None
    records: Buffer = b""
    acquired: list[Acquired] = field(default_factory=list)


Results = dict[Place, ShareFetched]


class _Waiter:
    """A fetch that waits for any of its partitions."""

    __slots__ = ("woken",)

    def __init__(self) -> None:
        self.woken = asyncio.Event()

    def note_growth(self, _partition: Partition) -> None:
        self.woken.set()

    def note_available(self) -> None:
        self.woken.set()


class ShareFetch:
    """The verbs."""

    def __init__(self, fetch: Fetch, shares: LedShares, *, max_sessions: int) -> None:
        self._fetch = fetch
        self._shares = shares
        self.sessions = ShareSessions(max_sessions=max_sessions, on_end=self._on_session_end)
        shares.is_used = self.sessions.has_group

    def _on_session_end(self, key: SessionKey) -> None:
        self._shares.release(key.group, key.member)
        if not self.sessions.has_group(key.group):
            self._shares.let_go(key.group)

    def lock_timeout_ms(self, group: str) -> int:
        """For how long a member of a group has what it acquires."""
        return self._shares.config_of(group).limits.lock_duration_ms

    # Whole requests

    async def fetch(self, client: Session, request: ShareFetchRequest, allowed: Allowed) -> Results:
        """ShareFetch."""
        _check_member(request)
        deadline = asyncio.get_running_loop().time() + max(request.max_wait_ms, 0) / 1000
        session = await self._take_session(client, request, deadline)
        results = await self._acknowledge_all(request, allowed)
        if session is None:
            return results
        if request.session_epoch == FINAL_EPOCH:
            self.sessions.end(session, client)
            return results
        session.change(request.acks, request.forgotten)
        if not request.is_renewal and request.max_records > 0:
            await self._fetch_all(session, request, allowed, results, deadline)
        return results

    async def acknowledge(self, client: Session, request: ShareFetchRequest, allowed: Allowed) -> Results:
        """ShareAcknowledge."""
        _check_member(request)
        if request.session_epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpoch("a share session begins with a fetch, not with an acknowledgement")
        session = self.sessions.take(request.key, request.session_epoch)
        results = await self._acknowledge_all(request, allowed)
        if request.session_epoch == FINAL_EPOCH:
            self.sessions.end(session, client)
        return results

    async def _take_session(self, client: Session, request: ShareFetchRequest, deadline: float) -> ShareSession | None:
        if request.session_epoch != INITIAL_EPOCH:
            return self.sessions.take(request.key, request.session_epoch)
        if any(request.acks.values()):
            raise InvalidRequest("a request that begins a share session cannot acknowledge anything")
        try:
            return self.sessions.begin(request.key, client)
        except ShareSessionLimitReached:
            # Not at once: else the client would ask again at once.
            await asyncio.sleep(max(deadline - asyncio.get_running_loop().time(), 0))
            raise

    # Acknowledging

    async def _acknowledge_all(self, request: ShareFetchRequest, allowed: Allowed) -> Results:
        results: Results = {}
        waiting: list[tuple[ShareFetched, asyncio.Future[None]]] = []
        async for place, raw in in_turns(request.acks.items()):
            if not raw:
                continue
            result = results[place] = ShareFetched()
            try:
                allowed.check(place)
                acks = acknowledging.check_acks(raw, is_renewal=request.is_renewal)
                led = await self._find(request.group, place)
                written = led.acknowledge(request.member, acks)
            except BarnabasError as error:
                result.ack_error = error.with_traceback(None)
            else:
                if written is not None:
                    waiting.append((result, written))
        for result, written in waiting:
            try:
                await written
            except BarnabasError as error:
                result.ack_error = error.with_traceback(None)
        return results

    async def _find(self, group: str, place: Place) -> LedShare:
        led = self._shares.find(persisted.ShareKey(group, *place))
        if not led.loading.done():
            await asyncio.wait([led.loading])
        led.check()
        return led

    # Fetching

    async def _fetch_all(
        self,
        session: ShareSession,
        request: ShareFetchRequest,
        allowed: Allowed,
        results: Results,
        deadline: float,
    ) -> None:
        loop = asyncio.get_running_loop()
        loaded_by = loop.time() + LOAD_WAIT_S
        places = session.in_turn()
        loading: dict[Place, LedShare] = {}
        while True:
            waiter = _Waiter()
            parked: list[LedShare] = []
            try:
                is_found = await self._look_at_all(places, request, allowed, results, waiter, parked, loading)
                has_errors = any(each.error is not None for each in results.values())
                left_s = _answer_by(deadline, loaded_by, has_errors=has_errors, is_loading=bool(loading)) - loop.time()
                if is_found or left_s <= 0 or not parked:
                    return
                try:
                    async with asyncio.timeout(left_s):
                        await waiter.woken.wait()
                except TimeoutError:
                    return
            finally:
                for led in parked:
                    led.stop_waiting(waiter)
                    led.partition.stop_waiting(waiter)

    async def _look_at_all(
        self,
        places: Sequence[Place],
        request: ShareFetchRequest,
        allowed: Allowed,
        results: Results,
        waiter: _Waiter,
        parked: list[LedShare],
        loading: dict[Place, LedShare],
    ) -> bool:
        """Acquire what there is, within the limits; whether there was anything. What is being loaded is left out."""
        left_bytes, left_records = min(request.max_bytes, MAX_ANSWER_BYTES), request.max_records
        share_bytes = max(left_bytes // max(len(places), 1), 1)
        is_found = False
        async for place in in_turns(places):
            if left_records <= 0 or left_bytes <= 0:
                break
            try:
                allowed.check(place)
                # What was being loaded may have failed, of which a new one would know nothing.
                led = loading.pop(place, None) or self._shares.find(persisted.ShareKey(request.group, *place))
                led.wait(waiter)  # before it is looked at, so that nothing is missed
                led.partition.wait_for_growth(waiter)
                parked.append(led)
                if not led.loading.done():
                    loading[place] = led
                    continue
                led.check()
                wanted = share_partition.Wanted(request.member, left_records, request.batch_size, request.is_strict)
                max_bytes = min(share_bytes, left_bytes, MAX_PARTITION_BYTES)
                acquired, records = await self._acquire(led, wanted, max_bytes)
            except BarnabasError as error:
                results.setdefault(place, ShareFetched()).error = error.with_traceback(None)
                continue
            if acquired:
                result = results.setdefault(place, ShareFetched())
                result.acquired, result.records = acquired, records
                left_records -= sum(each.last - each.first + 1 for each in acquired)
                left_bytes -= len(records)
                is_found = True
        return is_found

    async def _acquire(self, led: LedShare, wanted: Wanted, max_bytes: int) -> tuple[list[Acquired], Buffer]:
        if led.is_reading:
            led.is_wanted = True
            return [], b""  # whoever reads wakes those who wait
        led.is_reading = True
        try:
            for _ in range(PASSES_PER_LOOK):
                acquired, records, is_over = await self._acquire_once(led, wanted, max_bytes)
                if is_over:
                    return acquired, records
            return [], b""
        finally:
            led.is_reading = False
            if led.is_wanted:
                led.is_wanted = False
                led.wake()

    async def _acquire_once(self, led: LedShare, wanted: Wanted, max_bytes: int) -> tuple[list[Acquired], Buffer, bool]:
        """Read once, and acquire; the last says whether there is no use in reading on."""
        share, config, partition = led.share, led.config, led.partition
        led.follow_log_start()
        if not share.can_acquire(config.limits):
            led.is_short = True
            return [], b"", True
        at = share.next_fetch_offset()
        found = self._fetch.look(
            partition,
            FetchPartition(partition.name.partition, fetch_offset=at, max_bytes=max_bytes),
            is_committed=config.is_committed,
            max_bytes=max_bytes,
            is_first=True,
        )
        data = await self._fetch.read_whole(found, at_once=MAX_PARTITION_BYTES, most=MAX_ANSWER_BYTES)
        if not data:
            return [], b"", True
        share = led.share  # refused if somebody else leads by now
        batches = list(_batches(data, found))
        acquired = share.acquire(wanted, at, [each.batch for each in batches], limits=config.limits, now_ms=led.now_ms)
        led.changed()
        if not acquired:
            return [], b"", share.next_fetch_offset() == at
        return acquired, _cut(data, batches, acquired), True


class Allowed:
    """Which partitions a client may read: the edge says."""

    def __init__(self, refusals: Mapping[Place, BarnabasError]) -> None:
        self._refusals = refusals

    def check(self, place: Place) -> None:
        """Refuse a partition."""
        refusal = self._refusals.get(place)
        if refusal is not None:
            raise type(refusal)(*refusal.args)


def _answer_by(deadline: float, loaded_by: float, *, has_errors: bool, is_loading: bool) -> float:
    """Until when a fetch waits that has found nothing: errors are told at once, but for what is loaded soon."""
    if is_loading:
        return loaded_by if has_errors else max(deadline, loaded_by)
    return float("-inf") if has_errors else deadline


class _Placed(NamedTuple):
    """A batch, and where it begins and ends in what was read."""

    batch: LogBatch
    begin: int
    end: int


def _batches(data: Buffer, found: Found) -> Iterable[_Placed]:
    """The whole batches of what was read, without those that are never delivered: markers, aborted transactions."""
    aborted = sorted((first, producer_id) for producer_id, first in found.aborted or ())
    open_aborts: set[int] = set()
    position, size = 0, len(data)
    while position < size:
        header = read_header(data, position)
        end = position + header.size
        if end > size:
            return
        while aborted and aborted[0][0] <= header.last_offset:
            open_aborts.add(aborted.pop(0)[1])
        is_aborted = header.is_transactional and header.producer_id in open_aborts
        if header.is_control and is_aborted and _is_abort(data, position, header):
            open_aborts.discard(header.producer_id)
        is_delivered = not header.is_control and not is_aborted
        yield _Placed(share_partition.LogBatch(header.base_offset, header.last_offset, is_delivered), position, end)
        position = end


def _is_abort(data: Buffer, position: int, header: BatchHeader) -> bool:
    return read_marker(data, position, header).type is MarkerType.ABORT


def _cut(data: Buffer, batches: Sequence[_Placed], acquired: Sequence[Acquired]) -> Buffer:
    """The batches that have something of what was acquired, and those between them."""
    first, last = acquired[0].first, acquired[-1].last
    begin = next(each.begin for each in batches if each.batch.last >= first)
    end = next(each.end for each in reversed(batches) if each.batch.first <= last)
    return data if begin == 0 and end == len(data) else memoryview(data)[begin:end]


def _check_member(request: ShareFetchRequest) -> None:
    if not request.group:
        raise InvalidRequest("the group id must not be empty")
    if not 0 < len(request.member) <= messages.MAX_MEMBER_ID:
        raise InvalidRequest(f"a member id has 1 to {messages.MAX_MEMBER_ID} characters")
