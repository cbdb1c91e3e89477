"""What a query's options come to on a cluster: the partitions they select, the offsets they start and end at."""

import re
from collections.abc import Iterable

from barnabas.core.errors import UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.spark.source.lookup import Lookup
from barnabas.spark.source.offsets import EARLIEST, LATEST, Offsets
from barnabas.spark.source.options import Bound, ReadOptions, Selection
from barnabas.spark.source.refusals import InvalidOption


def open_lookup(options: ReadOptions) -> Lookup:
    return Lookup(options.address.settings, is_committed=options.is_committed, patience_s=options.patience_s)


def select(lookup: Lookup, selection: Selection) -> list[TopicPartition]:
    """The existing partitions; none of a topic that does not exist."""
    if selection.partitions:
        there = lookup.partitions({key.topic for key in selection.partitions})
        return [key for key in selection.partitions if key.partition in there.get(key.topic, ())]
    if selection.pattern is None:
        there = lookup.partitions(selection.topics)
    else:
        # A pattern need only be found in a name, as in Spark's source. The cluster's own topics are not data.
        is_found = re.compile(selection.pattern).search
        everything = lookup.partitions(None)
        internal = lookup.internal_topics
        there = {name: ids for name, ids in everything.items() if is_found(name) and name not in internal}
    return [TopicPartition(name, id_) for name in sorted(there) for id_ in there[name]]


def check_all_there(selection: Selection, found: Iterable[TopicPartition]) -> None:
    """Refuse a topic or a partition that was named and does not exist."""
    there = set(found)
    for key in selection.partitions:
        if key not in there:
            raise UnknownTopicOrPartition(f"partition {key} does not exist, and option 'assign' names it")
    topics = {key.topic for key in there}
    for topic in selection.topics:
        if topic not in topics:
            raise UnknownTopicOrPartition(f"topic {topic!r} does not exist, and option 'subscribe' names it")


def resolve_start(lookup: Lookup, keys: Iterable[TopicPartition], options: ReadOptions) -> Offsets:
    """The first offset to read of each partition."""
    found = _resolve(lookup, list(keys), options.start)
    late = [key for key, offset in found.items() if offset < 0]
    if late and not options.late_start_is_latest:
        raise InvalidOption(
            f"option {options.start.option!r}: {late[0]} has no record that new; "
            "set the option startingOffsetsByTimestampStrategy to latest to wait for one"
        )
    return found | lookup.offsets(dict.fromkeys(late, LATEST))


def resolve_end(lookup: Lookup, keys: Iterable[TopicPartition], options: ReadOptions) -> Offsets:
    """The offset after the last one to read of each partition."""
    found = _resolve(lookup, list(keys), options.end)
    late = [key for key, offset in found.items() if offset < 0]  # nothing is that new: read all there is
    return found | lookup.offsets(dict.fromkeys(late, LATEST))


def _resolve(lookup: Lookup, keys: list[TopicPartition], bound: Bound) -> Offsets:
    """What a bound says of each partition; -1 where there is nothing as new as the time it names."""
    if bound.everywhere is not None:
        return lookup.offsets(dict.fromkeys(keys, bound.everywhere))
    if bound.timestamp_ms is not None:
        return lookup.offsets(dict.fromkeys(keys, bound.timestamp_ms))
    if bound.timestamps_ms:
        return lookup.offsets({key: bound.timestamps_ms[key] for key in keys})
    said = {key: bound.offsets[key] for key in keys}
    named = {key: offset for key, offset in said.items() if offset in (EARLIEST, LATEST)}
    return said | lookup.offsets(named)


def check_named(keys: Iterable[TopicPartition], bound: Bound) -> None:
    """Refuse a bound that names partitions, and not all that are read, or others."""
    said = bound.offsets or bound.timestamps_ms
    if not said:
        return
    read = set(keys)
    for key in sorted(said):
        if key not in read:
            raise InvalidOption(f"option {bound.option!r} names {key}, which does not exist or is not read")
    for key in sorted(read):
        if key not in said:
            raise InvalidOption(f"option {bound.option!r} does not name {key}: name every partition that is read")
