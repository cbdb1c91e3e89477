"""Fetch, versions 4 to 18: long polls, sessions, and records that go to the socket as they lie on disk.

A request is looked at at once. When there is enough to give, or nothing to wait for, it is answered; else it parks on
its partitions and is looked at again when one of them grows, until `max_wait` is over. Only sizes are looked at until
then: nothing is read twice.

A fetch of many partitions goes another way, in turns with everything else: `fetching_in_turns`.

Differs from Kafka: no followers and no preferred read replicas yet; a fetch by a replica id is refused.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.fetching_in_turns import FetchInTurns
from barnabas.edge.kafka.one_fetch import OneFetch, encode
from barnabas.runtime.connections import Answer, Connection, Slot, Work
from barnabas.runtime.partition import Partition
from barnabas.services.broker import Broker
from barnabas.services.fetch import Wanted
from barnabas.services.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, PartitionKey, Session
from barnabas.services.syncing import SYNC_WAIT_S
from barnabas.wire.fetch import TOPIC_IDS_FROM
from barnabas.wire.fetch_request import FetchRequest, read_fetch
from barnabas.wire.frame import RequestHeader

LONG_REQUEST_BYTES: Final = 4096
"""A longer one is read in turns: it has more than a hundred partitions, or is about to."""

MAX_PARTITIONS_AT_ONCE: Final = 128
"""Of a session whose fetches are looked at in one turn."""


class Fetching:
    """Handles Fetch requests."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def handle(
        self, header: RequestHeader, frame: memoryview, connection: Connection
    ) -> "Answer | Work | Callable[[Slot], None]":
        """An answer, the work of reading one, or a poll that parks."""
        if len(frame) > LONG_REQUEST_BYTES:
            return FetchInTurns(self.broker, header, frame, connection)
        request = read_fetch(frame, header.body_at, len(frame), header.version)
        session_id = request.session_id
        if session_id and self.broker.fetch_sessions.size_of(session_id) > MAX_PARTITIONS_AT_ONCE:
            return FetchInTurns(self.broker, header, frame, connection)
        try:
            fetch = self._begin(header, request, connection)
        except BarnabasError as error:
            return encode(header, [], error_code=error.kafka_code)
        fetch.look()
        if fetch.must_wait or fetch.note_unsynced():
            return LongPoll(fetch, max_wait_s=request.max_wait_ms / 1000)
        return fetch.answer()

    def _begin(self, header: RequestHeader, request: FetchRequest, connection: Connection) -> "OneFetch":
        wanted = _read_wanted(request)
        session, is_incremental = self._session(header, request, wanted)
        if is_incremental:
            assert session is not None
            wanted = {key: each.wanted for key, each in session.partitions.items()}
        return OneFetch(self.broker, header, request, wanted, session, connection, is_incremental=is_incremental)

    def _session(
        self, header: RequestHeader, request: FetchRequest, wanted: dict[PartitionKey, Wanted]
    ) -> tuple[Session | None, bool]:
        """The session of a request, and whether it is one that goes on."""
        session_id, epoch = request.session_id, request.session_epoch
        sessions = self.broker.fetch_sessions
        now_s = asyncio.get_running_loop().time()
        uses_ids = header.version >= TOPIC_IDS_FROM
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            sessions.end(session_id)
            if epoch == FINAL_EPOCH:
                return None, False
            return sessions.begin(wanted, uses_topic_ids=uses_ids, now_s=now_s), False
        forgotten = [
            PartitionKey(topic, partition) for topic, partitions in request.forgotten for partition in partitions
        ]
        session = sessions.go_on(session_id, epoch, wanted, forgotten, uses_topic_ids=uses_ids, now_s=now_s)
        return session, True


class LongPoll:
    """A fetch that waits for its partitions to grow. Called with its slot, it answers into it.

    One whose time is over with nothing found waits a little longer when its partitions have records that are being
    synced (`services.syncing`): whoever was told that they are written is to find them, however little it waits.
    """

    __slots__ = ("_deadline", "_fetch", "_is_done", "_is_overdue", "_is_scheduled", "_slot", "_timer")

    def __init__(self, fetch: OneFetch, *, max_wait_s: float) -> None:
        self._fetch = fetch
        self._slot: Slot | None = None
        self._is_done = self._is_scheduled = self._is_overdue = False
        self._deadline = asyncio.get_running_loop().time() + max_wait_s
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, slot: Slot) -> None:
        loop = asyncio.get_running_loop()
        self._slot = slot
        self._timer = loop.call_at(self._deadline, self._on_time)
        slot.on_close, slot.on_hurry = self.cancel, self._finish
        self._park()

    def _park(self) -> None:
        for partition in self._fetch.partitions.values():
            partition.wait_for_growth(self)

    def note_growth(self, _: Partition) -> None:
        """A partition has more; look once for all that grew in this turn of the loop."""
        if not self._is_scheduled and not self._is_done:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        self._is_scheduled = False
        if self._is_done:
            return
        self._fetch.look()
        if self._fetch.awaits_sync if self._is_overdue else self._fetch.must_wait:
            self._park()
        else:
            self._finish()

    def _on_time(self) -> None:
        """What the client wanted to wait is over."""
        if self._is_overdue or not self._fetch.note_unsynced():
            self._finish()
            return
        self._is_overdue = True
        self._timer = asyncio.get_running_loop().call_later(SYNC_WAIT_S, self._on_time)

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        self._is_done = True
        if self._timer is not None:
            self._timer.cancel()
        for partition in self._fetch.partitions.values():
            partition.stop_waiting(self)

    def _finish(self) -> None:
        if self._is_done:
            return
        self.cancel()
        assert self._slot is not None
        self._slot.continue_with(self._fetch.answer())


def _read_wanted(request: FetchRequest) -> dict[PartitionKey, Wanted]:
    return {
        PartitionKey(topic, partition): Wanted(offset, max_bytes, epoch, last_epoch)
        for topic, partitions in request.topics
        for partition, epoch, offset, last_epoch, max_bytes in partitions
    }
