"""The sessions of brokers with the active controller: soft state, which a new controller starts again.

A broker has a session from its registration on, and keeps it by its heartbeats. A new controller gives every broker
that is not fenced a new session: it cannot know when the previous controller got their last heartbeats. Only of that
controller itself, which is a broker as well, it knows for how long it was not heard of.
"""

from collections.abc import Iterable

from barnabas.core.metadata.image import Image


class _Session:
    __slots__ = ("contact_ms", "epoch", "known_offset", "left_at")

    def __init__(self, epoch: int, now_ms: int) -> None:
        self.epoch = epoch
        self.contact_ms = now_ms
        self.known_offset = -1  # of the last record that the broker has applied
        self.left_at: int | None = None  # the offset of the last record by which it began to leave


class Sessions:
    """The sessions of all brokers, on one controller. Times are those of a clock that only goes forward."""

    def __init__(self, image: Image, *, timeout_ms: int, now_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._sessions = {
            node.node_id: _Session(node.epoch, now_ms) for node in image.nodes.values() if not node.is_fenced
        }

    def note_silence(self, node_id: int, silence_ms: int) -> None:
        """A broker was not heard of for so long before these sessions began. Half of its session is left to it at
        least, in which it can find out whom to send heartbeats to.
        """
        session = self._sessions.get(node_id)
        if session is not None:
            session.contact_ms -= min(silence_ms, self._timeout_ms // 2)

    def begin(self, node_id: int, *, epoch: int, now_ms: int) -> None:
        """A broker has registered."""
        self._sessions[node_id] = _Session(epoch, now_ms)

    def note_heartbeat(self, node_id: int, *, epoch: int, known_offset: int, now_ms: int) -> None:
        """A broker sent a heartbeat. Those of an older incarnation are ignored."""
        session = self._sessions.get(node_id)
        if session is None or session.epoch < epoch:
            session = self._sessions[node_id] = _Session(epoch, now_ms)
        if session.epoch == epoch:
            session.contact_ms = now_ms
            session.known_offset = max(session.known_offset, known_offset)

    def note_leaving(self, node_id: int, *, offset: int) -> None:
        """A broker begins to leave, by records up to this offset. What is noted first counts: a busy log goes on."""
        session = self._sessions.get(node_id)
        if session is not None and session.left_at is None:
            session.left_at = offset

    def end(self, node_id: int) -> None:
        """A broker is fenced, or was allowed to stop."""
        self._sessions.pop(node_id, None)

    def prolong(self, lost_ms: int) -> None:
        """The controller itself stood still for so long: in that time it could not hear from anybody."""
        for session in self._sessions.values():
            session.contact_ms += lost_ms

    def has(self, node_id: int, *, now_ms: int) -> bool:
        """Whether a broker has a session."""
        session = self._sessions.get(node_id)
        return session is not None and now_ms - session.contact_ms < self._timeout_ms

    def overdue(self, *, now_ms: int) -> list[int]:
        """The brokers whose sessions have ended."""
        return sorted(
            node_id for node_id, each in self._sessions.items() if now_ms - each.contact_ms >= self._timeout_ms
        )

    def next_overdue_ms(self) -> int | None:
        """When the next session ends without a heartbeat."""
        contacts = [session.contact_ms for session in self._sessions.values()]
        return min(contacts) + self._timeout_ms if contacts else None

    def is_known_to_leave(self, node_id: int, active: Iterable[int]) -> bool:
        """Whether all active brokers have applied the records of this broker's shutdown.

        After a change of the controller that offset is unknown, as are those of the brokers: `note_leaving` sets it
        again.
        """
        session = self._sessions.get(node_id)
        if session is None or session.left_at is None:
            return False
        others = (self._sessions.get(each) for each in active if each != node_id)
        return all(other is None or other.known_offset >= session.left_at for other in others)
