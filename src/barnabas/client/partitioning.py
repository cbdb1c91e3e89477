"""Which partition a record goes to: the key's hash as every Kafka client computes it, or round robin.

Owns murmur2 as Java's client has it, so that a record with the same key lands in the same partition whichever client
sends it. The SDK leaves keyed records to librdkafka's `murmur2_random`, which this must agree with; it is for callers
that need the partition of a key without sending.
"""

import itertools
import threading
from collections.abc import Callable
from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_SHIFT: Final = 24
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash of `data`, unsigned, with the seed that Kafka uses."""
    length = len(data)
    result = (_SEED ^ length) & _MASK
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        word ^= word >> _SHIFT
        word = word * _MULTIPLIER & _MASK
        result = (result * _MULTIPLIER & _MASK) ^ word
    if whole < length:
        result ^= int.from_bytes(data[whole:], "little")
        result = result * _MULTIPLIER & _MASK
    result ^= result >> 13
    result = result * _MULTIPLIER & _MASK
    return result ^ (result >> 15)


def partition_for_key(key: bytes, count: int) -> int:
    """The partition, of `count`, that records with this key go to."""
    if count < 1:
        raise ValueError(f"a topic has at least one partition, not {count}")
    return (murmur2(key) & _POSITIVE) % count


class RoundRobin:
    """Partitions in turn, per topic, from any thread."""

    def __init__(self, partition_count: Callable[[str], int]) -> None:
        self._partition_count = partition_count
        self._turns: dict[str, itertools.count[int]] = {}
        self._lock = threading.Lock()

    def next_partition(self, topic: str) -> int:
        with self._lock:
            turn = next(self._turns.setdefault(topic, itertools.count()))
        return turn % self._partition_count(topic)
