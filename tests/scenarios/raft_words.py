"""How scenarios of Raft put things into words."""

from collections.abc import Iterable

from barnabas.core.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.output import (
    AppendControl,
    AppendFetched,
    KRaftVersion,
    LeaderChange,
    Operation,
    QuorumState,
    ResetToSnapshot,
    Truncate,
    WriteSnapshotPart,
)


def key_words(node_ids: Iterable[int]) -> str:
    """Node ids in a row."""
    return " ".join(str(node_id) for node_id in node_ids) or "none"


def quorum_words(quorum: QuorumState) -> str:
    """What a node must not forget."""
    words = [f"epoch {quorum.epoch}"]
    if quorum.voted is not None:
        words.append(f"voted for {quorum.voted.node_id}")
    if quorum.leader_id is not None:
        words.append(f"leader {quorum.leader_id}")
    return ", ".join(words)


def state_words(raft: RaftNode) -> str:
    """Where a node is."""
    log = raft.log
    kind = "" if raft.is_voter else " (observer)"
    epochs = " ".join(f"{one.epoch}@{one.start_offset}" for one in log.epochs) or "none"
    durable = "" if log.durable_end == log.end_offset else f" ({log.durable_end} on disk)"
    watermark = "unknown" if raft.high_watermark < 0 else str(raft.high_watermark)
    role = type(raft.role).__name__.lower()
    return (
        f"{role}{kind}, {quorum_words(raft.quorum)}; log {log.start_offset}..{log.end_offset}{durable},"
        f" epochs {epochs}; committed {watermark}; voters {key_words(raft.voters.current.node_ids)}"
    )


def operation_words(operation: Operation) -> str:
    """What a driver does to its disk."""
    if isinstance(operation, AppendControl):
        records = []
        for record in operation.records:
            if isinstance(record, LeaderChange):
                records.append(f"leader change to {record.leader_id}")
            elif isinstance(record, KRaftVersion):
                records.append(f"kraft.version {record.version}")
            else:
                records.append(f"voters {key_words(record.voters.node_ids)}")
        return f"appends at {operation.base_offset}, epoch {operation.epoch}: {', '.join(records)}"
    if isinstance(operation, AppendFetched):
        return f"appends what it fetched, {operation.base_offset}..{operation.end_offset}"
    if isinstance(operation, Truncate):
        return f"truncates its log to {operation.end_offset}"
    name = f"{operation.snapshot.end_offset}-{operation.snapshot.epoch}"
    if isinstance(operation, WriteSnapshotPart):
        end = operation.position + operation.length_bytes
        return f"writes bytes {operation.position}..{end} of snapshot {name}"
    if isinstance(operation, ResetToSnapshot):
        return f"begins its log anew after snapshot {name}"
    return f"syncs and checks snapshot {name}"


def request_words(request: Request) -> str:
    """A request."""
    if isinstance(request, VoteRequest):
        kind = "pre-vote" if request.is_pre_vote else "vote"
        return f"{kind} in epoch {request.epoch}? log ends at {request.end_offset}, epoch {request.last_epoch}"
    if isinstance(request, BeginQuorumEpochRequest):
        return f"epoch {request.epoch} begins, {request.leader_id} leads"
    if isinstance(request, EndQuorumEpochRequest):
        successors = key_words(key.node_id for key in request.successors)
        return f"epoch {request.epoch} ends, {request.leader_id} leaves; successors {successors}"
    if isinstance(request, FetchRequest):
        return f"fetch from {request.fetch_offset}, last epoch {request.last_epoch}, in epoch {request.epoch}"
    name = f"{request.snapshot.end_offset}-{request.snapshot.epoch}"
    return f"snapshot {name} from byte {request.position}, in epoch {request.epoch}"


def response_words(response: Response) -> str:
    """An answer."""
    words = [_matter_words(response)] if response.refusal is None else [f"refused, {response.refusal.__name__}"]
    words.append(f"epoch {response.epoch}")
    words.append("no leader" if response.leader_id is None else f"leader {response.leader_id}")
    return ", ".join(words)


def _matter_words(response: Response) -> str:
    if isinstance(response, VoteResponse):
        return "granted" if response.is_granted else "denied"
    if isinstance(response, FetchSnapshotResponse):
        return f"bytes {response.position}..{response.position + response.length_bytes} of {response.size_bytes}"
    return _fetch_words(response) if isinstance(response, FetchResponse) else "noted"


def _fetch_words(response: FetchResponse) -> str:
    if response.diverging is not None:
        return f"diverging, epoch {response.diverging.epoch} ends at {response.diverging.end_offset}"
    if response.snapshot is not None:
        return f"take snapshot {response.snapshot.end_offset}-{response.snapshot.epoch}"
    watermark = "unknown" if response.high_watermark < 0 else str(response.high_watermark)
    batches = response.batches
    records = f"records {batches[0].base_offset}..{batches[-1].end_offset}" if batches else "nothing new"
    return f"{records}, committed {watermark}"
