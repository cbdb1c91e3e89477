"""A fetch request as every edge translates it: values only."""

from typing import Final, NamedTuple
from uuid import UUID

from barnabas.core.model import NO_EPOCH

READ_COMMITTED: Final = 1
"""The isolation level read_committed; 0 is read_uncommitted."""

CONSUMER: Final = -1
"""In place of a replica id: the fetch is not from a replica."""


class PartitionKey(NamedTuple):
    """A partition as the client names it: its topic by name or by id."""

    topic: str | UUID
    partition: int


class FetchPartition(NamedTuple):
    """What a request asks of one partition."""

    partition: int
    current_leader_epoch: int = NO_EPOCH
    fetch_offset: int = 0
    last_fetched_epoch: int = NO_EPOCH
    max_bytes: int = 0
    flushed_offset: int = -1  # of a follower: what it has on disk
    log_start_offset: int = -1  # of a follower: where its log starts
    damaged_offset: int = -1  # of a follower: from where on it was sent damaged records


class FetchRequest(NamedTuple):
    """Partitions of topics, how much to return, and how long to wait for it.

    A session (`services.fetch_sessions`) has partitions that the request does not name again.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    replica_id: int
    session_id: int
    session_epoch: int
    topics: list[tuple[str | UUID, list[FetchPartition]]]
    forgotten: list[tuple[str | UUID, list[int]]]
    uses_topic_ids: bool = False
    replica_epoch: int = -1  # the broker epoch under which a replica is registered
    rack: str = ""  # of a consumer: where it is
