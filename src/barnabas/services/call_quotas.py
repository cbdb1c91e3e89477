"""Quotas of those who call over HTTP and gRPC, whose connections cannot be held: one may carry the calls of many users.

A single call of a caller over a quota is refused before anything is done for it, with the time to wait: nothing of it
stays on the node, and it may be sent again as it is. What a call that was let in uses counts in full, so the average is
the quota, as over the Kafka port. A stream is held instead: nothing more is read from it, or sent to it, until its
caller owes nothing.

They share what they may use with the same user's clients of the Kafka port, on the node that they call.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Final, TypeVar

from barnabas.core.access.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from barnabas.core.access.rates import throttle_ms
from barnabas.core.errors import ThrottlingQuotaExceeded
from barnabas.services.quotas import NODE_CLIENT_ID, Quotas
from barnabas.services.session import Session

T = TypeVar("T")

MAX_CLIENT_ID: Final = 200
LOOK_S: Final = 1.0
"""How often a stream that is held looks whether its quota was raised, or its login has ended."""


class Use(Enum):
    """What a call uses besides the time of the node: the quota of its bytes, if it has one."""

    TIME = None
    PRODUCING = PRODUCER_BYTE_RATE
    CONSUMING = CONSUMER_BYTE_RATE


class CallQuotas:
    """Lets calls in, and counts what they use."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas

    def admit(self, session: Session, use: Use) -> None:
        """Refuse a call of one who is over a quota; `session.throttle_ms` then has the time to wait."""
        if not self._quotas.is_on:
            return
        name, owed_s = self._owed(session, use)
        if owed_s > 0.0:
            self._quotas.note_held(name, owed_s)
            session.throttle_ms = max(session.throttle_ms, throttle_ms(owed_s))
            raise ThrottlingQuotaExceeded(f"the quota {name} is used up; try again in {throttle_ms(owed_s)} ms")

    async def wait_admitted(self, session: Session, use: Use) -> None:
        """Hold a stream while its caller is over a quota."""
        is_counted = False
        while self._quotas.is_on:
            name, owed_s = self._owed(session, use)
            if owed_s <= 0.0:
                return
            if not is_counted:
                self._quotas.note_held(name, owed_s)
                is_counted = True
            await asyncio.sleep(min(owed_s, LOOK_S))
            session.check_login()

    def count(self, session: Session, use: Use, size: int) -> None:
        """A caller has sent, or was sent, so many bytes."""
        if self._quotas.is_on and use.value is not None:
            self._quotas.take(session, use.value, size)

    def most_to_consume(self, session: Session, max_bytes: int) -> int:
        """How many bytes may be read for a caller at once."""
        return self._quotas.most_to_consume(session, max_bytes) if self._quotas.is_on else max_bytes

    def measure(self, session: Session, do: Callable[[], T]) -> T:
        """Do a call, and count the processor time that it takes."""
        return self._quotas.measure(session, do) if self._quotas.is_on else do()

    def measure_long(self, session: Session, do: Callable[[], T]) -> T:
        """The same for a stream, which quotas may be set for while it is open."""
        return self._quotas.measure_long(session, do)

    def _owed(self, session: Session, use: Use) -> tuple[str, float]:
        """The quota that a caller has to wait for longest, and how long."""
        names = (REQUEST_PERCENTAGE,) if use.value is None else (REQUEST_PERCENTAGE, use.value)
        return max(((name, self._quotas.owed_s(session, name)) for name in names), key=lambda each: each[1])


def client_id_of(given: str | None, default: str | None) -> str | None:
    """The client id of a caller: what it says, but for the ids of nodes, which have no quotas."""
    text = (given or default or "")[:MAX_CLIENT_ID]
    return None if not text or NODE_CLIENT_ID.fullmatch(text) else text
