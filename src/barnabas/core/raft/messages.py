"""The messages between voters and observers: Kafka's quorum requests and their answers, without records.

Every answer has the epoch of its sender and the leader it knows: a node that lags learns from it. A refusal is an
error class of `core.errors`. Addresses are the driver's: here a node is its id.
"""

from typing import Final, TypeAlias

import msgspec

from barnabas.core.errors import BarnabasError
from barnabas.core.model import NO_OFFSET
from barnabas.core.raft.log_view import BatchInfo, EpochEnd, SnapshotId
from barnabas.core.raft.voters import ReplicaKey

Refusal: TypeAlias = type[BarnabasError]


class VoteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Vote for me; as a pre-vote: would you? A pre-vote changes nothing, neither here nor there."""

    cluster_id: str
    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey
    last_epoch: int
    end_offset: int
    is_pre_vote: bool


class BeginQuorumEpochRequest(msgspec.Struct, frozen=True, kw_only=True):
    """I lead this epoch: fetch from me."""

    cluster_id: str
    epoch: int
    leader_id: int
    voter: ReplicaKey


class EndQuorumEpochRequest(msgspec.Struct, frozen=True, kw_only=True):
    """I lead no more. The successors are those who should, the one with the longest log first."""

    cluster_id: str
    epoch: int
    leader_id: int
    successors: tuple[ReplicaKey, ...]


NOT_SAID: Final = -1
"""A node of an earlier version, or of another implementation, does not say it."""


class FetchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What comes after my log? Everything below `fetch_offset` is on my disk, and `last_epoch` wrote the end of it."""

    cluster_id: str
    epoch: int
    replica: ReplicaKey
    fetch_offset: int
    last_epoch: int
    high_watermark: int = NO_OFFSET
    max_wait_ms: int = 0
    seen_leader_ms: int = NOT_SAID
    """The latest `leader_ms` that the leader of this epoch has answered; 0: it has answered nothing yet."""


class FetchSnapshotRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a snapshot from `position` on."""

    cluster_id: str
    epoch: int
    replica: ReplicaKey
    snapshot: SnapshotId
    position: int


class VoteResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the vote is granted."""

    epoch: int
    leader_id: int | None = None
    refusal: Refusal | None = None
    is_granted: bool = False
    silence_ms: int = NOT_SAID
    """How long ago the voter last heard from a leader, or led itself; not said if it has not since its start."""


class BeginQuorumEpochResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The leader is known."""

    epoch: int
    leader_id: int | None = None
    refusal: Refusal | None = None


class EndQuorumEpochResponse(msgspec.Struct, frozen=True, kw_only=True):
    """That the leader leaves is known."""

    epoch: int
    leader_id: int | None = None
    refusal: Refusal | None = None


class FetchResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Batches; or where the follower's log differs; or which snapshot it needs instead of the log."""

    epoch: int
    leader_id: int | None = None
    refusal: Refusal | None = None
    high_watermark: int = NO_OFFSET
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    batches: tuple[BatchInfo, ...] = ()
    """The driver that sends the answer reads them from its log, see `output.Reply`."""
    leader_ms: int = NOT_SAID
    """The leader's time when it got the request. By the next fetch it knows who followed it then."""


class FetchSnapshotResponse(msgspec.Struct, frozen=True, kw_only=True):
    """So many bytes of a snapshot that has `size_bytes`. How many fit is for the sending driver to say."""

    epoch: int
    leader_id: int | None = None
    refusal: Refusal | None = None
    snapshot: SnapshotId | None = None
    position: int = 0
    length_bytes: int = 0
    size_bytes: int = 0


Request: TypeAlias = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchRequest | FetchSnapshotRequest
Response: TypeAlias = (
    VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchResponse | FetchSnapshotResponse
)
