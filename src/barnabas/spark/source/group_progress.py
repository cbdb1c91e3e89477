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
from concurrent.futures import Future
from typing import Any, Final

import confluent_kafka

from barnabas.client.asking import Asking
from barnabas.client.errors import translate
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError
from barnabas.spark.source.offsets import Offsets

_log = logging.getLogger("barnabas.spark")

_TIMEOUT_S: Final = 10.0
_RETRY_S: Final = 1.0


class GroupProgress:
    """Commits for one group, from one thread."""

    def __init__(self, settings: Settings, group: str) -> None:
        self._group = group
        self._doing = f"commit the progress of group {group!r}"
        self._admin = settings.admin()
        self._asking = Asking(_TIMEOUT_S)
        self._noted: Offsets = {}
        self._committed: Offsets = {}
        self._under_way: tuple[Future[Any], Offsets] | None = None
        self._is_first = True
        self._has_warned = False
        self._not_before = float("-inf")

    def note(self, reached: Offsets) -> None:
        """The query has finished everything before these offsets."""
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

    def _send(self) -> None:
        changed = {key: offset for key, offset in self._noted.items() if self._committed.get(key) != offset}
        if not changed:
            return
        partitions = [confluent_kafka.TopicPartition(*key, offset) for key, offset in sorted(changed.items())]
        wanted = [confluent_kafka.ConsumerGroupTopicPartitions(self._group, partitions)]
        asked = self._asking.ask(self._admin.alter_consumer_group_offsets, wanted, doing=self._doing)
        self._under_way = asked[self._group], changed

    def _settle(self) -> None:
        """Take the answer to the commit that is under way; a refusal is raised."""
        if self._under_way is None:
            return
        (answer, offsets), self._under_way = self._under_way, None
        for each in self._asking.wait(answer, self._doing).topic_partitions:
            if each.error is not None:
                raise translate(each.error, self._doing)
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
