"""Backoff: how long a record waits until it is delivered again, in a group that has it.

Pure, and without randomness of its own: what varies it is given. It doubles with each delivery, up to a limit, and is
up to a fifth shorter, so that what failed together is not tried again together.
"""

from typing import Final, NamedTuple

JITTER_PERCENT: Final = 20
_MAX_DOUBLINGS: Final = 30  # more than any delivery limit
_SPREAD: Final = 0x9E3779B1  # odd, and far from a regular pattern: neighbours get quite different numbers
_WORD: Final = 2**32


class Backoff(NamedTuple):
    """The settings of a group."""

    first_ms: int = 0  # share.retry.backoff.ms; 0: there is none
    most_ms: int = 60_000  # share.retry.backoff.max.ms

    @property
    def is_on(self) -> bool:
        return self.first_ms > 0

    def wait_ms(self, delivery_count: int, *, seed: int) -> int:
        """How long a record waits after so many deliveries."""
        doublings = min(max(delivery_count - 1, 0), _MAX_DOUBLINGS)
        whole = min(self.first_ms << doublings, max(self.most_ms, 1))
        at = ((seed + delivery_count) * _SPREAD) % _WORD
        return max(whole - whole * JITTER_PERCENT * at // (100 * _WORD), 1)
