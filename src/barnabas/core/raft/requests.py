"""Requests under way: one to each peer at a time, given up after a while, repeated after a pause.

An answer counts only if its request is still the one under way: whatever comes later was asked in another state.
"""

from typing import NamedTuple

from barnabas.core.raft.messages import Request


class UnderWay(NamedTuple):
    """A request whose answer is awaited."""

    request_id: int
    request: Request
    deadline_ms: int


class Requests:
    """The requests of one node to its peers."""

    def __init__(self, *, timeout_ms: int, backoff_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._next_id = 0
        self._under_way: dict[int, UnderWay] = {}
        self._paused_until_ms: dict[int, int] = {}

    def begin(self, to: int, request: Request, *, now_ms: int) -> int:
        """A request goes out; its id."""
        assert to not in self._under_way
        self._next_id += 1
        self._under_way[to] = UnderWay(self._next_id, request, now_ms + self._timeout_ms)
        return self._next_id

    def end(self, peer: int, request_id: int) -> Request | None:
        """An answer arrived; returns its request, or None if it is no longer expected."""
        found = self._under_way.get(peer)
        if found is None or found.request_id != request_id:
            return None
        del self._under_way[peer]
        return found.request

    def pause(self, peer: int, *, now_ms: int) -> None:
        """Ask this peer nothing for a moment."""
        self._paused_until_ms[peer] = now_ms + self._backoff_ms

    def is_ready(self, peer: int) -> bool:
        """Whether a request may go to this peer now."""
        return peer not in self._under_way and peer not in self._paused_until_ms

    def is_paused(self, peer: int) -> bool:
        """Whether the last request to this peer failed, a moment ago."""
        return peer in self._paused_until_ms

    def expire(self, now_ms: int) -> None:
        """Give up what has taken too long, and end pauses that are over."""
        for peer, pause_end_ms in list(self._paused_until_ms.items()):
            if pause_end_ms <= now_ms:
                del self._paused_until_ms[peer]
        for peer, request in list(self._under_way.items()):
            if request.deadline_ms <= now_ms:
                del self._under_way[peer]
                self.pause(peer, now_ms=now_ms)

    def forget(self) -> None:
        """The node is in another state: answers to earlier requests are ignored."""
        self._under_way.clear()
        self._paused_until_ms.clear()

    @property
    def is_any_under_way(self) -> bool:
        """Whether an answer is expected from any peer."""
        return bool(self._under_way)

    @property
    def deadline_ms(self) -> int | None:
        """When `expire` has something to do."""
        times = [request.deadline_ms for request in self._under_way.values()]
        return min([*times, *self._paused_until_ms.values()], default=None)
