"""The requests of the quorum as Kafka's messages, both ways: a node writes them to its peers, and reads theirs.

Each message is about one partition, that of the metadata log. What a receiver refuses because of the message itself,
before Raft sees it, is raised: another cluster, other partitions.

Must not know: who sends and who answers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from barnabas.core.errors import InconsistentClusterId, InvalidRequest, UnknownTopicOrPartition
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.raft.log_view import SnapshotId
from barnabas.core.raft.messages import (
    NOT_SAID,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from barnabas.core.raft.voters import ReplicaKey, VoterEndpoint
from barnabas.wire.apis import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT, VOTE, Api
from barnabas.wire.requests import to_ms
from barnabas.wire.writing import Values

METADATA_TOPIC_ID: Final = UUID(int=1)
"""The id that the topic of the metadata log has in every cluster."""
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""What a node asks for at once, of the log and of a snapshot."""
TOPIC, PARTITION = METADATA_PARTITION
_NOBODY: Final = -1
_NOT_TOLD: Final = 2**63 - 1  # the high watermark of one whose version has no field for it


class QuorumRequest(NamedTuple):
    """A request as its API and its values; `min_version` is the oldest that can say all of it."""

    api: Api
    values: Values
    min_version: int = 0


def write(request: Request, *, endpoints: Sequence[VoterEndpoint] = ()) -> QuorumRequest:
    """What to send. `endpoints`: where this node listens, which it tells as the leader."""
    if isinstance(request, VoteRequest):
        # An older version cannot tell a pre-vote from a vote, and would bind the voter.
        return QuorumRequest(VOTE, _vote(request), min_version=2 if request.is_pre_vote else 0)
    if isinstance(request, BeginQuorumEpochRequest):
        return QuorumRequest(BEGIN_QUORUM_EPOCH, _begin_epoch(request, endpoints))
    if isinstance(request, EndQuorumEpochRequest):
        return QuorumRequest(END_QUORUM_EPOCH, _end_epoch(request, endpoints))
    if isinstance(request, FetchRequest):
        # Older ones have neither the epoch of the follower's last record nor the answer that logs differ.
        return QuorumRequest(FETCH, _fetch(request), min_version=12)
    return QuorumRequest(FETCH_SNAPSHOT, _fetch_snapshot(request))


def _about(partition: Values) -> list[Values]:
    return [{"topic_name": TOPIC, "partitions": [{"partition_index": PARTITION, **partition}]}]


def listeners(endpoints: Sequence[VoterEndpoint]) -> list[Values]:
    """Where a node listens, as most messages have it."""
    return [{"name": each.listener, "host": each.host, "port": each.port} for each in endpoints]


def _vote(request: VoteRequest) -> Values:
    partition = {
        "replica_epoch": request.epoch,
        "replica_id": request.candidate.node_id,
        "replica_directory_id": request.candidate.directory_id,
        "voter_directory_id": request.voter.directory_id,
        "last_offset_epoch": request.last_epoch,
        "last_offset": request.end_offset,
        "pre_vote": request.is_pre_vote,
    }
    return {"cluster_id": request.cluster_id, "voter_id": request.voter.node_id, "topics": _about(partition)}


def _begin_epoch(request: BeginQuorumEpochRequest, endpoints: Sequence[VoterEndpoint]) -> Values:
    partition = {
        "voter_directory_id": request.voter.directory_id,
        "leader_id": request.leader_id,
        "leader_epoch": request.epoch,
    }
    return {
        "cluster_id": request.cluster_id,
        "voter_id": request.voter.node_id,
        "topics": _about(partition),
        "leader_endpoints": listeners(endpoints),
    }


def _end_epoch(request: EndQuorumEpochRequest, endpoints: Sequence[VoterEndpoint]) -> Values:
    partition = {
        "leader_id": request.leader_id,
        "leader_epoch": request.epoch,
        "preferred_successors": [key.node_id for key in request.successors],
        "preferred_candidates": [
            {"candidate_id": key.node_id, "candidate_directory_id": key.directory_id} for key in request.successors
        ],
    }
    return {
        "cluster_id": request.cluster_id,
        "topics": _about(partition),
        "leader_endpoints": listeners(endpoints),
    }


def _fetch(request: FetchRequest) -> Values:
    partition = {
        "partition": PARTITION,
        "current_leader_epoch": request.epoch,
        "fetch_offset": request.fetch_offset,
        "last_fetched_epoch": request.last_epoch,
        "log_start_offset": _NOBODY,
        "partition_max_bytes": MAX_ANSWER_BYTES,
        "replica_directory_id": request.replica.directory_id,
        "high_watermark": request.high_watermark,
    }
    replica_id = request.replica.node_id
    return {
        "cluster_id": request.cluster_id,
        "replica_id": replica_id,
        "replica_state": {"replica_id": replica_id, "replica_epoch": _NOBODY},
        "max_wait": request.max_wait_ms,
        "min_bytes": 0,
        "max_bytes": MAX_ANSWER_BYTES,
        "seen_leader_ms": request.seen_leader_ms,
        "topics": [{"topic": TOPIC, "topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
    }


def _fetch_snapshot(request: FetchSnapshotRequest) -> Values:
    partition = {
        "partition": PARTITION,
        "current_leader_epoch": request.epoch,
        "snapshot_id": {"end_offset": request.snapshot.end_offset, "epoch": request.snapshot.epoch},
        "position": request.position,
        "replica_directory_id": request.replica.directory_id,
    }
    return {
        "cluster_id": request.cluster_id,
        "replica_id": request.replica.node_id,
        "max_bytes": MAX_ANSWER_BYTES,
        "topics": [{"name": TOPIC, "partitions": [partition]}],
    }


# Reading


class AskedNode(NamedTuple):
    """The node that a request has reached."""

    cluster_id: str
    key: ReplicaKey


def read_vote(message: Any, receiver: AskedNode) -> VoteRequest:
    """A Vote request."""
    check_cluster(message.cluster_id, receiver.cluster_id)
    partition = _only_partition(message)
    return VoteRequest(
        cluster_id=receiver.cluster_id,
        epoch=partition.replica_epoch,
        candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
        voter=_addressee(message.voter_id, partition.voter_directory_id, receiver),
        last_epoch=partition.last_offset_epoch,
        end_offset=partition.last_offset,
        is_pre_vote=partition.pre_vote,
    )


def read_begin_epoch(message: Any, receiver: AskedNode) -> BeginQuorumEpochRequest:
    """A BeginQuorumEpoch request."""
    check_cluster(message.cluster_id, receiver.cluster_id)
    partition = _only_partition(message)
    return BeginQuorumEpochRequest(
        cluster_id=receiver.cluster_id,
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        voter=_addressee(message.voter_id, partition.voter_directory_id, receiver),
    )


def read_end_epoch(message: Any, receiver: AskedNode) -> EndQuorumEpochRequest:
    """An EndQuorumEpoch request."""
    check_cluster(message.cluster_id, receiver.cluster_id)
    partition = _only_partition(message)
    successors = [
        ReplicaKey(each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates or ()
    ]
    return EndQuorumEpochRequest(
        cluster_id=receiver.cluster_id,
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        successors=tuple(successors or map(ReplicaKey, partition.preferred_successors or ())),
    )


def read_fetch(message: Any, receiver: AskedNode) -> FetchRequest:
    """A Fetch request of the metadata log; older versions name the topic, and do not have all fields."""
    check_cluster(getattr(message, "cluster_id", None), receiver.cluster_id)
    partition = _only(
        message.topics,
        lambda topic: topic.topic_id == METADATA_TOPIC_ID if hasattr(topic, "topic_id") else topic.topic == TOPIC,
        lambda each: each.partition,
    )
    state = getattr(message, "replica_state", message)
    return FetchRequest(
        cluster_id=receiver.cluster_id,
        epoch=getattr(partition, "current_leader_epoch", _NOBODY),
        replica=ReplicaKey(state.replica_id, getattr(partition, "replica_directory_id", None)),
        fetch_offset=partition.fetch_offset,
        last_epoch=getattr(partition, "last_fetched_epoch", _NOBODY),
        high_watermark=getattr(partition, "high_watermark", _NOT_TOLD),
        max_wait_ms=to_ms(message.max_wait),
        seen_leader_ms=getattr(message, "seen_leader_ms", NOT_SAID),
    )


def read_fetch_snapshot(message: Any, receiver: AskedNode) -> FetchSnapshotRequest:
    """A FetchSnapshot request; `UnknownTopicOrPartition` is for the answer about the partition that it names."""
    check_cluster(message.cluster_id, receiver.cluster_id)
    partition = _only(message.topics, lambda _topic: True, lambda _partition: PARTITION)
    if (message.topics[0].name, partition.partition) != METADATA_PARTITION:
        raise UnknownTopicOrPartition(f"only {METADATA_PARTITION} has snapshots")
    return FetchSnapshotRequest(
        cluster_id=receiver.cluster_id,
        epoch=partition.current_leader_epoch,
        replica=ReplicaKey(message.replica_id, partition.replica_directory_id),
        snapshot=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
    )


def read_listeners(found: Sequence[Any]) -> tuple[VoterEndpoint, ...]:
    """Where a node says that it listens."""
    return tuple(VoterEndpoint(each.name, each.host, each.port) for each in found)


def check_cluster(theirs: str | None, ours: str) -> None:
    """Refuse a request of another cluster, and one that names none: every node of a quorum says which is its own."""
    if theirs != ours:
        what = "a request that names no cluster" if theirs is None else f"one of the cluster {theirs!r}"
        raise InconsistentClusterId(f"this is the cluster {ours!r}: {what} is refused")


def _addressee(voter_id: int, directory_id: UUID | None, receiver: AskedNode) -> ReplicaKey:
    """For whom a request is; for its receiver, where its version does not say."""
    return receiver.key if voter_id < 0 else ReplicaKey(voter_id, directory_id)


def _only_partition(message: Any) -> Any:
    return _only(message.topics, lambda topic: topic.topic_name == TOPIC, lambda each: each.partition_index)


def _only(topics: Sequence[Any], is_ours: Callable[[Any], bool], index_of: Callable[[Any], int]) -> Any:
    """The one partition that a request is about; refused if it is about any other."""
    if len(topics) == 1 and len(topics[0].partitions) == 1 and is_ours(topics[0]):
        (partition,) = topics[0].partitions
        if index_of(partition) == PARTITION:
            return partition
    raise InvalidRequest(f"the quorum has one partition, {METADATA_PARTITION}, which must be asked for alone")
