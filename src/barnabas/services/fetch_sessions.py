"""Fetch sessions (KIP-227): a client names its partitions once, and then only what changes; so does the answer.

A session is soft state: if it is gone or out of sequence, the client is told so and begins a new one. The number of
sessions is bounded: a new one replaces an idle one, or is not created.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from barnabas.core.errors import (
    BarnabasError,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from barnabas.core.fetched import FetchPartition, FetchRequest, PartitionKey
from barnabas.core.model import NO_NODE
from barnabas.runtime.dice import Dice
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.turns import in_turns
from barnabas.services.fetch import Found
from barnabas.services.resting_partitions import RestingPartitions

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
EVICT_IDLE_S: Final = 120.0
PER_TURN: Final = 250  # partitions, of which each takes a microsecond or two
UNKNOWN: Final = -1


@dataclass(slots=True)
class SessionPartition:
    """What a session requests of a partition, and what it was last sent."""

    wanted: FetchPartition
    high_watermark: int = UNKNOWN
    log_start_offset: int = UNKNOWN


@dataclass(slots=True)
class FetchSession:
    """The partitions of one client, in the order in which they are served next."""

    session_id: int
    uses_topic_ids: bool
    epoch: int
    last_used_at: float
    partitions: dict[PartitionKey, SessionPartition] = field(default_factory=dict)
    resting: RestingPartitions | None = None  # of a follower

    def want(self, key: PartitionKey, wanted: FetchPartition) -> None:
        """Add a partition, or change what is requested of it."""
        known = self.partitions.get(key)
        if known is None:
            self.partitions[key] = SessionPartition(wanted)
        else:
            known.wanted = wanted
        if self.resting is not None:
            self.resting.ready[key] = None

    def forget(self, key: PartitionKey) -> None:
        self.partitions.pop(key, None)
        if self.resting is not None:
            self.resting.forget(key)

    @property
    def ready(self) -> Iterable[PartitionKey]:
        """The partitions to look at, in the order in which they are served next."""
        return self.partitions if self.resting is None else self.resting.ready

    @property
    def ready_count(self) -> int:
        """How many partitions are to be looked at."""
        return len(self.partitions if self.resting is None else self.resting.ready)

    def visit(self, request: FetchRequest, *, now_ms: int) -> None:
        """A request is begun. Only what has changed is looked at for a follower."""
        if request.replica_id < 0:
            return
        if self.resting is None:
            self.resting = RestingPartitions()
            self.resting.ready.update(dict.fromkeys(self.partitions))
        self.resting.visit(request.replica_id, request.replica_epoch, now_ms=now_ms)

    def end(self) -> None:
        """Wait nowhere any more."""
        if self.resting is not None:
            self.resting.wake_all()

    def move_last(self, key: PartitionKey) -> None:
        """Move a partition that was served to the end, so that a busy one does not starve the others."""
        if self.resting is not None:
            self.resting.move_last(key)
            return
        known = self.partitions.pop(key, None)
        if known is not None:
            self.partitions[key] = known

    def has_news(self, key: PartitionKey, high_watermark: int) -> bool:
        """Whether a high watermark is another one than was told last."""
        known = self.partitions.get(key)
        return known is not None and known.high_watermark != high_watermark

    def note_told(self, key: PartitionKey, found: Found | BarnabasError, *, is_full: bool) -> bool:
        """Whether a partition belongs in the answer: if it has changed, or in a full answer, which has all of them. The
        change then counts as sent.
        """
        known = self.partitions.get(key)
        if known is None:
            return True
        if isinstance(found, BarnabasError) or found.error is not None:
            known.high_watermark = known.log_start_offset = UNKNOWN  # so that it is told again when it is well
            return True
        is_news = bool(
            found.records
            or found.diverging
            or found.preferred != NO_NODE
            or known.high_watermark != found.high_watermark
            or known.log_start_offset != found.log_start_offset
        )
        known.high_watermark, known.log_start_offset = found.high_watermark, found.log_start_offset
        if found.records:
            self.move_last(key)
        elif self.resting is not None:
            self.resting.rest(key, found)
        return is_news or is_full


def goes_on(request: FetchRequest) -> bool:
    """Whether a request continues an existing session."""
    return request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH)


class FetchSessions:
    """All sessions of a node."""

    def __init__(self, dice: Dice, *, max_sessions: int) -> None:
        self._dice = dice
        self._max_sessions = max_sessions
        self._sessions: dict[int, FetchSession] = {}

    def report(self, metrics: Metrics) -> None:
        """Register the metrics of this part."""
        metrics.gauge("fetch_sessions", "Fetch sessions.", lambda: len(self))

    def __len__(self) -> int:
        return len(self._sessions)

    def size_of(self, session_id: int) -> int:
        """How many partitions of a session the next request looks at; 0 if it does not exist."""
        session = self._sessions.get(session_id)
        return 0 if session is None else session.ready_count

    def take(
        self, request: FetchRequest, wanted: dict[PartitionKey, FetchPartition], *, now_s: float
    ) -> FetchSession | None:
        """The session of a request, with its changes applied; None if it has none.

        `wanted` are the partitions it names.
        """
        if goes_on(request):
            forgotten = [PartitionKey(topic, each) for topic, partitions in request.forgotten for each in partitions]
            return self.go_on(
                request.session_id,
                request.session_epoch,
                wanted,
                forgotten,
                uses_topic_ids=request.uses_topic_ids,
                now_s=now_s,
            )
        self.end(request.session_id)
        if request.session_epoch == FINAL_EPOCH:
            return None
        return self.begin(wanted, uses_topic_ids=request.uses_topic_ids, now_s=now_s)

    async def take_in_turns(
        self, request: FetchRequest, wanted: dict[PartitionKey, FetchPartition], *, now_s: float
    ) -> FetchSession | None:
        """As `take`, for very many partitions: some in each turn of the loop."""
        first = {} if goes_on(request) else dict(islice(wanted.items(), 1))  # none begins with nothing
        session = self.take(request._replace(forgotten=[]), first, now_s=now_s)
        if session is not None:
            async for key, each in in_turns(wanted.items(), per_turn=PER_TURN):
                session.want(key, each)
            forgotten = (PartitionKey(topic, each) for topic, partitions in request.forgotten for each in partitions)
            async for key in in_turns(forgotten, per_turn=PER_TURN):
                session.forget(key)
        return session

    def begin(
        self, wanted: dict[PartitionKey, FetchPartition], *, uses_topic_ids: bool, now_s: float
    ) -> FetchSession | None:
        """A new session, or None if there are too many."""
        if not wanted or not self._has_room(now_s):
            return None
        session_id = self._new_id()
        session = FetchSession(session_id, uses_topic_ids, epoch=1, last_used_at=now_s)
        session.partitions = {key: SessionPartition(each) for key, each in wanted.items()}
        self._sessions[session_id] = session
        return session

    def end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()

    def go_on(
        self,
        session_id: int,
        epoch: int,
        changed: dict[PartitionKey, FetchPartition],
        forgotten: list[PartitionKey],
        *,
        uses_topic_ids: bool,
        now_s: float,
    ) -> FetchSession:
        """The session, with the changes of the next request applied."""
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFound(f"fetch session {session_id} does not exist")
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch(f"fetch session {session_id} is at epoch {session.epoch}, not {epoch}")
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError(f"fetch session {session_id} mixes topic names and topic ids")
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        session.last_used_at = now_s
        for key, wanted in changed.items():
            session.want(key, wanted)
        for key in forgotten:
            session.forget(key)
        return session

    def _has_room(self, now_s: float) -> bool:
        if len(self._sessions) < self._max_sessions:
            return True
        oldest = min(self._sessions.values(), key=lambda each: each.last_used_at, default=None)
        if oldest is None or now_s - oldest.last_used_at < EVICT_IDLE_S:
            return False
        self.end(oldest.session_id)
        return True

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._dice.randrange(2**31 - 1)
            if session_id not in self._sessions:
                return session_id
