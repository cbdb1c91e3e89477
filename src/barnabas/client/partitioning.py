"""Which partition a record goes to: the key's hash as every Kafka client computes it, or round robin.

The hash is in `core.records.murmur2`. The SDK leaves keyed records to librdkafka's `murmur2_random`, which must agree
with it; this is for callers that need the partition of a key without sending.
"""

import itertools
import threading
from collections.abc import Callable

from barnabas.core.records.murmur2 import murmur2, partition_for_key

__all__ = ["RoundRobin", "murmur2", "partition_for_key"]


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
