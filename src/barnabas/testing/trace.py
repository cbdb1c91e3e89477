"""What happened in a simulation, as one hash: two runs of the same seed must agree on it."""

import hashlib
from collections import deque
from typing import Final, TypeAlias

Event: TypeAlias = tuple[str | int | float, ...]

_DIGEST_SIZE: Final = 16


class Trace:
    """A running hash over events, and the last `keep` of them, to look for a difference.

    An event holds numbers and text only, and never an address, an `id` or a wall time.
    """

    def __init__(self, *, keep: int = 0) -> None:
        self._digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
        self._is_on = True
        self.events: deque[Event] = deque(maxlen=keep)

    def note(self, *event: str | int | float) -> None:
        """Take one event in."""
        if self._is_on:
            self._digest.update(repr(event).encode())
            self.events.append(event)

    def stop(self) -> None:
        """Take no more in: what follows is clearing up."""
        self._is_on = False

    def hash(self) -> str:
        """A hash of every event so far and their order."""
        return self._digest.hexdigest()


def digest_of(data: bytes) -> str:
    """A short name for some bytes."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
