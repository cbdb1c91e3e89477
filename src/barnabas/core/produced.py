"""A produce request as every edge translates it: values, and batches that stay bytes."""

from typing import NamedTuple, TypeAlias
from uuid import UUID


class PartitionData(NamedTuple):
    """The records of a request for one partition."""

    partition: int
    records: memoryview | None


class TopicData(NamedTuple):
    """The records of a request for one topic, by name or by id."""

    name: str | None
    topic_id: UUID | None
    partitions: list[PartitionData]


class ProduceRequest(NamedTuple):
    """Batches for partitions of topics, and when they count as written: `acks` is 0, 1 or -1 (all)."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicData]


Single: TypeAlias = tuple[int, int, str | None, UUID | None, int, memoryview]
"""A request with one batch for one partition, outside any transaction, as most are: acks, timeout in milliseconds, the
topic's name or its id, the partition, and the records.

Not a named tuple: to make one and to take it apart takes five times as long, and this is made for nearly every request.
"""
