"""The answers of the quorum as Kafka's messages, both ways: a node writes its own, and reads those of its peers.

What Raft refuses is the error of the partition, with the epoch and the leader that the refusing node knows, and where
that leader listens. What is refused before, or for want of anything, is the error of the whole message.

Must not know: who sends and who answers.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from barnabas.core.errors import (
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    InvalidVoterKey,
    NotLeaderOrFollower,
    PeerError,
    PositionOutOfRange,
    SnapshotNotFound,
    UnknownLeaderEpoch,
)
from barnabas.core.raft.log_view import EpochEnd, SnapshotId
from barnabas.core.raft.messages import (
    NOT_SAID,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    Refusal,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from barnabas.runtime.raft_driver.ports import Answer
from barnabas.runtime.raft_driver.wire_requests import METADATA_TOPIC_ID, PARTITION, TOPIC
from barnabas.wire.writing import Values

_NOBODY: Final = -1
_REFUSALS: Final[dict[int, Refusal]] = {
    refusal.kafka_code: refusal
    for refusal in (
        FencedLeaderEpoch,
        InconsistentClusterId,
        InvalidRequest,
        InvalidVoterKey,
        NotLeaderOrFollower,
        PositionOutOfRange,
        SnapshotNotFound,
        UnknownLeaderEpoch,
    )
}


class LeaderAt(NamedTuple):
    """The leader, and where it listens."""

    node_id: int
    host: str
    port: int


class RefusedByPeer(PeerError):
    """A node has answered with an error that says nothing about the quorum."""


# Writing


def write(answer: Answer, leader: LeaderAt | None = None, *, log_start_offset: int = 0) -> Values:
    """The values of an answer. `leader`: where the leader listens that the answer names, if that is known."""
    response = answer.response
    if isinstance(response, FetchResponse):
        partition = _fetch(response, answer, log_start_offset)
        topic = {"topic": TOPIC, "topic_id": METADATA_TOPIC_ID, "partitions": [partition]}
        body: dict[str, Any] = {"responses": [topic], "leader_ms": response.leader_ms}
    elif isinstance(response, FetchSnapshotResponse):
        body = {"topics": [{"name": TOPIC, "partitions": [_fetch_snapshot(response, answer)]}]}
    else:
        body = {"topics": [{"topic_name": TOPIC, "partitions": [_election(response)]}]}
        if isinstance(response, VoteResponse):
            body["silence_ms"] = response.silence_ms
    endpoints = [] if leader is None else [{"node_id": leader.node_id, "host": leader.host, "port": leader.port}]
    return {"error_code": 0, **body, "node_endpoints": endpoints}


def _code(response: Response) -> int:
    return 0 if response.refusal is None else response.refusal.kafka_code


def _leader(response: Response) -> Values:
    return {"leader_id": _NOBODY if response.leader_id is None else response.leader_id, "leader_epoch": response.epoch}


def _election(response: Response) -> Values:
    values = {"partition_index": PARTITION, "error_code": _code(response), **_leader(response)}
    return {**values, "vote_granted": response.is_granted} if isinstance(response, VoteResponse) else values


def _fetch(response: FetchResponse, answer: Answer, log_start_offset: int) -> Values:
    values: dict[str, Any] = {
        "partition_index": PARTITION,
        "error_code": _code(response),
        "high_watermark": response.high_watermark,
        "log_start_offset": log_start_offset,
        "current_leader": _leader(response),
        "aborted_transactions": None,
        "records": answer.data,
    }
    if response.diverging is not None:
        values["diverging_epoch"] = response.diverging._asdict()
    if response.snapshot is not None:
        values["snapshot_id"] = response.snapshot._asdict()
    return values


def _fetch_snapshot(response: FetchSnapshotResponse, answer: Answer) -> Values:
    is_refused = response.refusal is not None
    snapshot = response.snapshot
    assert snapshot is not None
    return {
        "index": PARTITION,
        "error_code": _code(response),
        "snapshot_id": {"end_offset": 0, "epoch": 0} if is_refused else snapshot._asdict(),
        "current_leader": _leader(response),
        "size": 0 if is_refused else response.size_bytes,
        "position": 0 if is_refused else response.position,
        "unaligned_records": answer.data,
    }


# Reading


class ReadAnswer(NamedTuple):
    """An answer, and the leader that it names with an address."""

    answer: Answer
    leader: LeaderAt | None


def read(request: Request, message: Any) -> ReadAnswer:
    """The answer to a request; `RefusedByPeer` when there is none in it that Raft could use."""
    if message.error_code:
        return ReadAnswer(Answer(_refused(request, message.error_code)), None)
    topics = message.responses if isinstance(request, FetchRequest) else message.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise RefusedByPeer("the answer is not about the metadata log alone")
    answer = _read_partition(request, topics[0].partitions[0])
    if isinstance(answer.response, FetchResponse):
        leader_ms = getattr(message, "leader_ms", NOT_SAID)
        answer = answer._replace(response=msgspec.structs.replace(answer.response, leader_ms=leader_ms))
    elif isinstance(answer.response, VoteResponse):
        silence_ms = getattr(message, "silence_ms", NOT_SAID)
        answer = answer._replace(response=msgspec.structs.replace(answer.response, silence_ms=silence_ms))
    return ReadAnswer(answer, _find_leader(answer.response.leader_id, getattr(message, "node_endpoints", ())))


def _refused(request: Request, code: int) -> Response:
    """Of all errors of a whole message, Raft wants to know of one: that the peer belongs to another cluster."""
    if code != InconsistentClusterId.kafka_code:
        raise RefusedByPeer(f"the request is refused with the error {code}")
    return _response_to(request)(epoch=0, refusal=InconsistentClusterId)


def _response_to(request: Request) -> type[Response]:
    if isinstance(request, VoteRequest):
        return VoteResponse
    if isinstance(request, BeginQuorumEpochRequest):
        return BeginQuorumEpochResponse
    if isinstance(request, EndQuorumEpochRequest):
        return EndQuorumEpochResponse
    return FetchResponse if isinstance(request, FetchRequest) else FetchSnapshotResponse


def _read_partition(request: Request, partition: Any) -> Answer:
    code = int(partition.error_code)
    refusal = _REFUSALS.get(code)
    if code and refusal is None:
        raise RefusedByPeer(f"the request is refused with the error {code}")
    leader = getattr(partition, "current_leader", partition)
    common: dict[str, Any] = {
        "epoch": leader.leader_epoch,
        "leader_id": None if leader.leader_id < 0 else leader.leader_id,
        "refusal": refusal,
    }
    if isinstance(request, VoteRequest):
        return Answer(VoteResponse(**common, is_granted=partition.vote_granted))
    if isinstance(request, BeginQuorumEpochRequest):
        return Answer(BeginQuorumEpochResponse(**common))
    if isinstance(request, EndQuorumEpochRequest):
        return Answer(EndQuorumEpochResponse(**common))
    if isinstance(request, FetchRequest):
        return _read_fetch(partition, common)
    return _read_snapshot(partition, common)


def _read_fetch(partition: Any, common: dict[str, Any]) -> Answer:
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    response = FetchResponse(
        **common,
        high_watermark=partition.high_watermark,
        diverging=None if diverging.epoch < 0 else EpochEnd(diverging.epoch, diverging.end_offset),
        snapshot=None if snapshot.end_offset < 0 else SnapshotId(snapshot.end_offset, snapshot.epoch),
    )
    return Answer(response, partition.records or b"")


def _read_snapshot(partition: Any, common: dict[str, Any]) -> Answer:
    response = FetchSnapshotResponse(
        **common,
        snapshot=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        size_bytes=partition.size,
    )
    return Answer(response, partition.unaligned_records or b"")


def _find_leader(leader_id: int | None, endpoints: Sequence[Any]) -> LeaderAt | None:
    for each in endpoints:
        if each.node_id == leader_id:
            return LeaderAt(each.node_id, each.host, each.port)
    return None
