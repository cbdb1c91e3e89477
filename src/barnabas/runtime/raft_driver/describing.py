"""The quorum as a value for those who ask: times of Raft, which never go back, as those of the wall clock."""

from typing import Final

from barnabas.core.metadata.quorum import Quorum, QuorumReplica
from barnabas.core.raft.leading import ReplicaDescription
from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.state import Leader

_NO_LEADER: Final = -1
_UNKNOWN_MS: Final = -1


def describe(node: RaftNode, *, high_watermark: int, now_ms: int, wall_ms: int) -> Quorum:
    """Who leads, as far as this node knows, and how far the replicas are if it leads itself.

    `now_ms` is the time of Raft, `wall_ms` that of the clock. Of a leader the high watermark is that of its epoch.
    """
    described = [(each, _replica(each, node, wall_ms=wall_ms, offset_ms=wall_ms - now_ms)) for each in node.describe()]
    if isinstance(node.role, Leader):
        high_watermark = node.role.high_watermark
    leader_id, epoch = node.leadership
    return Quorum(
        _NO_LEADER if leader_id is None else leader_id,
        epoch,
        high_watermark,
        tuple(replica for each, replica in described if each.is_voter),
        tuple(replica for each, replica in described if not each.is_voter),
    )


def _replica(each: ReplicaDescription, node: RaftNode, *, wall_ms: int, offset_ms: int) -> QuorumReplica:
    if each.key == node.key:
        return QuorumReplica(each.key.node_id, each.key.directory_id, each.end_offset, wall_ms, wall_ms)
    return QuorumReplica(
        each.key.node_id,
        each.key.directory_id,
        each.end_offset,
        _UNKNOWN_MS if each.last_fetch_ms is None else each.last_fetch_ms + offset_ms,
        _UNKNOWN_MS if each.last_caught_up_ms is None else each.last_caught_up_ms + offset_ms,
    )
