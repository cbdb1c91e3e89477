"""Scenarios of Raft: `raft/*.txt`, one for each rule and for each mistake that others have made."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from barnabas.core.raft import following, leading, membership, node, voting
from barnabas.core.raft.log_view import SnapshotId
from barnabas.core.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    VoteRequest,
)
from barnabas.core.raft.node import Restored
from barnabas.core.raft.state import Leader, RaftState
from barnabas.core.raft.voters import ReplicaKey, VoterSet
from tests.scenarios.raft_stage import CLUSTER, RaftCommands
from tests.scenarios.transcript import REWRITE_VARIABLE, check_transcript, name_of, transcripts
from tests.unit.core.raft.disks import Disk


def _key(node_id: int, directory: int | None = None) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=node_id if directory is None else directory))


class RaftStage(RaftCommands):
    """All commands; these are requests by hand, whose answers are printed."""

    def ask_vote(
        self,
        node: int,
        *,
        epoch: int,
        candidate: int,
        last_epoch: int = 0,
        end: int = 0,
        pre: bool = False,
        cluster: str = CLUSTER,
        directory: int | None = None,
    ) -> Iterator[str]:
        """``ask-vote NODE epoch=E candidate=N [last-epoch=E] [end=N] [pre=yes] [cluster=C] [directory=D]``"""
        request = VoteRequest(
            cluster_id=cluster,
            epoch=epoch,
            candidate=_key(candidate),
            voter=_key(node, directory),
            last_epoch=last_epoch,
            end_offset=end,
            is_pre_vote=pre,
        )
        yield from self._ask(node, request)

    def ask_begin(
        self, node: int, *, epoch: int, leader: int, cluster: str = CLUSTER, directory: int | None = None
    ) -> Iterator[str]:
        """``ask-begin NODE epoch=E leader=N [cluster=C] [directory=D]``"""
        request = BeginQuorumEpochRequest(
            cluster_id=cluster, epoch=epoch, leader_id=leader, voter=_key(node, directory)
        )
        yield from self._ask(node, request)

    def ask_end(self, node: int, *, epoch: int, leader: int, successors: str) -> Iterator[str]:
        """``ask-end NODE epoch=E leader=N successors=N,N``"""
        keys = tuple(_key(int(one)) for one in successors.split(","))
        yield from self._ask(
            node, EndQuorumEpochRequest(cluster_id=CLUSTER, epoch=epoch, leader_id=leader, successors=keys)
        )

    def ask_fetch(
        self, node: int, *, epoch: int, replica: int, offset: int, last_epoch: int, cluster: str = CLUSTER
    ) -> Iterator[str]:
        """``ask-fetch NODE epoch=E replica=N offset=N last-epoch=E [cluster=C]``"""
        request = FetchRequest(
            cluster_id=cluster, epoch=epoch, replica=_key(replica), fetch_offset=offset, last_epoch=last_epoch
        )
        yield from self._ask(node, request)

    def ask_snapshot(self, node: int, *, epoch: int, end: int, of: int, position: int = 0) -> Iterator[str]:
        """``ask-snapshot NODE epoch=E end=N of=EPOCH [position=N]``"""
        request = FetchSnapshotRequest(
            cluster_id=CLUSTER, epoch=epoch, replica=_key(9), snapshot=SnapshotId(end, of), position=position
        )
        yield from self._ask(node, request)


def _grant_any_pre_vote(state: RaftState, request: VoteRequest) -> bool:
    return request.is_pre_vote


def _always(value: bool) -> Callable[..., bool]:
    def answer(*args: object, **kwargs: object) -> bool:
        return value

    return answer


def _never_refused(state: RaftState, voter: ReplicaKey) -> None:
    return None


def _without_vote(disk: Disk) -> Restored:
    quorum = disk.quorum._replace(voted=None) if disk.quorum is not None else None
    return _RESTORED(msgspec.structs.replace(disk, quorum=quorum))


def _without_leader(disk: Disk) -> Restored:
    quorum = disk.quorum._replace(leader_id=None) if disk.quorum is not None else None
    return _RESTORED(msgspec.structs.replace(disk, quorum=quorum))


def _change_at_any_time(state: RaftState) -> tuple[Leader, VoterSet]:
    assert isinstance(state.role, Leader)
    return state.role, state.voters.current


_RESTORED = Disk.restored
PLANTED: list[tuple[str, object, str, Callable[..., object]]] = [
    ("vote_once", Disk, "restored", _without_vote),
    ("restart", Disk, "restored", _without_leader),
    ("voters_early", membership, "check_can_change", _change_at_any_time),
    ("old_epoch", leading, "may_commit", _always(True)),
    ("cut_off_leader", leading, "is_quorum_lost", _always(False)),
    ("pre_vote", voting, "may_grant", _grant_any_pre_vote),
    ("truncate_committed", following, "check_truncation", _always(True)),
    ("strangers", voting, "is_step", _always(True)),
    ("strangers", voting, "check_addressee", _never_refused),
    ("false_answers", node, "is_credible", _always(True)),
    ("alone", voting, "is_sole_voter", _always(False)),
]
"""Mistakes that change a transcript: rules that the simulation seldom or never needs."""


@pytest.mark.parametrize(("name", "owner", "rule", "mistake"), PLANTED, ids=[f"{one[0]}-{one[2]}" for one in PLANTED])
def test_a_planted_mistake_shows_in_its_transcript(
    name: str, owner: object, rule: str, mistake: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(REWRITE_VARIABLE, raising=False)
    monkeypatch.setattr(owner, rule, mistake)
    path = next(path for path in transcripts("raft") if path.stem == name)
    with pytest.raises((AssertionError, KeyError)):
        check_transcript(path, RaftStage)


@pytest.mark.parametrize("path", transcripts("raft"), ids=name_of)
def test_transcript(path: Path) -> None:
    check_transcript(path, RaftStage)
