"""What a stream reads next, decided in the driver.

Partitions that appear later are in the end of a batch and not in its start, and are read from their beginning. Those
that are gone, or shorter than what was read of them, or of a topic with another id, are lost data: refused, or left
behind with a warning; then what there is now is read from its beginning. Such a partition's end is before its start,
which no other's ever is, or its topic's id differs between start and end.
"""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.core.model import TopicPartition
from barnabas.spark.source.data_loss import Loss, MadeAnew, report_loss
from barnabas.spark.source.limits import share_bytes, share_offsets
from barnabas.spark.source.offsets import EARLIEST, Offsets, Position
from barnabas.spark.source.options import ReadOptions
from barnabas.spark.source.planning import OffsetRange, plan, together
from barnabas.spark.source.ranges import available
from barnabas.spark.source.resolving import check_all_there, check_named, open_lookup, resolve_start, select
from barnabas.spark.source.watching import Watch

if TYPE_CHECKING:
    from barnabas.spark.source.group_progress import GroupProgress


class StreamPlanner:
    """Has what only the driver needs: connections, and what was learned of the partitions."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._lookup = open_lookup(options)
        self._watch = Watch(self._lookup, options.selection)
        self._progress = None if options.group is None else _open_progress(options, options.group)
        self._target: Offsets | None = None
        self._last_batch_at = time.monotonic()

    def close(self) -> None:
        if self._progress is not None:
            self._progress.close()
        self._lookup.close()

    def initial(self) -> Position:
        """Where a query without a checkpoint starts."""
        keys = select(self._lookup, self._options.selection)
        check_all_there(self._options.selection, keys)
        for bound in (self._options.start, self._options.end):
            check_named(keys, bound)
        return self._position(resolve_start(self._lookup, keys, self._options))

    def newest(self) -> Offsets:
        return self._watch.newest()

    def note_batch(self) -> None:
        self._watch.note_batch()

    def stop_at_what_is_there(self) -> None:
        """Read up to the current ends, and no further."""
        self._target = dict(self._watch.ends({}))

    def next_end(self, reached: Position, *, is_limited: bool) -> Position:
        """Where the next micro-batch ends: where the last one did, if there is nothing for another."""
        if self._progress is not None:
            self._progress.note(reached.offsets)
        ends = self._watch.ends(reached.offsets)
        anew = self._made_anew(reached)
        if ends == reached.offsets and not anew:
            return reached  # the answer of an idle stream, which is asked all the time
        known = {key: offset for key, offset in reached.offsets.items() if key.topic not in anew}
        behind = {key: offset for key, offset in known.items() if ends.get(key, offset) < offset}
        waiting = self._behind_open_transactions(behind)
        self._report_lost(known, ends | waiting, anew)
        if self._target is not None:
            ends = {key: min(ends.get(key, 0), end) for key, end in self._target.items() if key in ends}
        ends |= waiting
        begins = self._begins(known, ends)
        left = {key: ends[key] - begin for key, begin in begins.items() if ends[key] > begin}
        if is_limited and not anew and self._is_to_wait(left):
            return reached
        shares = self._shares(begins, left) if is_limited else left
        is_part = {*reached.offsets, *shares}
        end = {key: begin + shares.get(key, 0) for key, begin in begins.items() if key in is_part}
        if end == reached.offsets and not anew:
            return reached
        self._last_batch_at = time.monotonic()
        return self._position(end)

    def tasks(self, start: Position, end: Position) -> list[list[OffsetRange]]:
        """The ranges of a micro-batch, split as the options say; those that one task is to read together."""
        there = self._existing(end.offsets)
        anew = self._made_anew(end)
        losses = [
            Loss(key, start.offsets.get(key, 0), end.offsets[key], None, None)
            for key in sorted(end.offsets.keys() - set(there))
        ]
        there = [key for key in there if key.topic not in anew]
        begins = start.offsets | self._lookup.offsets(dict.fromkeys(_new_between(start, end, there), EARLIEST))
        ranges, more = available(self._lookup, [OffsetRange(key, begins[key], end.offsets[key]) for key in there])
        report_loss([*losses, *map(MadeAnew, anew), *more], fail=self._options.fail_on_data_loss)
        least, most = self._options.min_partitions, self._options.max_records_per_partition
        planned = plan(ranges, min_partitions=least, max_records=most)
        return together(planned) if least is None and most is None else [[each] for each in planned]

    def _position(self, offsets: Offsets) -> Position:
        ids = self._lookup.topic_ids
        return Position(
            offsets, {topic: ids[topic] for topic in sorted({key.topic for key in offsets}) if topic in ids}
        )

    def _made_anew(self, position: Position) -> list[str]:
        """The topics that are others now than those whose offsets these are."""
        now = self._lookup.topic_ids
        return [topic for topic, before in sorted(position.topic_ids.items()) if now.get(topic, before) != before]

    def _behind_open_transactions(self, offsets: Offsets) -> Offsets:
        """Those that exist but cannot be read by this query yet, as when it has read uncommitted records."""
        if not offsets:
            return {}
        watermarks = self._lookup.high_watermarks(offsets)
        return {key: offset for key, offset in offsets.items() if offset <= watermarks[key]}

    def _existing(self, offsets: Offsets) -> list[TopicPartition]:
        there = self._lookup.partitions({key.topic for key in offsets}) if offsets else {}
        return [key for key in sorted(offsets) if key.partition in there.get(key.topic, ())]

    def _report_lost(self, reached: Offsets, ends: Offsets, anew: list[str]) -> None:
        losses: list[Loss | MadeAnew] = [MadeAnew(topic) for topic in anew]
        for key in sorted(reached):
            if key not in ends:
                losses.append(Loss(key, reached[key], None, None, None))
            elif ends[key] < reached[key]:
                losses.append(Loss(key, ends[key], reached[key], self._lookup.offsets({key: EARLIEST})[key], ends[key]))
        report_loss(losses, fail=self._options.fail_on_data_loss)

    def _begins(self, reached: Offsets, ends: Offsets) -> Offsets:
        """From where each partition is read on; from its beginning, if it is new or was made anew."""
        known = {key: reached[key] for key in ends if reached.get(key, ends[key] + 1) <= ends[key]}
        empty = {key: 0 for key in ends if ends[key] == 0 and key not in known}
        new = [key for key in ends if key not in known and key not in empty]
        return known | empty | (self._lookup.offsets(dict.fromkeys(new, EARLIEST)) if new else {})

    def _is_to_wait(self, left: Offsets) -> bool:
        limits = self._options.limits
        if limits.min_offsets is None or self._target is not None or sum(left.values()) >= limits.min_offsets:
            return False
        return time.monotonic() < self._last_batch_at + limits.max_trigger_delay_ms / 1000

    def _shares(self, begins: Offsets, left: Offsets) -> Offsets:
        """How many offsets each partition gives to the next micro-batch.

        What was cut off at the beginning of a partition is not counted: it would fill batches with nothing.
        """
        if not left:
            return {}
        limits = self._options.limits
        earliest = self._lookup.offsets(dict.fromkeys(left, EARLIEST))
        gone = {key: min(max(earliest[key] - begins[key], 0), count) for key, count in left.items()}
        shares = {key: count - gone[key] for key, count in left.items()}
        if limits.max_bytes is not None:
            starts = {key: begins[key] + gone[key] for key, count in shares.items() if count > 0}
            shares = share_bytes(shares, self._lookup.bytes_per_offset(starts), limits.max_bytes)
        if limits.max_offsets is not None:
            shares = share_offsets(shares, limits.max_offsets)
        return {key: shares.get(key, 0) + gone[key] for key in left if shares.get(key, 0) + gone[key] > 0}


def _new_between(start: Position, end: Position, keys: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The partitions that are new, or were made anew, between two positions."""
    changed = {topic for topic, id_ in end.topic_ids.items() if start.topic_ids.get(topic, id_) != id_}
    return [
        key for key in keys if key.topic in changed or start.offsets.get(key, end.offsets[key] + 1) > end.offsets[key]
    ]


def _open_progress(options: ReadOptions, group: str) -> "GroupProgress":
    from barnabas.spark.source.group_progress import GroupProgress

    return GroupProgress(options.address.settings, group)
