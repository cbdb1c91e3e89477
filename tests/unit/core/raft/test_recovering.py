"""A voter that becomes a quorum of its own: what is written, and which logs are refused."""

from uuid import UUID

import pytest

from barnabas.core.errors import InvalidConfig
from barnabas.core.raft.epochs import LAST_EPOCH, RESERVED_EPOCHS
from barnabas.core.raft.log_view import EpochStart, SnapshotId
from barnabas.core.raft.node import RaftNode, Restored
from barnabas.core.raft.output import KRaftVersion, LeaderChange, QuorumState, Voters
from barnabas.core.raft.recovering import EPOCHS_AHEAD, plan_recovery
from barnabas.core.raft.state import Leader
from barnabas.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VotersAt, VoterSet
from barnabas.testing.dice import SimulatedDice, derive_random

KEYS = [ReplicaKey(number, UUID(int=number)) for number in (1, 2, 3)]
THREE = VoterSet.of(Voter(key, (VoterEndpoint("CONTROLLER", f"host{key.node_id}", 9093),)) for key in KEYS)
ME = KEYS[2]


def restored(
    *,
    voters: VoterSet = THREE,
    epoch: int = 7,
    quorum: QuorumState | None = None,
    snapshots: tuple[SnapshotId, ...] = (),
) -> Restored:
    return Restored(
        quorum=quorum,
        end_offset=50,
        epochs=(EpochStart(epoch, 0),),
        snapshots=snapshots,
        voters=(VotersAt(2, voters),) if voters.voters else (),
    )


def test_the_set_of_voters_is_the_survivor_alone_above_its_log() -> None:
    recovery = plan_recovery(ME, restored(quorum=QuorumState(9, 1)))

    alone = VoterSet((THREE.voters[2],))
    epoch = 9 + EPOCHS_AHEAD
    assert recovery.append == (50, epoch, (LeaderChange(3, (3,), (3,)), KRaftVersion(1), Voters(alone)))
    assert recovery.state == QuorumState(epoch, 3, ME)
    assert [voter.key.node_id for voter in recovery.lost] == [1, 2]
    assert recovery.snapshot is None


@pytest.mark.parametrize("is_state_written", [True, False])
def test_the_survivor_leads_when_it_starts_also_if_a_crash_came_before_the_state(*, is_state_written: bool) -> None:
    before = restored(quorum=QuorumState(9, 1))
    recovery = plan_recovery(ME, before)
    after = Restored(
        quorum=recovery.state if is_state_written else before.quorum,
        end_offset=53,
        epochs=(*before.epochs, EpochStart(recovery.append.epoch, 50)),
        voters=(*before.voters, VotersAt(52, VoterSet((THREE.voters[2],)))),
    )

    node = RaftNode(ME, "c", after, dice=SimulatedDice(derive_random(1, "dice")))
    node.start(0)

    assert isinstance(node.role, Leader)
    assert node.quorum.epoch == recovery.append.epoch + 1


def test_a_snapshot_that_was_fetched_just_before_replaces_the_log_first() -> None:
    snapshot = SnapshotId(80, 8)

    recovery = plan_recovery(ME, restored(snapshots=(snapshot,)))

    assert recovery.snapshot == snapshot
    assert recovery.append[:2] == (80, 8 + EPOCHS_AHEAD)


def test_near_the_last_epoch_it_goes_in_steps() -> None:
    late = LAST_EPOCH - RESERVED_EPOCHS

    assert plan_recovery(ME, restored(epoch=late)).append.epoch == late + 1
    with pytest.raises(InvalidConfig, match="leaves no other to lead in"):
        plan_recovery(ME, restored(epoch=LAST_EPOCH))


@pytest.mark.parametrize(
    ("key", "voters", "why"),
    [
        (ReplicaKey(4, UUID(int=4)), THREE, "node 4 does not vote with this data directory"),
        (ReplicaKey(3, UUID(int=33)), THREE, "node 3 does not vote with this data directory"),
        (ME, VoterSet(THREE.voters[2:]), "node 3 is the only voter"),
        (ME, VoterSet(()), "its log names no voters"),
    ],
    ids=["observer", "another directory", "alone", "fixed voters"],
)
def test_what_is_not_one_voter_of_several_is_refused(key: ReplicaKey, voters: VoterSet, why: str) -> None:
    with pytest.raises(InvalidConfig, match=why):
        plan_recovery(key, restored(voters=voters))
