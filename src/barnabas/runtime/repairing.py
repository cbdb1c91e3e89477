"""Repairing this node's replicas from those of other nodes, while it runs.

Damage is found by whoever reads it, or by the scrub, and noted here by partition and offset. The segment is then read
through, and for each damaged place in it the missing batches are fetched from another replica, checked, and put where
they were (`storage.mending`). A follower asks its leader first, a leader those in sync with it, as a consumer would: so
it gets nothing but what is committed, and what replicas know of each other does not change. Nothing is taken back: this
replica has all that it had, and stays in sync.

A log that cannot even be opened is of no use to anybody. If this node leads, it asks the controller for another leader.
Once it follows, and its replica neither counts as in sync nor may be elected, the files are removed and all of it is
fetched again.

What cannot be had now is tried again, less and less often.

Invariants: one segment at a time; nothing is written unless the log is what it was when it was read; what replaces
damage is below the high watermark.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from barnabas.core.errors import BarnabasError, CorruptLog, LeaderNotAvailable, NewLeaderElected, StorageError
from barnabas.core.fetched import CONSUMER
from barnabas.core.metadata.image import PartitionState
from barnabas.core.metadata.isr import UNCHECKED_EPOCH, IsrChange
from barnabas.core.model import TopicPartition
from barnabas.runtime.cluster_metadata import ImageSource
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.logs import Logs
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.offload import Offload
from barnabas.runtime.other_brokers import Ask
from barnabas.runtime.replica import Replica
from barnabas.storage.compaction.output import FinishedSegment
from barnabas.storage.log import Log
from barnabas.storage.mending import (
    MAX_GAPS_BYTES,
    Gap,
    Mend,
    discard,
    find_gaps,
    fits_in_place,
    missing_from,
    put_in_place,
    write_beside,
    write_in_place,
)
from barnabas.storage.readable_segment import SegmentGone
from barnabas.storage.segment import Segment
from barnabas.wire.apis import FETCH
from barnabas.wire.writing import Values

log = get_logger("barnabas.repair", is_limited=False)

PURPOSE: Final = "repair"
RACK: Final = "repair"
"""A consumer that says where it is may read from followers; that it is in no rack of theirs does not matter."""
PIECE_BYTES: Final = 1024 * 1024
LOOK_S: Final = 5.0
MAX_PAUSE_S: Final = 600.0
MAX_PENDING: Final = 10_000  # more are found again by the next scrub
_IDS_FROM: Final = 13


class RepairListener(Protocol):
    """Who hears what was found and what was mended."""

    def note_found(self, each: Log, segment: Segment, gap: Gap) -> None: ...
    def note_mended(self, each: Log, segment: Segment) -> None: ...


Resign = Callable[[Sequence[IsrChange]], Awaitable[Sequence[BarnabasError | None]]]


class _Postponed(Exception):
    """It cannot be repaired now."""


class Repairing:
    """Repairs one segment after another; `run` is its task."""

    def __init__(
        self, logs: Logs, brokers: Ask, metadata: ImageSource, offload: Offload, *, node_id: int, timeout_s: float
    ) -> None:
        self._logs = logs
        self._brokers = brokers
        self._metadata = metadata
        self._offload = offload
        self._node_id = node_id
        self._timeout_s = timeout_s
        self._pending: dict[tuple[TopicPartition, int], tuple[float, float]] = {}  # when next, and the pause after it
        self._told: set[tuple[TopicPartition, int]] = set()
        self.resign: Resign | None = None
        """How the controller is asked for other leaders."""
        self._unserved: set[TopicPartition] = set()  # led here, without a log that can be opened: that was told
        self._removals: dict[TopicPartition, Callable[[], list[str]]] = {}  # of files of logs to be fetched anew
        self._news = asyncio.Event()
        self.listener: RepairListener | None = None
        self.repaired = 0
        """How many damaged places were repaired."""
        self.begun_anew = 0
        """How many replicas were fetched again as a whole."""
        logs.on_damage = self.note_damage

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.counter(
            "repaired_places_total", "Damaged places in the logs, repaired from other replicas.", lambda: self.repaired
        )
        metrics.counter(
            "replicas_begun_anew_total",
            "Replicas that could not be opened and were fetched again as a whole.",
            lambda: self.begun_anew,
        )
        metrics.gauge("damaged_segments_waiting", "Segments that wait to be repaired.", lambda: len(self._pending))

    def note_damage(self, each: Log, offset: int) -> bool:
        """A log seems to be damaged at an offset; False if there is no other replica to repair it from."""
        partition = self._logs.partitions.get(each)
        if partition is None or partition.is_alone:
            return False
        segment = next(each.segments_from(offset))
        place = (each.partition, segment.base_offset)
        if place not in self._pending and len(self._pending) < MAX_PENDING:
            self._pending[place] = (0.0, LOOK_S)
            self._news.set()
        return True

    async def run(self) -> None:
        """Repair until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._news.wait()
            self._news.clear()
            await self.repair_due()

    async def repair_due(self) -> None:
        """Repair what can be repaired now."""
        loop = asyncio.get_running_loop()
        for place, (due, pause_s) in list(self._pending.items()):
            if loop.time() < due:
                continue
            try:
                await self._repair(*place)
            except (BarnabasError, _Postponed, SegmentGone, OSError) as reason:
                self._pending[place] = (loop.time() + pause_s, min(2 * pause_s, MAX_PAUSE_S))
                self._postpone(place, reason)
            else:
                self._pending.pop(place, None)
                self._told.discard(place)
        for name in list(self._logs.data_dir.unreadable):
            self._begin_anew(name)
        await self._resign_unreadable()
        for name in list(self._removals):
            with suppress(StorageError):  # the directory is offline, or full: whoever meets it tells
                await self._remove(name)

    def _postpone(self, place: tuple[TopicPartition, int], reason: Exception) -> None:
        say = log.info if place in self._told or isinstance(reason, _Postponed | SegmentGone) else log.warning
        if say is log.warning:
            self._told.add(place)
        say("%s cannot be repaired yet, in its segment from offset %d on: %s", *place, reason)

    # A segment

    async def _repair(self, name: TopicPartition, base_offset: int) -> None:
        each = self._logs.data_dir.logs.get(name)
        partition = None if each is None else self._logs.partitions.get(each)
        if each is None or partition is None or partition.is_alone:
            return
        segment = next((found for found in each.segments if found.base_offset == base_offset), None)
        if segment is None:
            return
        cuts, gaps = each.cuts, await self._find_gaps(each, segment)
        self._check_same(each, segment, cuts)
        if not gaps:
            return
        for gap in gaps:
            if self.listener is not None:
                self.listener.note_found(each, segment, gap)
        if sum(gap.size for gap in gaps) > MAX_GAPS_BYTES:
            raise CorruptLog(f"more than {MAX_GAPS_BYTES} bytes are damaged: move the replica away and back again")
        mends = [Mend(gap, await self._fetch(partition, each, gap)) for gap in gaps]
        self._check_same(each, segment, cuts)
        if fits_in_place(mends):
            await self._write_in_place(each, segment, mends)
        else:
            async with self._logs.rewriting:
                self._check_same(each, segment, cuts)
                segment = await self._write_beside(each, segment, mends, cuts)
        self._check_same(each, segment, cuts)
        if await self._find_gaps(each, segment):
            raise CorruptLog("the disk returns other bytes than were written")
        self._note_mended(each, segment, gaps)

    async def _find_gaps(self, each: Log, segment: Segment) -> list[Gap]:
        size, end_offset = segment.size, _end_of(each, segment)

        def find() -> list[Gap]:
            return find_gaps(segment.file(), segment.base_offset, size=size, end_offset=end_offset)

        return await self._offload.run(find)

    def _check_same(self, each: Log, segment: Segment, cuts: int) -> None:
        is_same = self._logs.data_dir.logs.get(each.partition) is each and each.cuts == cuts
        if not is_same or not any(found is segment for found in each.segments):
            raise _Postponed("the log has changed meanwhile")

    async def _write_in_place(self, each: Log, segment: Segment, mends: list[Mend]) -> None:
        file = segment.file()
        with self._logs.data_dir.health.guarded():
            write_in_place(file, mends)
        await self._offload.run(self._logs.data_dir.while_present(each, file.sync))

    async def _write_beside(self, each: Log, segment: Segment, mends: list[Mend], cuts: int) -> Segment:
        if segment.is_active:
            each.roll()
            self._logs.flusher.note_append(each)
        end_base_offset, data_dir = _end_of(each, segment), self._logs.data_dir
        written: list[FinishedSegment] = []

        def write() -> None:
            written.append(write_beside(each, segment, segment.file(), mends, end_base_offset=end_base_offset))

        await self._offload.run(data_dir.while_present(each, write))
        try:
            self._check_same(each, segment, cuts)
        except _Postponed:
            for finished in written:
                await self._offload.run(data_dir.while_present(each, partial(discard, each, finished)))
            raise
        put_in_place(each, *written)
        return next(found for found in each.segments if found.base_offset == segment.base_offset)

    def _note_mended(self, each: Log, segment: Segment, gaps: list[Gap]) -> None:
        self.repaired += len(gaps)
        if self.listener is not None:
            self.listener.note_mended(each, segment)
        for gap in gaps:
            log.warning(
                "%s is repaired from another replica: offsets %d to %d, in %s at position %d. Check the disk: it has "
                "returned other bytes than were written",
                each.partition,
                gap.first_offset,
                gap.end_offset - 1,
                segment.log_path,
                gap.position,
            )

    # What is missing

    async def _fetch(self, partition: Replica, each: Log, gap: Gap) -> bytes:
        """The batches for a gap, from the first replica that has them."""
        if gap.end_offset > partition.high_watermark:
            raise _Postponed(f"offset {gap.end_offset - 1} is not committed yet")
        refusals: list[str] = []
        for node_id in partition.others_in_sync:
            try:
                return await self._fetch_from(node_id, partition, each, gap)
            except BarnabasError as error:
                refusals.append(f"node {node_id}: {error}")
        raise LeaderNotAvailable("; ".join(refusals) or "no other replica is in sync")

    async def _fetch_from(self, node_id: int, partition: Replica, each: Log, gap: Gap) -> bytes:
        found, offset = bytearray(), gap.first_offset
        while offset < gap.end_offset:
            records = await self._ask(node_id, partition, offset, max_bytes=min(gap.size, PIECE_BYTES))
            piece, next_offset = missing_from(records, gap, each.epochs, offset)
            if next_offset == offset:
                raise LeaderNotAvailable(f"it does not return offset {offset}")
            found += piece
            if len(found) > MAX_GAPS_BYTES:
                raise CorruptLog(f"more than {MAX_GAPS_BYTES} bytes are missing")
            offset = next_offset
        return bytes(found)

    async def _ask(self, node_id: int, partition: Replica, offset: int, *, max_bytes: int) -> bytes:
        asked = {
            "partition": partition.name.partition,
            "current_leader_epoch": partition.leader_epoch,
            "fetch_offset": offset,
            "partition_max_bytes": max_bytes,
        }
        is_leader = partition.following is not None and partition.following.leader_id == node_id
        values: Values = {
            "replica_id": CONSUMER,
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": max_bytes,
            "session_epoch": -1,
            "topics": [{"topic_id": partition.topic_id, "partitions": [asked]}],
            "rack_id": "" if is_leader else RACK,
        }
        answer = await self._brokers.ask(
            node_id, FETCH.key, values, timeout_s=self._timeout_s, purpose=PURPOSE, min_version=_IDS_FROM
        )
        code = int(answer.error_code)
        for topic in answer.responses:
            for each in topic.partitions:
                code = code or int(each.error_code)
                if not code:
                    return bytes(each.records or b"")
        raise LeaderNotAvailable(f"it refused with error {code}")

    # A whole replica

    def _begin_anew(self, name: TopicPartition) -> None:
        """Forget a log that cannot be opened, if nobody counts on it: it is fetched from the leader then."""
        topic = self._metadata.image.topics.get(name.topic)
        state = None if topic is None else topic.partitions.get(name.partition)
        if topic is None or state is None or self._node_id not in state.replicas:
            return
        is_counted_on = self._node_id in (state.leader, *state.isr, *state.elr, *state.last_known_elr)
        if is_counted_on or not state.isr:
            return
        reason = self._logs.data_dir.unreadable[name]
        self._removals[name] = self._logs.data_dir.begin_deletion([name])
        self.begun_anew += 1
        log.warning(
            "%s could not be opened here (%s). Its files are removed, and all of it is fetched again from node %d",
            name,
            reason,
            state.leader,
        )

    async def _resign_unreadable(self) -> None:
        """Have others lead what cannot be opened here, as soon as there is somebody who can."""
        led = {name: state for name in self._logs.data_dir.unreadable if (state := self._led_here(name)) is not None}
        if self.resign is None or not led:
            return
        changes = [
            IsrChange(
                state.topic_id,
                state.partition,
                state.leader_epoch,
                state.partition_epoch,
                tuple((node, UNCHECKED_EPOCH) for node in state.isr),
                resigns=True,
            )
            for state in led.values()
        ]
        try:
            outcomes = await self.resign(changes)
        except BarnabasError as refusal:
            log.info("no controller has moved what cannot be opened here: %s", refusal)
            return
        for name, outcome in zip(led, outcomes, strict=True):
            self._tell_resigned(name, outcome)

    def _led_here(self, name: TopicPartition) -> PartitionState | None:
        topic = self._metadata.image.topics.get(name.topic)
        state = None if topic is None else topic.partitions.get(name.partition)
        return state if state is not None and state.leader == self._node_id and len(state.replicas) > 1 else None

    def _tell_resigned(self, name: TopicPartition, outcome: BarnabasError | None) -> None:
        """One line for each partition, and one more if it could not be helped at first."""
        reason = self._logs.data_dir.unreadable.get(name)
        if isinstance(outcome, NewLeaderElected):
            self._unserved.discard(name)
            log.error("%s cannot be opened here (%s): another node leads it from now on", name, reason)
        elif name not in self._unserved:
            self._unserved.add(name)
            log.error("%s is led here and cannot be opened (%s), and no other node can lead: %s", name, reason, outcome)

    async def _remove(self, name: TopicPartition) -> None:
        """Remove the files; until they are gone nothing is made under their name."""
        failures = await self._offload.run(self._removals[name])
        del self._removals[name]
        for failure in failures:
            log.warning("files of %s cannot be removed (%s); remove them by hand", name, failure)


def _end_of(each: Log, segment: Segment) -> int:
    """The offset with which the log goes on after a segment."""
    bases = (other.base_offset for other in each.segments)
    return next((base for base in bases if base > segment.base_offset), each.end_offset)
