"""Which partition a key goes to: its murmur2 hash, as every Kafka client computes it.

A record with the same key lands in the same partition whichever client or edge it comes through.
"""

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
