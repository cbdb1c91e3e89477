"""Who subscribes to consumer groups with a regular expression: it matches only topics that they may see.

Soft state: the last client that had the expression counts, as in Kafka. After a restart, or where another node
coordinated before, nobody is known until the next heartbeat; until then nothing is added to what matched before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation, topic
from barnabas.services.access import Access
from barnabas.services.session import Session

if TYPE_CHECKING:
    from barnabas.core.groups.consumer.regexes import Sees

MAX_KNOWN: Final = 10_000
"""The most expressions whose subscribers are remembered; of any more, the oldest are forgotten."""


class Subscribers:
    """The clients that subscribe with expressions, by group and expression."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._clients: dict[tuple[str, str], Session] = {}

    @property
    def is_idle(self) -> bool:
        """Whether everybody may see every topic."""
        return self._access.is_open

    def note(self, group: str, regex: str, client: Session) -> bool:
        """A client has this subscription; returns whether nobody was known to."""
        is_new = self._clients.pop((group, regex), None) is None
        if len(self._clients) >= MAX_KNOWN:
            del self._clients[next(iter(self._clients))]
        self._clients[group, regex] = client
        return is_new

    def visible(self, group: str, regex: str) -> Sees | None:
        """See `core.groups.consumer.regexes.Visible`."""
        if self._access.is_open:
            from barnabas.core.groups.consumer.regexes import sees_all  # noqa: PLC0415 - loaded with the first group

            return sees_all
        client = self._clients.get((group, regex))
        if client is None:
            return None
        return lambda name: self._access.permits(client, Operation.DESCRIBE, topic(name))
