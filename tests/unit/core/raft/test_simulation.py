"""Raft under faults, from many seeds; and that the checks would notice the mistakes that others have made.

``RAFT_SEEDS=20000 pytest tests/unit/core/raft/test_simulation.py -k seeds`` tries more, ``RAFT_FIRST_SEED`` others.
"""

from collections.abc import Callable

import msgspec
import pytest

from barnabas.core.model import NO_OFFSET
from barnabas.core.raft import following, leading, voting
from barnabas.core.raft.messages import FetchRequest, VoteRequest
from barnabas.core.raft.node import Restored
from barnabas.core.raft.state import BrokenQuorum, Leader, RaftState
from barnabas.core.raft.voters import VoterHistory, VoterSet
from tests.unit.core.raft.cluster import Broken
from tests.unit.core.raft.disks import Disk
from tests.unit.core.raft.faults import FIRST_SEED, SEEDS, run_seed

_PER_TEST = 25


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEEDS, _PER_TEST))
def test_what_must_hold_holds_for_all_seeds(first: int) -> None:
    for seed in range(first, min(first + _PER_TEST, FIRST_SEED + SEEDS)):
        try:
            run_seed(seed, is_static=seed % 4 == 0)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_what_must_hold_holds_when_nodes_die_at_the_worst_moments() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS // 4):
        try:
            run_seed(seed, is_aimed=True)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = run_seed(7), run_seed(7)
    assert one.committed == other.committed
    assert (one.leaders, one.now_ms) == (other.leaders, other.now_ms)


def test_runs_reach_what_they_are_for() -> None:
    """Leaders change, voters change, and logs grow, or the seeds would prove little."""
    clusters = [run_seed(seed, duration_ms=2500) for seed in range(1, 13)]
    assert sum(len(cluster.leaders) for cluster in clusters) > 30
    assert sum(cluster.changes_done for cluster in clusters) > 3
    assert sum(len(cluster.committed) for cluster in clusters) > 200
    assert sum(node.disk.start_offset > 0 for cluster in clusters for node in cluster.nodes.values()) > 5


# Mistakes, planted one at a time


def always(value: object) -> Callable[..., object]:
    def answer(*args: object, **kwargs: object) -> object:
        return value

    return answer


def vote_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    grant = voting.may_grant

    def may_grant(state: RaftState, request: VoteRequest) -> bool:
        quorum = state.quorum
        state.quorum = quorum._replace(voted=None)
        is_granted = grant(state, request)
        state.quorum = quorum
        return is_granted

    monkeypatch.setattr(voting, "may_grant", may_grant)


def vote_for_a_shorter_log(monkeypatch: pytest.MonkeyPatch) -> None:
    grant = voting.may_grant

    def may_grant(state: RaftState, request: VoteRequest) -> bool:
        return grant(state, msgspec.structs.replace(request, last_epoch=state.log.last_epoch, end_offset=10**9))

    monkeypatch.setattr(voting, "may_grant", may_grant)


def count_before_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "own_end", lambda state: state.log.end_offset)


def acknowledge_before_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "can_fetch", lambda state: not state.requests.is_any_under_way)


def count_a_diverging_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "find_place", always(None))


def take_the_watermark_before_truncating(monkeypatch: pytest.MonkeyPatch) -> None:
    truncate = following.truncate_to

    def and_raise(state: RaftState, end_offset: int) -> None:
        state.raise_high_watermark(state.log.end_offset)
        truncate(state, end_offset)

    monkeypatch.setattr(following, "truncate_to", and_raise)


def truncate_below_the_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that lost its log is elected, and nobody minds."""
    vote_for_a_shorter_log(monkeypatch)
    monkeypatch.setattr(following, "check_truncation", always(None))


def lose_the_voters_over_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    reset = VoterHistory.reset

    def with_old_voters(self: VoterHistory, end_offset: int, voters: VoterSet) -> None:
        reset(self, end_offset, self.current)

    monkeypatch.setattr(VoterHistory, "reset", with_old_voters)


def keep_voters_that_were_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VoterHistory, "truncate_to", always(None))


def count_a_leader_that_was_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def majority_end(state: RaftState, role: Leader) -> int:
        ends = [one.durable_end for key, one in role.progress.items() if state.voters.current.find(key) is not None]
        ends = sorted([*ends, leading.own_end(state)], reverse=True)
        index = min(state.voters.current.majority, len(ends)) - 1
        return ends[index] if ends else NO_OFFSET

    monkeypatch.setattr(leading, "majority_end", majority_end)


def use_an_answer_to_another_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetch from before the end of the log, and take the answer as if it were for the end."""
    fetch_request = following.fetch_request

    def from_before(state: RaftState) -> FetchRequest:
        request = fetch_request(state)
        return msgspec.structs.replace(request, fetch_offset=max(request.fetch_offset - 1, 0))

    monkeypatch.setattr(following, "fetch_request", from_before)
    monkeypatch.setattr(following, "is_current", always(True))
    monkeypatch.setattr(following, "continues", always(True))


UNSAFE: list[Callable[[pytest.MonkeyPatch], None]] = [
    vote_twice,
    vote_for_a_shorter_log,
    count_before_fsync,
    acknowledge_before_fsync,
    count_a_diverging_fetch,
    take_the_watermark_before_truncating,
    truncate_below_the_watermark,
    lose_the_voters_over_a_snapshot,
    keep_voters_that_were_truncated,
    count_a_leader_that_was_removed,
    use_an_answer_to_another_position,
]
_TRIES = 300


@pytest.mark.parametrize("plant", UNSAFE, ids=lambda plant: plant.__name__)
def test_a_planted_mistake_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((Broken, BrokenQuorum, AssertionError)):
        run_seeds(_TRIES)


def run_seeds(count: int, *, is_aimed: bool = False) -> None:
    for seed in range(count):
        run_seed(seed, duration_ms=2500, is_aimed=is_aimed)


# Mistakes that need nodes to die at the worst moments


def forget_the_vote_over_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    restored = Disk.restored

    def without_vote(self: Disk) -> Restored:
        found = restored(self)
        return msgspec.structs.replace(found, quorum=found.quorum and found.quorum._replace(voted=None))

    monkeypatch.setattr(Disk, "restored", without_vote)


def commit_records_of_an_older_epoch_by_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "may_commit", always(True))


@pytest.mark.parametrize("plant", [forget_the_vote_over_a_restart, commit_records_of_an_older_epoch_by_counting])
def test_a_planted_mistake_is_caught_when_nodes_die_at_the_worst_moments(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((Broken, BrokenQuorum, AssertionError)):
        run_seeds(_TRIES, is_aimed=True)
