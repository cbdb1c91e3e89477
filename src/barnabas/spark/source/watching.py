"""Where the partitions of a stream end, asked as seldom as will do.

Spark asks a stream for its latest offsets about ninety times a second while nothing happens. Here the next answer waits
until 20 ms after the last, which is little beside the time that a micro-batch takes, and longer where it costs more or
matters less: with every partition a little, and in a stream that has been idle a twentieth of the time that it has
been, up to a quarter of a second. So twenty idle queries take little of a core, and a record that comes after a pause
is noticed late by a twentieth of that pause at most. A stream is not idle while its query runs batches, of another
source too: Spark asks one source after another, and one that waited would hold up the others.

New topics and partitions are looked for once a second, of thousands of partitions every few seconds.
"""

import time
from collections.abc import Callable
from typing import Final

from barnabas.core.errors import UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.spark.source.lookup import Lookup
from barnabas.spark.source.offsets import LATEST, Offsets
from barnabas.spark.source.options import Selection
from barnabas.spark.source.resolving import select

_ENDS_EVERY_S: Final = 0.02
_MORE_PER_PARTITION_S: Final = 0.000_02
_SHARE_OF_IDLE_TIME: Final = 0.05
_LONGEST_WAIT_S: Final = 0.25
_PARTITIONS_EVERY_S: Final = 1.0
_MORE_PER_PARTITION_FOUND_S: Final = 0.001
# A partition that vanished or became shorter is looked at again before it is believed: the broker that was asked may
# just have started.
_SECOND_LOOKS: Final = 2
_SECOND_LOOK_S: Final = 0.25


class Watch:
    """The ends of the partitions that a stream selects."""

    def __init__(
        self,
        lookup: Lookup,
        selection: Selection,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._lookup = lookup
        self._selection = selection
        self._clock = clock
        self._sleep = sleep
        self._keys: list[TopicPartition] = []
        self._ends: Offsets = {}
        self._keys_at = self._ends_at = float("-inf")
        self._busy_at = clock()

    def note_batch(self) -> None:
        """The query runs a batch, whatever it reads."""
        self._busy_at = self._clock()

    def ends(self, reached: Offsets) -> Offsets:
        """The end of each partition now; looked at twice where it is behind what a query has reached."""
        self._sleep(max(self._ends_at + self._pause_s() - self._clock(), 0.0))
        self._look()
        for _ in range(_SECOND_LOOKS):
            if all(self._ends.get(key, -1) >= offset for key, offset in reached.items()):
                break
            self._sleep(_SECOND_LOOK_S)
            self._keys_at = float("-inf")
            self._look()
        return self._ends

    def newest(self) -> Offsets:
        """The ends that were found last; for display only."""
        if not self._ends:
            self._look()
        return self._ends

    def _pause_s(self) -> float:
        """How long an answer serves before it is asked for again."""
        least = _ENDS_EVERY_S + _MORE_PER_PARTITION_S * len(self._keys)
        idle_for = self._ends_at - self._busy_at
        return max(least, min(_SHARE_OF_IDLE_TIME * idle_for, _LONGEST_WAIT_S))

    def _look(self) -> None:
        now = self._clock()
        if now >= self._keys_at + _PARTITIONS_EVERY_S + _MORE_PER_PARTITION_FOUND_S * len(self._keys):
            self._look_for_partitions(now)
        try:
            ends = self._lookup.offsets(dict.fromkeys(self._keys, LATEST))
        except UnknownTopicOrPartition:  # deleted since the last look for partitions
            self._look_for_partitions(now)
            ends = self._lookup.offsets(dict.fromkeys(self._keys, LATEST))
        if ends != self._ends:
            self._busy_at = now
        self._ends, self._ends_at = ends, now

    def _look_for_partitions(self, now: float) -> None:
        self._keys = select(self._lookup, self._selection)
        self._keys_at = now
