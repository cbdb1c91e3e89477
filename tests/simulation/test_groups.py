"""Groups on a whole node, through crashes, kills and resets: what members were told stays true, and they all recover.

TEST_SEEDS says how many runs, TEST_FIRST_SEED where to begin, as for the other machines here. One run alone:
PYTHONPATH=. python -m tests.simulation.group_support SEED
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from barnabas.core.coordination import Outcome, Reply
from barnabas.core.groups import offset_access, routing
from barnabas.core.groups.consumer import reconcile as consumer_reconcile
from barnabas.core.groups.consumer.reconcile import Goal
from barnabas.core.groups.decision import JOIN, SESSION, GroupOutcome, TimerKey
from barnabas.core.groups.records import ConsumerCurrentMemberRecord
from barnabas.core.groups.routing import GroupView
from barnabas.runtime import coordinator as runtime
from barnabas.runtime.group_coordinator import GroupCoordinator
from barnabas.storage.log import Log
from tests.simulation.group_support import run, run_small
from tests.simulation.seeded import check_noticed, check_seeds

SEEDS = 3
PLANTED_SEEDS = 20

pytestmark = pytest.mark.usefixtures("_quiet")


def test_what_members_were_told_stays_true_and_groups_become_stable() -> None:
    check_seeds(
        run,
        default=SEEDS,
        events=(
            "committed",
            "crash at an answer",
            "fenced",
            "hang",
            "restart",
            "leave",
            "led",
            "revoked",
            "out of step",
            "unanswered",
        ),
    )


# Planted bugs


def answer_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def answer_at_once(_coordinator: GroupCoordinator, replies: Sequence[Reply[Any]]) -> None:
        runtime._answer(replies)

    patch.setattr(GroupCoordinator, "_answer_when_durable", answer_at_once)


def forget_offsets_over_a_restart(patch: pytest.MonkeyPatch) -> None:
    replay = GroupCoordinator._replay

    async def replay_and_forget(coordinator: GroupCoordinator, source: Log) -> None:
        await replay(coordinator, source)
        coordinator.groups.offsets.clear()

    patch.setattr(GroupCoordinator, "_replay", replay_and_forget)


def take_commits_of_any_generation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offset_access, "_check_classic_commit", lambda *_arguments, **_named: None)


def take_commits_of_any_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offset_access, "_check_epoch", lambda *_arguments: None)
    patch.setattr(offset_access, "held_since", lambda _current: _EverSince())


class _EverSince:
    """Everything, always."""

    def get(self, _partition: object) -> int:
        return 0


def _ignore_timers(patch: pytest.MonkeyPatch, kind: str) -> None:
    on_timer = routing.on_timer

    def on_other_timer(view: GroupView, key: TimerKey, *, now_ms: int) -> GroupOutcome:
        return Outcome() if key.kind == kind else on_timer(view, key, now_ms=now_ms)

    patch.setattr(routing, "on_timer", on_other_timer)


def keep_members_whose_session_ended(patch: pytest.MonkeyPatch) -> None:
    _ignore_timers(patch, SESSION)


def wait_for_ever_for_members_to_join(patch: pytest.MonkeyPatch) -> None:
    _ignore_timers(patch, JOIN)


def start_no_sessions_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(routing, "timers_after_load", lambda _view: [])


def hand_out_what_is_not_released(patch: pytest.MonkeyPatch) -> None:
    step = consumer_reconcile._step

    def careless(current: ConsumerCurrentMemberRecord, goal: Goal) -> ConsumerCurrentMemberRecord:
        return step(current, goal._replace(owner_of=lambda _topic_id, _partition: None))

    patch.setattr(consumer_reconcile, "_step", careless)


@pytest.mark.parametrize(
    "plant",
    [
        answer_before_the_sync,
        forget_offsets_over_a_restart,
        take_commits_of_any_generation,
        take_commits_of_any_epoch,
        keep_members_whose_session_ended,
        wait_for_ever_for_members_to_join,
        start_no_sessions_after_a_restart,
        hand_out_what_is_not_released,
    ],
)
def test_the_simulation_notices_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    check_noticed(run_small, within=PLANTED_SEEDS)
