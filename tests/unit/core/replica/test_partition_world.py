"""A partition with its leader, followers and controller under faults: random histories, and planted bugs."""

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.core.metadata import electing, isr, leadership
from barnabas.core.metadata.image import PartitionState
from barnabas.core.replica import leader as leading
from barnabas.core.replica.follower import Action, FetchAnswer, Follower, Truncate
from barnabas.core.replica.leader import Leader
from barnabas.core.replica.leader_epochs import EpochEnd
from tests.unit.core.replica.partition_steps import steps
from tests.unit.core.replica.partition_world import World

STEPS = list(steps())
FAULTS = ("lose", "wait", "crash", "replace disk", "fence", "delete")
MOVES = ("move", "cancel")


class PartitionMachine(RuleBasedStateMachine):
    """A leader and 2 to 4 followers; steps in any order."""

    @initialize(nodes=st.integers(3, 5), min_insync_replicas=st.integers(1, 3))
    def start(self, nodes: int, min_insync_replicas: int) -> None:
        self.world = World(nodes, min_insync_replicas=min_insync_replicas, replicas=3)

    @rule(name=st.sampled_from([name for name, weight, _ in STEPS for _ in range(weight)]), which=st.integers(0, 30))
    def happen(self, name: str, which: int) -> None:
        next(do for each, _, do in STEPS if each == name)(self.world, which)

    @rule()
    def power_cut(self) -> None:
        for node_id in self.world.nodes:
            self.world.crash(node_id)

    @invariant()
    def what_must_hold(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.heal()


PartitionMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
test_any_order_of_steps_keeps_what_was_acknowledged = PartitionMachine.TestCase


def play(seed: int, *, length: int = 400) -> World:
    """One random history, healed at the end."""
    dice = random.Random(seed)
    world = World(dice.randint(3, 5), min_insync_replicas=dice.randint(1, 3), replicas=dice.randint(2, 3))
    calm = dice.choice((1, 3, 10))
    moves = dice.choice((0, 1, 3))
    weights = [
        weight * moves if name in MOVES else weight / calm if name in FAULTS else weight for name, weight, _ in STEPS
    ]
    chosen = dice.choices([do for _, _, do in STEPS], weights=weights, k=length)
    for do in chosen:
        do(world, dice.randrange(60))
        world.check()
    world.heal()
    return world


@pytest.mark.parametrize("seed", range(40))
def test_a_long_history_keeps_what_was_acknowledged(seed: int) -> None:
    play(seed)


def test_the_histories_acknowledge_and_truncate() -> None:
    worlds = [play(seed) for seed in range(30)]

    assert sum(len(world.acked) for world in worlds) > 200
    assert any("truncates" in said for world in worlds for said in world.said)
    assert any("begins again" in said for world in worlds for said in world.said)


def _truncate_to_watermark(follower: Follower, _theirs: EpochEnd) -> Action:
    return Truncate(follower.high_watermark, loses_committed=False)


def _note_answer(follower: Follower, fetch: object, answer: FetchAnswer) -> Action:
    follower._answer = answer
    if answer.diverging is not None and fetch == follower._fetch:
        follower.high_watermark = max(follower.high_watermark, min(answer.high_watermark, follower._end_offset))
    return _RECEIVE(follower, fetch, answer)  # type: ignore[arg-type]


def _receive_anything(follower: Follower, fetch: object, answer: FetchAnswer) -> Action:
    if follower._pending is None:
        follower._fetch = fetch  # type: ignore[assignment]
    return _RECEIVE(follower, fetch, answer)  # type: ignore[arg-type]


def _join_at_once(leader: Leader, replica: int) -> bool:
    return leader._followers[replica].broker_epoch == leader._active.get(replica)


def _join_in_any_life(leader: Leader, replica: int) -> bool:
    progress = leader._followers[replica]
    return leader._end_of(progress) >= max(leader.high_watermark, leader.start_offset)


def _only_own_disk(leader: Leader) -> None:
    leader.high_watermark = max(leader.high_watermark, leader._own_end)


def _always(_in_sync: int, _replicas: int, _min: int) -> bool:
    return True


def _append_counts(follower: Follower, end_offset: int) -> int:
    high_watermark = _APPENDED(follower, end_offset)
    follower._durable_end = end_offset
    return high_watermark


def _no_check(*_arguments: object) -> None:
    return None


def _nobody(*_arguments: object) -> tuple[int, ...]:
    return ()


def _only_with_a_leader(state: PartitionState, draft: electing._Draft) -> bool:
    return draft.leader != state.leader


def _finish_at_once(draft: electing._Draft) -> None:
    target = tuple(node for node in draft.replicas if node not in draft.removing)
    if set(draft.isr) & set(target):
        draft.isr = draft.replicas = target
        draft.adding = draft.removing = ()


def _committed_isr_only(leader: Leader) -> None:
    leader._maximal = frozenset(leader.isr)


_RECEIVE, _APPENDED = Follower.receive, Follower.note_appended
PLANTED: list[tuple[str, Sequence[tuple[object, str, Callable[..., object]]]]] = [
    ("truncate to the watermark", [(Follower, "_diverged", _truncate_to_watermark)]),
    ("watermark of a diverging answer", [(Follower, "receive", _note_answer)]),
    ("ISR grows without catching up", [(Leader, "_may_join", _join_at_once)]),
    ("stale broker epoch accepted by the leader", [(Leader, "_may_join", _join_in_any_life)]),
    ("stale broker epoch accepted by the controller", [(isr, "_check_eligible", _no_check)]),
    ("an empty disk taken for a full one", [(leadership, "_lost", _nobody)]),
    ("acknowledged before min ISR", [(leading, "_are_enough", _always)]),
    ("acknowledged by the leader alone", [(Leader, "_advance", _only_own_disk)]),
    ("acknowledged before the follower has synced", [(Follower, "note_appended", _append_counts)]),
    ("answers of old epochs and requests taken", [(Follower, "receive", _receive_anything)]),
    ("a replica is removed within a leader epoch", [(electing, "_begins_epoch", _only_with_a_leader)]),
    ("a move ends before the copies are whole", [(electing, "_finish_reassignment", _finish_at_once)]),
    ("the proposed ISR does not count", [(Leader, "_settle_maximal", _committed_isr_only)]),
]


@pytest.mark.parametrize(("name", "mistakes"), PLANTED, ids=[name for name, _ in PLANTED])
def test_a_planted_bug_is_caught(
    name: str, mistakes: Sequence[tuple[object, str, Callable[..., object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, rule_name, mistake in mistakes:
        monkeypatch.setattr(owner, rule_name, mistake)

    for seed in range(400):
        try:
            play(seed)
        except (AssertionError, IndexError):
            return
    raise AssertionError(f"not caught: {name}")
