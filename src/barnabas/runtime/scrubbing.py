"""Reading through the logs, slowly and continuously, so that damage is found before a consumer reaches it.

Data on disk may decay, and recovery reads only what was not known to be durable. Here every byte is read again, a piece
at a time on a thread, and its checksums are verified. Damage is one line in the log for each place, and counted.
Nothing is changed here: whoever repairs from other replicas is told (`on_damage`), and where there is none
`barnabas topic repair` steps over the damage.

The position is saved in the data directory regularly, so that a node that is restarted often still gets through its
logs.

Invariants: one piece at a time; a finding counts only if the log is still the same as when the piece was read.
"""

import asyncio
import errno
from collections.abc import Callable
from typing import Final

from barnabas.core.errors import CorruptLog
from barnabas.core.model import TopicPartition
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.offload import Offload
from barnabas.storage.checkpoints import OffsetFile
from barnabas.storage.damage import Checked, check_some
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.storage.names import SCRUBBED_TO
from barnabas.storage.segment import Segment

log = get_logger("barnabas.scrub", is_limited=False)

PIECE_WORK: Final = 256 * 1024  # bytes, and some more for each batch: see `damage.BATCH_WORK`
MAX_SEARCH_BYTES: Final = 16 * 1024 * 1024
MAX_PLACES: Final = 10_000  # that are told apart; more are counted once a round
LOGS_PER_BREATH: Final = 50


class Scrubbing:
    """Checks piece after piece; one task owns it."""

    def __init__(
        self, data_dir: DataDir, offload: Offload, on_damage: Callable[[Log, int], bool] = lambda _log, _offset: False
    ) -> None:
        """`on_damage` is told of a damaged log, with an offset there; says whether it is going to be repaired."""
        self._data_dir = data_dir
        self._on_damage = on_damage
        self._disk = data_dir.disk
        self._offload = offload
        self._places: dict[tuple[str, int], None] = {}
        self._file: OffsetFile | None = None
        self._names: list[TopicPartition] | None = None  # of the logs left in this round, the last one first
        self._start: tuple[TopicPartition, int] | None = None  # where an earlier process stood
        self._next_base = 0  # of the segment to be read next
        self._segment: Segment | None = None
        self._position = self._offset = 0
        self.damaged = 0
        """How many damaged places were found."""

    async def check_piece(self) -> int | None:
        """Check the next piece; returns the work that it was, in bytes, or None at the end of a round."""
        if self._file is None:
            await self._load()
        if self._names is None:
            self._begin_round()
        looked_at = 0
        while self._names:
            each = self._data_dir.logs.get(self._names[-1])
            segment = None if each is None else self._find_segment(each)
            if each is None or segment is None:
                self._names.pop()
                self._next_base, self._segment = 0, None
            elif self._position < segment.size:
                return await self._check(each, segment)
            else:
                self._next_base, self._segment = segment.base_offset + 1, None
            looked_at += 1
            if looked_at % LOGS_PER_BREATH == 0:
                await asyncio.sleep(0)
        self._names = None
        return None

    def _begin_round(self) -> None:
        start, self._start = self._start, None
        names = sorted(self._data_dir.logs, reverse=True)
        self._next_base, self._segment = 0, None
        if start is not None:
            names = [name for name in names if name >= start[0]]
            self._next_base = start[1] if names and names[-1] == start[0] else 0
        self._names = names

    def _find_segment(self, each: Log) -> Segment | None:
        """The segment of a log to continue with; None if all were read."""
        segments = each.segments
        if self._segment is None or not any(segment is self._segment for segment in segments):
            self._segment = next((segment for segment in segments if segment.base_offset >= self._next_base), None)
            if self._segment is not None:
                self._position, self._offset = 0, self._segment.base_offset
        return self._segment

    async def _check(self, each: Log, segment: Segment) -> int:
        start, end, min_offset, cuts = self._position, segment.size, self._offset, each.cuts
        end_offset = min(
            (other.base_offset for other in each.segments if other.base_offset > segment.base_offset),
            default=each.end_offset,
        )
        disk = self._disk

        def check() -> Checked:
            file = disk.open(segment.log_path)
            return check_some(
                file,
                start,
                end,
                min_offset=min_offset,
                end_offset=end_offset,
                max_work=PIECE_WORK,
                max_search_bytes=MAX_SEARCH_BYTES,
            )

        problem: str | None = None
        try:
            checked = await self._offload.run(check)
        except OSError as error:
            checked = Checked(end, min_offset, end - start)  # the rest of it is left to the next round
            if error.errno in (errno.EIO, errno.ENOENT):  # all others say nothing of the file
                problem = str(error)
        if self._data_dir.logs.get(each.partition) is not each or each.cuts != cuts or segment.is_gone:
            return checked.work
        if checked.damage is not None:
            damage = checked.damage
            self.note_found(each, segment, damage.position, damage.first_offset, damage.reason)
        elif problem is not None:
            self.note_found(each, segment, start, min_offset, problem)
        self._position, self._offset = checked.position, checked.next_offset
        return checked.work

    def note_mended(self, segment: Segment) -> None:
        """Everything in a segment was repaired: what is found there from now on is new."""
        self._places = {place: None for place in self._places if place[0] != segment.log_path}

    def note_found(self, each: Log, segment: Segment, position: int, offset: int, reason: str) -> None:
        """Damage was found, here or by a reader."""
        place, is_repaired = (segment.log_path, position), self._on_damage(each, offset)
        if place in self._places:
            return
        if len(self._places) < MAX_PLACES:
            self._places[place] = None
        self.damaged += 1
        what = (
            f"{each.partition} is damaged from offset {offset} on: {segment.log_path} at position {position}: {reason}"
        )
        if is_repaired:
            log.error("%s. It is going to be repaired from another replica", what)
            return
        log.error(
            "%s. The records after it can still be read. To skip the damage, stop the node and run: barnabas topic "
            "repair %s --data-dir %s",
            what,
            each.partition.topic,
            self._data_dir.path,
        )

    # Where it stands

    async def _load(self) -> None:
        path = f"{self._data_dir.path}/{SCRUBBED_TO}"
        disk = self._disk

        def load() -> OffsetFile:
            with self._data_dir.health.reading():
                try:
                    return OffsetFile(disk, path)
                except CorruptLog:  # then it begins anew
                    disk.remove(path)
                    return OffsetFile(disk, path)

        self._file = await self._offload.run(load)
        self._start = next(iter(self._file.offsets.items()), None)

    async def save(self) -> None:
        """Save the position."""
        if self._file is None:
            return
        for name in list(self._file.offsets):
            self._file.forget(name)
        if self._names:
            base = self._next_base if self._segment is None else self._segment.base_offset
            self._file.set(self._names[-1], base)
        write = self._file.begin_write()

        def write_guarded() -> None:
            with self._data_dir.health.guarded():
                write()

        await self._offload.run(write_guarded)
