"""Reading for a client: the records of each partition, within the limits of the request.

Two steps, so that a long poll reads nothing: `look` finds out what is available and how much, `read` reads the bytes.
Data known to be in memory is read at once; anything else on a thread, and the loop never waits for a disk. If a client
may not have all of it at once, only the first part is read; the rest is `UnreadRecords`, read as the client reads.
Located records may be truncated before they are read, and others written in their place. So the number of truncations
of the log is compared before and after a read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.core.errors import (
    BarnabasError,
    CorruptLog,
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from barnabas.core.fetched import FetchPartition
from barnabas.core.model import NO_EPOCH, NO_NODE
from barnabas.core.records.batch import Buffer
from barnabas.core.replica.leader_epochs import EpochEnd
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition
from barnabas.storage.log import Log
from barnabas.storage.lookup import aborted_transactions
from barnabas.storage.readable_segment import SegmentGone
from barnabas.storage.reading import ReadPlan, Slice


@dataclass(slots=True)
class Found:
    """The available records of one partition, located but not read."""

    partition: Partition
    log: Log | None  # None: nothing was ever written
    offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    bound: int
    max_bytes: int
    cuts: int  # of the log, when it was looked at
    leader_epoch: int  # then
    diverging: EpochEnd | None = None
    plan: ReadPlan | None = None  # what is left to a thread
    slice: Slice | None = None
    size: int = 0  # bytes to come, as far as it is known
    records: "Buffer | UnreadRecords" = b""
    error: BarnabasError | None = None  # what came in the way of reading it
    aborted: tuple[tuple[int, int], ...] | None = None
    preferred: int = NO_NODE  # the replica to read from instead

    @property
    def is_stale(self) -> bool:
        """Whether the log is no longer what it was: truncated, let go, or led by somebody else."""
        log, partition = self.log, self.partition
        return (
            log is None
            or log.cuts != self.cuts
            or partition.leader_epoch != self.leader_epoch
            or partition.held_log is not log
        )


class Fetch:
    """The verb: read from partitions that this node leads; for those who may, from partitions that it follows."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload

    def look(
        self,
        partition: Partition,
        wanted: FetchPartition,
        *,
        is_committed: bool,
        max_bytes: int,
        is_first: bool,
        at_any: bool = False,
        preferred: int = NO_NODE,
    ) -> Found:
        """Locate the records of one partition. `is_first`: nothing was found yet, so one batch may exceed the limit.

        `at_any`: of a partition that is followed here, too. With a `preferred` replica the records are found there.
        """
        check_leader_epoch(partition, wanted.current_leader_epoch)
        log = partition.find_log_at_any() if at_any else partition.find_log()
        if log is None:
            return _look_at_nothing(partition, wanted)
        high_watermark = partition.high_watermark
        stable = log.last_stable_offset(high_watermark)
        found = Found(
            partition=partition,
            log=log,
            offset=wanted.fetch_offset,
            high_watermark=high_watermark,
            last_stable_offset=stable,
            log_start_offset=log.log_start_offset,
            bound=stable if is_committed else high_watermark,
            max_bytes=min(wanted.max_bytes, max_bytes),
            cuts=log.cuts,
            leader_epoch=partition.leader_epoch,
            preferred=preferred,
        )
        if preferred != NO_NODE:
            return found
        if wanted.last_fetched_epoch != NO_EPOCH:
            found.diverging = _diverging(partition, wanted, log)
            if found.diverging is not None:
                return found
        log.check_readable(wanted.fetch_offset)
        self._locate(found, is_first=is_first)
        if is_committed and found.slice is not None:
            found.aborted = _aborted(found)  # of the active segment, which has them in memory
        elif is_committed and found.plan is not None:
            found.aborted = ()  # to be looked up on a thread
        return found

    def look_for_replica(
        self,
        partition: Partition,
        wanted: FetchPartition,
        replica: "FetchingReplica | None",
        *,
        max_bytes: int,
        is_first: bool,
        is_held_back: bool = False,
    ) -> Found:
        """The same for a replica, which gets everything up to the end of the log. With `replica` it is noted how far
        that one has come: once for each request. One that `is_held_back` gets no records for now.
        """
        check_leader_epoch(partition, wanted.current_leader_epoch)
        log = partition.find_log()
        found = _look_at_nothing(partition, wanted) if log is None else _look_at_end(partition, log, wanted, max_bytes)
        if found.diverging is None and replica is not None:
            partition.note_fetch(replica.node_id, wanted, broker_epoch=replica.broker_epoch)
            if wanted.damaged_offset >= 0:
                partition.note_damage(wanted.damaged_offset)
            found.high_watermark = partition.high_watermark
        if found.diverging is None and log is not None and not is_held_back:
            self._locate(found, is_first=is_first)
        return found

    def _locate(self, found: Found, *, is_first: bool) -> None:
        assert found.log is not None
        plan = found.log.begin_read(found.offset, end_offset=found.bound)
        if plan is None or (found.max_bytes <= 0 and not is_first):
            return
        if not plan.is_fresh:
            found.plan = plan
            found.size = max(found.max_bytes, 1)  # at least one batch, and most likely all that is asked for
            return
        try:
            located = plan.locate(max(found.max_bytes, 0))
        except CorruptLog:
            found.partition.note_damage(found.offset)
            raise
        if located is not None and (located.size <= found.max_bytes or is_first):
            found.slice, found.size = located, located.size

    def read_now(self, found: Sequence[Found], *, max_bytes: int) -> bool:
        """Read what is in memory, up to `max_bytes`; False if something is left for `read`."""
        is_complete = True
        for each in found:
            if each.plan is not None:
                is_complete = False
            elif each.slice is None:
                continue
            elif each.is_stale:
                each.slice = None  # the client gets nothing now, and asks again
            elif each.slice.size > max_bytes:
                each.records, each.slice = UnreadRecords(each, each.slice, self._offload), None
            else:
                try:
                    data = each.slice.read_nowait()
                except OSError:
                    data = None  # the thread will meet it again, and knows what to do
                if data is None:
                    is_complete = False
                else:
                    each.records, each.slice = data, None
                    max_bytes -= len(data)
        return is_complete

    async def read_whole(self, found: Found, *, at_once: int, most: int) -> Buffer:
        """What was found in one partition, all of it in memory: at once if that is up to `at_once` bytes, on a thread
        if it is up to `most`, and a batch that is larger in pieces.
        """
        if found.slice is None and found.plan is None:
            return b""
        if not self.read_now([found], max_bytes=max(found.size, at_once)):
            await self.read([found], max_bytes=max(found.size, most))
        if found.error is not None:
            raise found.error
        records = found.records
        if isinstance(records, UnreadRecords):
            whole = bytearray()
            while len(whole) < len(records):
                whole += await records.take(at_once)
            return whole
        return records

    async def read(self, found: Sequence[Found], *, max_bytes: int, is_first: bool = True) -> None:
        """Read what `read_now` left, on a thread, up to `max_bytes`. `is_first` as in `look`."""
        left = [each for each in found if each.plan is not None or each.slice is not None]
        is_first = is_first and not any(each.records for each in found)
        await self._offload.run(lambda: self._read_all(left, max_bytes, is_first=is_first))
        for each in left:
            if each.is_stale:
                each.records = b""
            elif isinstance(each.error, CorruptLog):
                each.partition.note_damage(each.offset)

    def _read_all(self, found: Sequence[Found], max_bytes: int, *, is_first: bool) -> None:
        for each in found:
            try:
                max_bytes -= self._read_blocking(each, max(max_bytes, 0), is_first=is_first)
            except BarnabasError as error:
                each.error = error
            is_first = is_first and not each.records

    def _read_blocking(self, found: Found, max_bytes: int, *, is_first: bool) -> int:
        """Locate and read one partition's records; returns the number of bytes read."""
        log = found.log
        assert log is not None
        size = 0
        try:
            if found.plan is not None:
                found.slice = found.plan.locate(max(found.max_bytes, 0))
                found.plan = None
                if found.slice is not None and found.slice.size > found.max_bytes and not is_first:
                    found.slice = None  # only the first batch of an answer may be over the limit
            if found.slice is not None:
                located, found.slice = found.slice, None
                size = min(located.size, max_bytes)
                with log.context.health.reading():
                    data = located.file.read(located.position, size)
                if size == located.size:
                    found.records = data
                else:
                    found.records = UnreadRecords(found, located, self._offload, first=data)
        except SegmentGone:
            found.plan = None  # replaced meanwhile by compaction: the client gets nothing now, and asks again
        found.size = len(found.records)
        if found.aborted is not None and found.size:
            found.aborted = _aborted(found)
        return size


class FetchingReplica(NamedTuple):
    """Who fetches to follow: a node, and the broker epoch of its registration."""

    node_id: int
    broker_epoch: int


def _look_at_end(partition: Partition, log: Log, wanted: FetchPartition, max_bytes: int) -> Found:
    found = Found(
        partition=partition,
        log=log,
        offset=wanted.fetch_offset,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.high_watermark,
        log_start_offset=log.log_start_offset,
        bound=log.end_offset,
        max_bytes=min(wanted.max_bytes, max_bytes),
        cuts=log.cuts,
        leader_epoch=partition.leader_epoch,
    )
    if wanted.last_fetched_epoch != NO_EPOCH:
        found.diverging = _diverging(partition, wanted, log)
    if found.diverging is None:
        log.check_readable(wanted.fetch_offset)
    return found


def _look_at_nothing(partition: Partition, wanted: FetchPartition) -> Found:
    """The answer for a partition that was never written to. Reading creates no files."""
    found = Found(
        partition,
        None,
        wanted.fetch_offset,
        high_watermark=0,
        last_stable_offset=0,
        log_start_offset=0,
        bound=0,
        max_bytes=0,
        cuts=0,
        leader_epoch=partition.leader_epoch,
    )
    if wanted.last_fetched_epoch != NO_EPOCH:
        found.diverging = _diverging(partition, wanted, None)
    if found.diverging is None and wanted.fetch_offset != 0:
        raise OffsetOutOfRange(
            f"offset {wanted.fetch_offset} is not in {partition.name}, which is empty and starts at 0"
        )
    return found


class UnreadRecords:
    """Records of an answer that are read as its client reads: `runtime.answers.Unread`.

    Holds its file open, so a segment may be removed or replaced meanwhile. Refused once the log was truncated, whatever
    was written there since.
    """

    __slots__ = ("_cuts", "_file", "_first", "_left", "_log", "_offload", "_position")

    def __init__(self, found: Found, located: Slice, offload: Offload, *, first: bytes = b"") -> None:
        assert found.log is not None
        self._log = found.log
        self._cuts = found.cuts
        self._file = located.file
        self._position = located.position + len(first)
        self._left = located.size - len(first)
        self._first = first  # read already
        self._offload = offload

    def __len__(self) -> int:
        return len(self._first) + self._left

    def take_nowait(self, max_bytes: int) -> Buffer | None:
        """The next bytes, if they are in memory."""
        self._check_cuts()
        if self._first:
            first, self._first = self._first, b""
            return first
        size = min(max_bytes, self._left)
        try:
            data = self._file.read_nowait(self._position, size)
        except OSError:
            return None  # the thread will meet it again, and knows what to do
        if data is not None:
            self._advance(size)
        return data

    async def take(self, max_bytes: int) -> Buffer:
        """The next bytes, from the disk."""
        size = min(max_bytes, self._left)
        try:
            data = await self._offload.run(lambda: self._file.read(self._position, size))
        except OSError as error:
            raise self._log.context.health.fail(error) from error
        self._check_cuts()
        if len(data) != size:
            raise CorruptLog(
                f"{self._log.partition} ends in {self._file.path}, in the middle of the records to be sent"
            )
        self._advance(size)
        return data

    def _advance(self, size: int) -> None:
        self._position += size
        self._left -= size

    def _check_cuts(self) -> None:
        if self._log.cuts != self._cuts:
            raise NotLeaderOrFollower(f"{self._log.partition} was truncated while it was being sent")


def _aborted(found: Found) -> tuple[tuple[int, int], ...]:
    """The aborted transactions that have records in what was found: producer id and first offset of each."""
    assert found.log is not None
    aborted = aborted_transactions(found.log, found.offset, found.bound)
    return tuple((each.producer_id, each.first_offset) for each in aborted)


def check_leader_epoch(partition: Partition, epoch: int) -> None:
    """Refuse a client that knows an older, or a newer, leader than this one."""
    if epoch in (NO_EPOCH, partition.leader_epoch):
        return
    if epoch < partition.leader_epoch:
        raise FencedLeaderEpoch(f"{partition.name} is led in epoch {partition.leader_epoch}; {epoch} is stale")
    raise UnknownLeaderEpoch(f"{partition.name} is led in epoch {partition.leader_epoch}; {epoch} is unknown")


def _diverging(partition: Partition, wanted: FetchPartition, log: Log | None) -> EpochEnd | None:
    """Where the client's history diverged from the log, if it did: it read records that no longer exist."""
    epoch = wanted.last_fetched_epoch
    end = partition.epoch_end(epoch) if log is None else log.epoch_end(epoch)
    if end.epoch == NO_EPOCH:
        raise OffsetOutOfRange(f"{partition.name} does not know epoch {wanted.last_fetched_epoch}")
    if end.epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:
        if not partition.is_led:  # it may just not have come that far
            raise OffsetNotAvailable(f"{partition.name} is behind at this replica: ask the leader")
        return end
    return None
