"""A stream's progress, committed as a consumer group, so that its lag shows in every Kafka tool.

Nobody joins the group: the offsets are committed from outside of it, which a broker allows while it has no members.
Spark's checkpoint decides where a query goes on; the group only shows it, and is never read.

What is committed is where the last finished micro-batch ended: Spark says so when it asks for the next one. The first
commit of a run sets the group to where the query is, back too: a query that was restarted from an older checkpoint, or
anew, reads those records again, and they are lag. From then on the group moves forward only, but for a partition that
was made anew.

Commits are sent and not waited for; one is under way at a time, and the newest offsets go next. A group that has
members refuses the first commit, and so does the query: two readers would overwrite each other. Later failures are
warned of, once, and tried again: a query does not stop for its progress being unknown.
"""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from barnabas.client.brokers import Brokers
from barnabas.client.coordinators import Coordinators, commit_offsets
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError
from barnabas.spark.source.offsets import Offsets

_log = logging.getLogger("barnabas.spark")

_PATIENCE_S: Final = 10.0
_RETRY_S: Final = 1.0


class GroupProgress:
    """Commits for one group; `note` and `close` are called by one thread."""

    def __init__(self, settings: Settings, group: str) -> None:
        self._group = group
        self._brokers = Brokers(settings)  # of the thread that commits, and of nobody else
        self._coordinators = Coordinators(self._brokers)
        self._thread = ThreadPoolExecutor(1, "group-progress")
        self._noted: Offsets = {}
        self._committed: Offsets = {}
        self._under_way: tuple[Future[None], Offsets] | None = None
        self._is_first = True
        self._has_warned = False
        self._not_before = float("-inf")

    def note(self, reached: Offsets) -> None:
        """Note that the query has finished everything before these offsets."""
        self._noted = reached
        if self._is_first:
            self._send()
            self._settle()
            self._is_first = False
        elif (self._under_way is None or self._under_way[0].done()) and time.monotonic() >= self._not_before:
            self._go_on()

    def close(self) -> None:
        """Wait for what is under way, and send what is not sent yet."""
        self._go_on()
        self._go_on()
        self._thread.shutdown()
        self._brokers.close()

    def _send(self) -> None:
        changed = {key: offset for key, offset in self._noted.items() if self._committed.get(key) != offset}
        if changed:
            self._under_way = self._thread.submit(self._commit, changed), changed

    def _commit(self, offsets: Offsets) -> None:
        doing = f"commit the progress of group {self._group!r}"
        commit_offsets(self._coordinators, self._group, offsets, _PATIENCE_S, doing=doing)

    def _settle(self) -> None:
        """Take the answer to the commit that is under way; a refusal is raised."""
        if self._under_way is None:
            return
        (answer, offsets), self._under_way = self._under_way, None
        answer.result()
        self._committed |= offsets

    def _go_on(self) -> None:
        """Take the answer to the last commit and send the next; a failure is warned of and tried again later."""
        try:
            self._settle()
            self._send()
            self._has_warned = False
        except BarnabasError as error:
            if not self._has_warned:
                _log.warning("%s; the query goes on", error)
            self._has_warned = True
            self._not_before = time.monotonic() + _RETRY_S
