"""Where a reader of a mirrored topic goes on in the mirror: offsets differ, the header mirror.offset tells.

Source offsets grow with the mirror's own in every partition, so each is found by halving, a few reads each.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from barnabas.core.errors import InvalidRequest
from barnabas.spark.pipelines.jobs import MIRROR_OFFSET_HEADER

if TYPE_CHECKING:
    from barnabas.client.bus import Bus
    from barnabas.client.message import Message

_READ_S: Final = 10.0


def translate(mirror: "Bus", topic: str, offsets: Mapping[int, int]) -> dict[int, int]:
    """By partition, the offset in the mirror of the first record at or after an offset of the source.

    The end of the partition if the mirror has none yet: whoever starts there misses nothing that comes later.
    """
    bounds = {each.partition: (each.start_offset, each.end_offset) for each in mirror.describe_topic(topic).partitions}
    missing = [partition for partition in offsets if partition not in bounds]
    if missing:
        raise InvalidRequest(f"topic {topic!r} has no partition {missing[0]}")
    return {
        partition: _find(mirror, topic, partition, offset, bounds[partition]) for partition, offset in offsets.items()
    }


def _find(mirror: "Bus", topic: str, partition: int, wanted: int, bounds: tuple[int, int]) -> int:
    """Halving: from `high` on, the next record is late enough or there is none; before `low` it is not."""
    low, high = bounds
    found = bounds[1]
    while low < high:
        middle = (low + high) // 2
        record = _first_at(mirror, topic, partition, middle)
        if record is not None and _source_offset(record) < wanted:
            low = record.offset + 1
        else:
            high = middle
            found = bounds[1] if record is None else record.offset
    return found


def _first_at(mirror: "Bus", topic: str, partition: int, offset: int) -> "Message | None":
    found = mirror.consume(
        topic, partitions=[partition], offset={partition: offset}, until_end=True, max_records=1, timeout=_READ_S
    )
    return next(found, None)


def _source_offset(record: "Message") -> int:
    value = dict(record.headers).get(MIRROR_OFFSET_HEADER)
    if value is None or not value.isdigit():
        raise InvalidRequest(
            f"record {record.partition}:{record.offset} of {record.topic} has no header {MIRROR_OFFSET_HEADER}"
        )
    return int(value)
