"""What Raft asks of its driver after each step.

The driver does it in this order, and takes the next step only then:

1. `persist` is made durable. Nothing below may happen before: an answer that depends on a vote must not outlive it.
2. `operations` are done on the log and the snapshots, in order. Appending need not wait for the disk; the driver says
   `flushed` when it is synced. Truncating and resetting are durable when they return.
3. `replies` and `requests` are sent.
4. Records up to `high_watermark` are committed: they may be applied.
"""

from typing import NamedTuple, TypeAlias

import msgspec

from barnabas.core.errors import BarnabasError
from barnabas.core.raft.log_view import SnapshotId
from barnabas.core.raft.messages import Request, Response
from barnabas.core.raft.voters import ReplicaKey, VoterSet


class QuorumState(NamedTuple):
    """What a node must not forget: the epoch it is in, whom it voted for in it, who leads it."""

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None


class LeaderChange(NamedTuple):
    """The record that begins an epoch."""

    leader_id: int
    voter_ids: tuple[int, ...]
    granting_ids: tuple[int, ...]


class KRaftVersion(NamedTuple):
    """The record that says that voters are in the log."""

    version: int


class Voters(NamedTuple):
    """The record that changes the set of voters."""

    voters: VoterSet


ControlRecord: TypeAlias = LeaderChange | KRaftVersion | Voters


class AppendControl(NamedTuple):
    """Append one batch of these control records, at `base_offset`, under `epoch`."""

    base_offset: int
    epoch: int
    records: tuple[ControlRecord, ...]


class AppendFetched(NamedTuple):
    """Append the batches of the answer that was just received, from `base_offset` up to `end_offset`."""

    base_offset: int
    end_offset: int


class Truncate(NamedTuple):
    """Remove the records from `end_offset` on."""

    end_offset: int


class WriteSnapshotPart(NamedTuple):
    """Write the bytes of the answer that was just received to the part file of a snapshot; the first creates it."""

    snapshot: SnapshotId
    position: int
    length_bytes: int


class FinishSnapshot(NamedTuple):
    """All parts have arrived: sync the part file and check it, then call `RaftNode.snapshot_ready`."""

    snapshot: SnapshotId


class ResetToSnapshot(NamedTuple):
    """Rename the snapshot, and restart the log where it ends; it has everything committed before."""

    snapshot: SnapshotId


Operation: TypeAlias = AppendControl | AppendFetched | Truncate | WriteSnapshotPart | FinishSnapshot | ResetToSnapshot


class OutgoingRequest(NamedTuple):
    """A request for a peer. Its answer, or that there is none, comes back with the same id."""

    to: int
    request_id: int
    request: Request


class Reply(NamedTuple):
    """The answer to a request that was received with this token.

    `read_from`: the driver adds the batches of its log from this offset on, as many as it likes. For a piece of a
    snapshot it adds the bytes.
    """

    token: object
    response: Response
    read_from: int | None = None


class ChangeDone(NamedTuple):
    """How a change of the voters that was asked for with this token ended: committed, or an error."""

    token: object
    error: BarnabasError | None = None


class Stranger(NamedTuple):
    """A peer that belongs to another cluster. `is_everybody`: so does everybody else whom this node could ask."""

    peer: int
    is_everybody: bool


class Output(msgspec.Struct):
    """All that one step asks for."""

    persist: QuorumState | None = None
    operations: list[Operation] = []
    replies: list[Reply] = []
    requests: list[OutgoingRequest] = []
    high_watermark: int | None = None
    changes: list[ChangeDone] = []
    strangers: list[Stranger] = []
    notes: list[str] = []
    """What is worth a line in the log."""
