"""Fetch sessions (KIP-227): a client names its partitions once, and then only what changes; so does the answer.

A session is soft state: when it is gone or out of step, the client is told so and begins a new one. The number of
sessions is bounded: a new one takes the place of one that was idle, or there is none for it.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from barnabas.core.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from barnabas.runtime.dice import Dice
from barnabas.services.fetch import Wanted

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
EVICT_IDLE_S: Final = 120.0


class PartitionKey(NamedTuple):
    """A partition as the client names it: its topic by name or by id."""

    topic: str | UUID
    partition: int


@dataclass(slots=True)
class SessionPartition:
    """What a session asks of a partition, and what it was told last."""

    wanted: Wanted
    high_watermark: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class Session:
    """The partitions of one client, in the order in which they are served next."""

    session_id: int
    uses_topic_ids: bool
    epoch: int
    last_used_at: float
    partitions: dict[PartitionKey, SessionPartition] = field(default_factory=dict)

    def want(self, key: PartitionKey, wanted: Wanted) -> None:
        """Take up a partition, or what is wanted of it from now on."""
        known = self.partitions.get(key)
        if known is None:
            self.partitions[key] = SessionPartition(wanted)
        else:
            known.wanted = wanted

    def forget(self, key: PartitionKey) -> None:
        self.partitions.pop(key, None)

    def move_last(self, key: PartitionKey) -> None:
        """Who was served goes to the end of the line, so that a busy partition does not starve the others."""
        known = self.partitions.pop(key, None)
        if known is not None:
            self.partitions[key] = known


class FetchSessions:
    """All sessions of a node."""

    def __init__(self, dice: Dice, *, max_sessions: int) -> None:
        self._dice = dice
        self._max_sessions = max_sessions
        self._sessions: dict[int, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def size_of(self, session_id: int) -> int:
        """How many partitions a session has; none if it is not kept."""
        session = self._sessions.get(session_id)
        return 0 if session is None else len(session.partitions)

    def begin(self, wanted: dict[PartitionKey, Wanted], *, uses_topic_ids: bool, now_s: float) -> Session | None:
        """A new session, or None when there is no room for one."""
        if not wanted or not self._has_room(now_s):
            return None
        session_id = self._new_id()
        session = Session(session_id, uses_topic_ids, epoch=1, last_used_at=now_s)
        session.partitions = {key: SessionPartition(each) for key, each in wanted.items()}
        self._sessions[session_id] = session
        return session

    def end(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def go_on(
        self,
        session_id: int,
        epoch: int,
        changed: dict[PartitionKey, Wanted],
        forgotten: list[PartitionKey],
        *,
        uses_topic_ids: bool,
        now_s: float,
    ) -> Session:
        """The session with the changes of the next request in it."""
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFound(f"fetch session {session_id} is not kept")
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch(f"fetch session {session_id} is at epoch {session.epoch}, not {epoch}")
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError(f"fetch session {session_id} began with the other kind of topic names")
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
        del self._sessions[oldest.session_id]
        return True

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._dice.randrange(2**31 - 1)
            if session_id not in self._sessions:
                return session_id
