"""Connections whose client is not known yet: in a TLS handshake, or logging in. There are places for so many.

Whoever opens connections and says nothing must not keep others out. So a newcomer always gets a place, and when there
are too many the oldest connection of the address that has the most is closed: an address harms itself first, and a
client that logs in at once is done before its turn comes.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple


class Newcomer(NamedTuple):
    """A connection that has a place."""

    peer: tuple[str, int]
    since: float
    close: Callable[[], object]


class Newcomers:
    """The places, by any key that the owner of a connection has for it."""

    def __init__(self) -> None:
        self._places: dict[Hashable, Newcomer] = {}  # the oldest first
        self._by_address: dict[str, dict[Hashable, None]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, key: Hashable, newcomer: Newcomer, *, most: int) -> list[Newcomer]:
        """Give a place to a connection; returns those that lose theirs, which the caller closes."""
        removed = []
        while self._places and len(self._places) >= most:
            crowd = max(self._by_address.values(), key=len)
            removed.append(self._places[next(iter(crowd))])
            self.remove(next(iter(crowd)))
        self._places[key] = newcomer
        self._by_address.setdefault(newcomer.peer[0], {})[key] = None
        return removed

    def remove(self, key: Hashable) -> None:
        """The client is known, or gone."""
        newcomer = self._places.pop(key, None)
        if newcomer is None:
            return
        address = newcomer.peer[0]
        crowd = self._by_address[address]
        del crowd[key]
        if not crowd:
            del self._by_address[address]

    def older_than(self, time: float) -> Iterator[Newcomer]:
        """Those who have had their place since before this."""
        for newcomer in list(self._places.values()):
            if newcomer.since > time:
                return
            yield newcomer
