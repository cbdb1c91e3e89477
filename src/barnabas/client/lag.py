"""How many records readers have yet to read, and how long the first of them waits: what `core.records.unread` asks for.

Reads the first batches after an offset over connections of our own, since librdkafka tells nothing of markers.
"""

import time
from collections.abc import Mapping
from typing import Final

from barnabas.client.fetcher import Fetcher
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.records.unread import LOOK_BYTES, Seen, Unread, first_unread, look_after, unread

_PATIENCE_S: Final = 2.0  # of what cannot be read nobody knows the age; what else there is to say does not wait for it


def measure(
    settings: Settings,
    offsets: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Unread]:
    """What is unread from each of these offsets on; `starts` and `ends` are those of the logs for committed reads."""
    firsts = {key: first_unread(offset, starts[key]) for key, offset in offsets.items()}
    seen: dict[TopicPartition, Seen] = {}
    for topic in sorted({key.topic for key in firsts}):
        ranges = {key.partition: (first, ends[key]) for key, first in firsts.items() if key.topic == topic}
        seen |= _look(settings, topic, {id_: range_ for id_, range_ in ranges.items() if range_[0] < range_[1]})
    now_ms = int(time.time() * 1000)
    return {key: unread(first, ends[key], seen.get(key), now_ms=now_ms) for key, first in firsts.items()}


def _look(settings: Settings, topic: str, ranges: Mapping[int, tuple[int, int]]) -> dict[TopicPartition, Seen]:
    """The beginning of each range; of what cannot be read nothing is known."""
    found: dict[TopicPartition, Seen] = {}
    fetcher = Fetcher(settings, topic, partition_max_bytes=LOOK_BYTES, patience_s=_PATIENCE_S)
    try:
        left = dict(ranges)
        while left and (fetched := fetcher.peek(left)):  # a large batch comes only as the first of an answer
            for each in fetched:
                first, end = left.pop(each.partition)
                found[TopicPartition(topic, each.partition)] = look_after(each.records, first, end, each.aborted)
    except BarnabasError:
        pass  # damaged, moving, not allowed: then offsets have to do
    finally:
        fetcher.close()
    return found
