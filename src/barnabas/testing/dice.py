"""Repeatable randomness: every stream of random numbers comes from one seed and the stream's own name.

Streams are independent, so that one more number for the network does not change what the disk does. Names are mixed in
with blake2b, never with `hash`, which differs from process to process.
"""

import hashlib
import uuid
from random import Random


def derive_random(seed: int, name: str) -> Random:
    """The stream called `name` of a seed: the same numbers in every process, on every machine."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    return Random(int.from_bytes(digest, "big"))


class SimulatedDice:
    """`runtime.dice.Dice` from a seeded stream. It is predictable: for tests only."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def uuid(self) -> uuid.UUID:
        """The next id (version 4)."""
        return uuid.UUID(bytes=self._random.randbytes(16), version=4)

    def token_bytes(self, size: int) -> bytes:
        """The next bytes."""
        return self._random.randbytes(size)

    def randrange(self, stop: int) -> int:
        """A number from 0 up to but not including `stop`."""
        return self._random.randrange(stop)
