"""One round of compaction, the part that needs no owner: reads closed segments, writes cleaned ones beside them.

A plan holds everything it needs by value, so it may run in any thread while the log goes on: it reads files that do not
change and writes files that nothing refers to yet. If the log is truncated meanwhile, the data read may be
inconsistent; that is `LogChanged`, and only the work is lost. Damage is `CorruptLog`, and a disk that fails or is full
an `OSError`. Whatever is raised, no file is left behind and none of the log's was touched.

Two passes: the dirty part into the key map, as far as that holds, then all segments up to there through the filter.
Consecutive segments that became small are merged, so that `segment.bytes` is reached again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from barnabas.core.errors import BarnabasError, CorruptLog, InvalidConfig
from barnabas.core.records.record import payload
from barnabas.storage.compaction.filter import BatchFilter, Rules
from barnabas.storage.compaction.key_map import Engine, KeyMap, make_key_map
from barnabas.storage.compaction.output import CleanedSegment, FinishedSegment, remove_files
from barnabas.storage.compaction.transactions import SeenTransactions
from barnabas.storage.disk import Disk, File
from barnabas.storage.names import repair_command
from barnabas.storage.offset_index import MAX_RELATIVE_OFFSET
from barnabas.storage.readable_segment import SegmentGone
from barnabas.storage.scan import BadBatch, FoundBatch, scan_batches, walk_headers
from barnabas.storage.segment import Segment
from barnabas.storage.txn_index import AbortedTransaction

Pace: TypeAlias = Callable[[int], None]
"""Called with the size of each batch read: it may wait, to hold a rate, or raise, to give up."""


class LogChanged(Exception):
    """The log was truncated or removed during a compaction. This is not an error; plan again."""


@dataclass(frozen=True, slots=True)
class Source:
    """A closed segment as it was when the plan was made."""

    segment: Segment
    size: int
    end_base_offset: int

    @property
    def base_offset(self) -> int:
        return self.segment.base_offset


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a run made, for `swap.apply`. Below `cleaned_to` the log will be clean."""

    plan: "CompactionPlan"
    cleaned_to: int
    outputs: tuple[FinishedSegment, ...]
    keys: int
    """How many different keys the dirty part had."""
    key_map_bytes: int

    @property
    def freed_bytes(self) -> int:
        """The bytes by which the log shrinks."""
        return sum(
            sum(source.size for source in self.plan.sources if output.replaces(source.base_offset)) - output.size
            for output in self.outputs
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """All that a round of compaction of one log needs; made by `planning.plan_compaction`."""

    disk: Disk
    directory: str
    sources: tuple[Source, ...]
    cuts: int
    dirty_start: int
    dirty_end: int
    segment_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    aborted: tuple[AbortedTransaction, ...]
    producer_ids: frozenset[int]
    remembered: frozenset[int]
    last_ends: frozenset[int]
    now_ms: int
    engine: Engine
    max_map_bytes: int
    hash_key: bytes

    def run(self, pace: Pace = lambda _size: None) -> CompactionResult:
        """Clean, in any thread. Nothing of the log changes before `swap.apply`."""
        try:
            return _Cleaning(self, pace).run()
        except (FileNotFoundError, SegmentGone) as error:
            raise LogChanged(f"{self.directory} was truncated or removed: {error}") from error


class _Cleaning:
    """A run of a plan."""

    def __init__(self, plan: CompactionPlan, pace: Pace) -> None:
        self._plan = plan
        self._pace = pace
        self._transactions = SeenTransactions(plan.aborted)
        self._last_markers: dict[int, int] = {}
        self._writing: CleanedSegment | None = None
        self._outputs: list[FinishedSegment] = []

    def run(self) -> CompactionResult:
        plan = self._plan
        dirty_bytes = sum(source.size for source in plan.sources if source.end_base_offset > plan.dirty_start)
        key_map = make_key_map(
            plan.engine, max_bytes=plan.max_map_bytes, dirty_bytes=dirty_bytes, hash_key=plan.hash_key
        )
        clean_end = self._fill(key_map)
        rules = Rules(
            now_ms=plan.now_ms,
            delete_retention_ms=plan.delete_retention_ms,
            dirty_start=plan.dirty_start,
            clean_end=clean_end,
            producer_ids=plan.producer_ids,
            remembered=plan.remembered,
            last_markers=self._last_markers,
            last_ends=plan.last_ends,
        )
        try:
            self._clean(BatchFilter(key_map, self._transactions, rules), clean_end)
            if self._outputs:
                plan.disk.sync_dir(plan.directory)
        except BaseException:
            self._discard()
            raise
        return CompactionResult(plan, clean_end, tuple(self._outputs), len(key_map), key_map.memory_bytes)

    # The first pass

    def _fill(self, key_map: KeyMap) -> int:
        """Add the dirty part to the map; returns the offset, at the start of a batch, up to which it is complete."""
        plan = self._plan
        for source in plan.sources:
            if source.end_base_offset <= plan.dirty_start:
                continue
            file = plan.disk.open(source.segment.log_path)
            for batch in self._batches(source, file, _first_position(source, file, plan.dirty_start)):
                if batch.header.next_offset > plan.dirty_end:
                    return max(batch.header.base_offset, plan.dirty_start)
                if not self._add(key_map, source, batch):
                    return self._stop_before(batch, key_map)
        return plan.dirty_end

    def _add(self, key_map: KeyMap, source: Source, batch: FoundBatch) -> bool:
        header = batch.header
        if header.is_control:
            self._last_markers[header.producer_id] = header.base_offset
            return True
        if header.record_count == 0 or self._transactions.is_aborted(header):
            return True
        try:
            return key_map.add(header, payload(batch.data, 0, header))
        except BarnabasError as error:
            raise _corrupt(source, batch, error) from error

    def _stop_before(self, batch: FoundBatch, key_map: KeyMap) -> int:
        offset = batch.header.base_offset
        if offset <= self._plan.dirty_start:
            raise InvalidConfig(
                f"{len(key_map)} keys fit into log.cleaner.dedupe.buffer.size={self._plan.max_map_bytes}, fewer than "
                f"the batch at offset {offset} of {self._plan.directory} has: compaction cannot begin"
            )
        return offset

    # The second pass

    def _clean(self, batch_filter: BatchFilter, clean_end: int) -> None:
        end_base_offset = clean_end
        for source in self._plan.sources:
            if source.base_offset >= clean_end:
                break
            file = self._plan.disk.open(source.segment.log_path)
            if self._writing is None or not self._has_room(self._writing, source):
                self._finish(source.base_offset, batch_filter)
                self._writing = self._begin(source, file)
            elif source.size:
                self._writing.part_from_source()
            self._clean_segment(source, file, batch_filter, self._writing)
            end_base_offset = source.end_base_offset
        self._finish(end_base_offset, batch_filter)

    def _clean_segment(self, source: Source, file: File, batch_filter: BatchFilter, output: CleanedSegment) -> None:
        for batch in self._batches(source, file, 0):
            try:
                kept = batch_filter.clean(batch.header, batch.data)
            except BarnabasError as error:
                raise _corrupt(source, batch, error) from error
            if kept is None or kept.data is not batch.data:
                output.part_from_source()
            if kept is not None:
                output.append(kept)

    def _has_room(self, output: CleanedSegment, source: Source) -> bool:
        """Whether a whole segment can be added, should all of it stay. Rebuilt batches may grow a little."""
        fits = output.size + source.size <= self._plan.segment_bytes
        return fits and source.end_base_offset - 1 - output.base_offset <= MAX_RELATIVE_OFFSET

    def _begin(self, source: Source, file: File) -> CleanedSegment:
        return CleanedSegment(
            self._plan.disk,
            self._plan.directory,
            source.base_offset,
            file,
            index_interval_bytes=self._plan.index_interval_bytes,
        )

    def _finish(self, end_base_offset: int, batch_filter: BatchFilter) -> None:
        aborted, batch_filter.aborted = batch_filter.aborted, []
        if self._writing is not None and self._writing.is_written:
            self._outputs.append(self._writing.finish(end_base_offset, aborted))
        self._writing = None

    def _discard(self) -> None:
        if self._writing is not None:
            self._writing.discard()
        remove_files(self._plan.disk, self._plan.directory, self._outputs)

    def _batches(self, source: Source, file: File, position: int) -> Iterator[FoundBatch]:
        try:
            for batch in scan_batches(file, position, source.size, min_offset=source.base_offset):
                yield batch
                self._pace(batch.header.size)
        except BadBatch as bad:
            if source.segment.is_active or source.segment.size != source.size:
                raise LogChanged(f"{source.segment.log_path} was cut") from bad
            raise bad.as_corrupt_log() from bad


def _first_position(source: Source, file: File, offset: int) -> int:
    """Where the first batch that reaches `offset` begins."""
    if source.base_offset >= offset:
        return 0
    headers = walk_headers(file, 0, source.size)
    return next((position for position, header in headers if header.last_offset >= offset), source.size)


def _corrupt(source: Source, batch: FoundBatch, error: BarnabasError) -> CorruptLog:
    return CorruptLog(
        f"{source.segment.log_path} at position {batch.position} cannot be compacted: {error}. To skip the batch, "
        f"stop the node and run: {repair_command(source.segment.log_path)}"
    )
