"""Randomness, behind a port: new ids, secrets, jitter. The simulation repeats it for the same seed."""

import secrets
import uuid
from typing import Protocol


class Dice(Protocol):
    """The source of every random choice of a node."""

    def uuid(self) -> uuid.UUID:
        """A new random id (version 4)."""
        ...

    def token_bytes(self, size: int) -> bytes:
        """So many unpredictable bytes."""
        ...

    def randrange(self, stop: int) -> int:
        """A number from 0 up to but not including `stop`, all equally likely."""
        ...


class SystemDice:
    """The operating system's randomness, fit for secrets."""

    def uuid(self) -> uuid.UUID:
        """A new random id (version 4)."""
        return uuid.uuid4()

    def token_bytes(self, size: int) -> bytes:
        """So many unpredictable bytes."""
        return secrets.token_bytes(size)

    def randrange(self, stop: int) -> int:
        """A number from 0 up to but not including `stop`, all equally likely."""
        return secrets.randbelow(stop)
