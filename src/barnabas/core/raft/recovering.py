"""A quorum of one from the log of a single voter, where the majority is lost for good.

What is decided here breaks the rule that Raft rests on: a set of voters without a majority of the one before it. So it
is for a stopped node, and an operator who knows that the others never come back. What the log of this voter has counts
as committed from then on, and nothing else does.
"""

from typing import Final, NamedTuple

from barnabas.core.errors import InvalidConfig
from barnabas.core.raft.epochs import LAST_EPOCH, RESERVED_EPOCHS
from barnabas.core.raft.log_view import LogView, SnapshotId
from barnabas.core.raft.node import Restored
from barnabas.core.raft.output import AppendControl, KRaftVersion, LeaderChange, QuorumState, Voters
from barnabas.core.raft.voters import ReplicaKey, Voter, VoterSet

EPOCHS_AHEAD: Final = 10_000
"""How far the epoch moves: the others may have gone through elections that this node has not heard of, and brokers that
were in the epochs of those follow a newer one alone."""


class Recovery(NamedTuple):
    """What to write, in this order."""

    snapshot: SnapshotId | None
    """It replaces the log first: a crash has kept it from doing so."""
    append: AppendControl
    state: QuorumState
    lost: tuple[Voter, ...]
    """The voters that vote no more."""


def plan_recovery(key: ReplicaKey, restored: Restored) -> Recovery:
    """How the log of a voter becomes that of a quorum of its own; refused where it is not that of a voter."""
    if not restored.voters:
        raise InvalidConfig(
            "its log names no voters: they are a fixed list, or the node has never joined a cluster. Of a fixed list, "
            "set controller.quorum.voters to this node alone, on all nodes that are left"
        )
    voters = max(restored.voters).voters
    mine = voters.find(key)
    if mine is None or key.directory_id is None or mine.key != key:
        raise InvalidConfig(
            f"node {key.node_id} does not vote with this data directory (the voters are {_ids(voters)}): what it knows "
            "may be any amount behind. Use the directory of a voter"
        )
    if len(voters.voters) == 1:
        raise InvalidConfig(f"node {key.node_id} is the only voter: it needs nobody else, start it")
    log = LogView(
        start_offset=restored.start_offset,
        end_offset=restored.end_offset,
        epochs=restored.epochs,
        snapshots=restored.snapshots,
    )
    snapshot = log.unreached_snapshot
    if snapshot is not None:
        log.reset(snapshot)
    alone = VoterSet((mine,))
    epoch = _next_epoch(max(log.last_epoch, restored.quorum.epoch if restored.quorum is not None else 0))
    records = LeaderChange(key.node_id, alone.node_ids, alone.node_ids), KRaftVersion(1), Voters(alone)
    return Recovery(
        snapshot,
        AppendControl(log.end_offset, epoch, records),
        QuorumState(epoch, key.node_id, key),
        tuple(voter for voter in voters.voters if voter is not mine),
    )


def _next_epoch(current: int) -> int:
    if current + EPOCHS_AHEAD <= LAST_EPOCH - RESERVED_EPOCHS:
        return current + EPOCHS_AHEAD
    if current + 1 >= LAST_EPOCH:
        raise InvalidConfig(f"epoch {current} leaves no other to lead in")
    return current + 1


def _ids(voters: VoterSet) -> str:
    return ", ".join(map(str, voters.node_ids))
