"""Share sessions: the partitions that a member fetches, so that requests name only changes.

A session is of a group and a member, and ends with the connection that it came over: then what the member has comes
back. Epoch 0 begins one, the next requests count on, -1 ends it. A member that begins again drops its old session, and
keeps what it has acquired.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from barnabas.core.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)
from barnabas.runtime.metrics import Metrics
from barnabas.services.session import Session

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
MAX_PARTITIONS: Final = 10_000  # of one session

Place = tuple[UUID, int]
"""A partition, by topic id and number."""


class SessionKey(NamedTuple):
    """Whose session it is."""

    group: str
    member: str


@dataclass(slots=True, eq=False)
class ShareSession:
    """One session."""

    key: SessionKey
    epoch: int = 1  # of the next request
    partitions: dict[Place, None] = field(default_factory=dict)

    def change(self, wanted: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """Apply the changes of a request; refused if the session grows too large."""
        for place in forgotten:
            self.partitions.pop(place, None)
        for place in wanted:
            self.partitions[place] = None
        if len(self.partitions) > MAX_PARTITIONS:
            raise InvalidRequest(f"a share session has at most {MAX_PARTITIONS} partitions, not {len(self.partitions)}")

    def in_turn(self) -> list[Place]:
        """The partitions, beginning at another one each time, so that none starves."""
        places = list(self.partitions)
        at = self.epoch % len(places) if places else 0
        return places[at:] + places[:at]


class ShareSessions:
    """All sessions of a node."""

    def __init__(self, *, max_sessions: int, on_end: Callable[[SessionKey], None]) -> None:
        """`on_end` is called when a session has ended for good, and its member's records are to come back."""
        self._max_sessions = max_sessions
        self._on_end = on_end
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_group: dict[str, int] = {}

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.gauge("share_sessions", "Share sessions.", lambda: len(self._sessions))

    def has_group(self, group: str) -> bool:
        """Whether a group has a session here."""
        return group in self._of_group

    def begin(self, key: SessionKey, client: Session) -> ShareSession:
        """A new session; refused if there are too many."""
        if key not in self._sessions and len(self._sessions) >= self._max_sessions:
            raise ShareSessionLimitReached(f"this broker has {self._max_sessions} share sessions, which is the maximum")
        self._remove(key)
        session = self._sessions[key] = ShareSession(key)
        self._of_group[key.group] = self._of_group.get(key.group, 0) + 1
        client.on_close[session] = self._closing(session)
        return session

    def take(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session that a request goes on with, or ends."""
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFound(f"there is no share session of member '{key.member}' of group '{key.group}'")
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise InvalidShareSessionEpoch(
                f"the share session of member '{key.member}' is at epoch {session.epoch}, not {epoch}"
            )
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        return session

    def end(self, session: ShareSession, client: Session | None = None) -> None:
        """End a session; nothing if it is no longer that of its member."""
        if client is not None:
            client.on_close.pop(session, None)
        if self._sessions.get(session.key) is session:
            self._remove(session.key)
            self._on_end(session.key)

    def _closing(self, session: ShareSession) -> Callable[[], None]:
        return lambda: self.end(session)

    def _remove(self, key: SessionKey) -> None:
        if self._sessions.pop(key, None) is None:
            return
        left = self._of_group[key.group] - 1
        if left:
            self._of_group[key.group] = left
        else:
            del self._of_group[key.group]
