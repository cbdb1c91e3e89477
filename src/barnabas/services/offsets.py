"""Finding offsets: the first, the last, one by its time.

The answer is bounded by what the client may read: the high watermark, or the last stable offset. A partition that was
never written to has no log, and reading creates none.
"""

from collections.abc import Callable
from typing import Final

from barnabas.core.errors import OffsetNotAvailable
from barnabas.core.model import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from barnabas.runtime.partition import Partition
from barnabas.storage.log import Log
from barnabas.storage.lookup import TimedOffset, offset_for_timestamp, offset_of_newest_timestamp

# What a request has in the place of a time.
LATEST: Final = -1
EARLIEST: Final = -2
NEWEST_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

NOT_FOUND: Final = TimedOffset(NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)

Lookup = Callable[[], TimedOffset]


def find_offset(
    partition: Partition, timestamp: int, *, is_committed: bool, is_replica: bool = False
) -> TimedOffset | Lookup:
    """The offset for a timestamp, or for one of the names above; or a function that finds it, to be run on a thread.

    The latest for a replica is the end of the log. For anybody else a new leader has to know first what the one before
    it had acknowledged, or a client might see the end go back.
    """
    log = partition.find_log()
    if timestamp not in (EARLIEST, EARLIEST_LOCAL) and not is_replica and not partition.knows_its_watermark:
        raise OffsetNotAvailable(f"the leader of {partition.name} is new and does not know its high watermark yet")
    if timestamp == LATEST and is_replica:
        return TimedOffset(NO_TIMESTAMP, partition.end_offset, partition.leader_epoch)
    if timestamp == LATEST:
        bound = 0 if log is None else _bound(log, partition, is_committed=is_committed)
        return TimedOffset(NO_TIMESTAMP, bound, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimedOffset(NO_TIMESTAMP, 0, NO_EPOCH) if log is None else _earliest(log)
    if log is None or timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):  # there is no second tier
        return NOT_FOUND
    return _lookup(log, timestamp, bound=_bound(log, partition, is_committed=is_committed))


def _bound(log: Log, partition: Partition, *, is_committed: bool) -> int:
    return log.last_stable_offset(partition.high_watermark) if is_committed else partition.high_watermark


def _earliest(log: Log) -> TimedOffset:
    first = next(iter(log.epochs.entries), None)
    is_known = first is not None and first.start_offset <= log.log_start_offset
    return TimedOffset(NO_TIMESTAMP, log.log_start_offset, first.epoch if first is not None and is_known else NO_EPOCH)


def _lookup(log: Log, timestamp: int, *, bound: int) -> Lookup:
    def look() -> TimedOffset:
        if timestamp == NEWEST_TIMESTAMP:
            found = offset_of_newest_timestamp(log)
        else:
            found = offset_for_timestamp(log, timestamp)
        return NOT_FOUND if found is None or found.offset >= bound else found

    return look
