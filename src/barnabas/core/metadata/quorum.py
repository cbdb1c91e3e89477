"""The quorum that the metadata is committed by, as a value: who leads it, and how far each of its replicas is."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID


class QuorumReplica(NamedTuple):
    """How far one replica of the metadata log is, as the leader knows it. Unknown times are -1."""

    replica_id: int
    directory_id: UUID | None
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class Quorum(NamedTuple):
    """The quorum at one moment. Only its leader knows the replicas; on other nodes the list is empty."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: Sequence[QuorumReplica]
    observers: Sequence[QuorumReplica] = ()
