"""A fetch (`fetch_round`) that waits for its partitions to grow: it is answered when there is enough, or in the end.

What grows is looked at again, and nothing else. Of a follower that is what the request named and what is ready in its
session (`resting_partitions`); the session says what else changes meanwhile.

If its time is up with nothing found, it waits a little longer for records that are being synced (`syncing`): a client
that was told that they are written must find them, however short its wait.
"""

import asyncio
from collections.abc import Callable, Iterable

from barnabas.core.fetched import PartitionKey
from barnabas.runtime.partition import Partition
from barnabas.services.fetch_round import MAX_AT_ONCE, FetchRound
from barnabas.services.syncing import SYNC_WAIT_S
from barnabas.services.watermark_news import WatermarkNews


class LongPoll:
    """Waits for the partitions of a round; calls back once."""

    __slots__ = (
        "_grown",
        "_is_done",
        "_is_overdue",
        "_is_scheduled",
        "_loop",
        "_news",
        "_on_ready",
        "_parked",
        "_round",
        "_timer",
    )

    def __init__(self, waiting: FetchRound, on_ready: Callable[[], None]) -> None:
        self._round = waiting
        self._on_ready = on_ready
        self._is_done = self._is_scheduled = self._is_overdue = False
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(waiting.max_wait_s, self._on_time)
        self._news = WatermarkNews(self.hurry) if waiting.passes_watermarks_on else None
        self._parked: dict[Partition, PartitionKey] = {}
        self._grown: dict[PartitionKey, None] = {}  # to be looked at again
        if waiting.resting is not None:
            waiting.resting.listener = self
        self._hear_of_watermarks(waiting.partitions)
        self._park(waiting.partitions)

    def _hear_of_watermarks(self, keys: Iterable[PartitionKey]) -> None:
        if self._news is not None:
            for key in keys:
                self._round.wait_for_watermark(key, self._news)

    def _park(self, keys: Iterable[PartitionKey]) -> None:
        for key in keys:
            partition = self._round.partitions.get(key)
            if partition is not None:
                self._parked[partition] = key
                self._round.wait_at(partition, self)

    def note_growth(self, partition: Partition) -> None:
        """A partition has grown; look once for all that grew in this turn of the loop."""
        key = self._parked.get(partition)
        if key is not None:
            self._look_soon_at(key)

    def note_append(self, key: PartitionKey, partition: Partition) -> None:
        """A partition that rested may have records."""
        self._round.add(key, partition)
        self._look_soon_at(key)

    def note_watermark(self, partition: Partition) -> None:
        """The high watermark of a partition that rested has moved."""
        if self._news is not None:
            self._news.note_growth(partition)

    def _look_soon_at(self, key: PartitionKey) -> None:
        self._grown[key] = None
        if not self._is_scheduled and not self._is_done:
            self._is_scheduled = True
            self._loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        self._is_scheduled = False
        if self._is_done:
            return
        grown = list(self._grown)[:MAX_AT_ONCE]
        added = [key for key in grown if key not in self._round.wanted]
        for key in grown:
            del self._grown[key]
            self._round.look_at(key)
        if not (self._round.awaits_sync if self._is_overdue else self._round.must_wait):
            self.hurry()
            return
        self._hear_of_watermarks(added)
        self._park(grown)
        if self._grown:
            self._look_soon_at(next(iter(self._grown)))

    def _on_time(self) -> None:
        """The client's wait time is up."""
        if self._is_overdue or not self._round.note_unsynced():
            self.hurry()
            return
        self._is_overdue = True
        self._timer = self._loop.call_later(SYNC_WAIT_S, self._on_time)

    def cancel(self) -> None:
        """The client is gone."""
        self._is_done = True
        self._timer.cancel()
        resting = self._round.resting
        if resting is not None and resting.listener is self:
            resting.listener = None
        for partition in self._parked:
            partition.stop_waiting(self)
        if self._news is not None:
            self._news.cancel()
            for partition in self._round.partitions.values():
                partition.stop_waiting(self._news)

    def hurry(self) -> None:
        """Be ready now, with what is available."""
        if not self._is_done:
            self.cancel()
            self._round.look_at_news()
            self._on_ready()
