"""Groups on a whole node, through crashes, kills and resets: what members were told stays true, and they all recover.

BARNABAS_SEEDS says how many runs, BARNABAS_FIRST_SEED where to begin, as for the other machines here. One run alone:
PYTHONPATH=. python -m tests.simulation.group_support SEED
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from barnabas.core.groups import consumer_reconcile, offset_access
from barnabas.core.groups.consumer_reconcile import Goal
from barnabas.core.groups.decision import JOIN, SESSION, Reply, TimerKey
from barnabas.core.groups.records import ConsumerCurrentMemberRecord
from barnabas.runtime import coordinator as runtime
from barnabas.runtime.coordinator import Coordinator
from barnabas.services.group_routing import GroupRouting
from tests.simulation.group_support import run
from tests.simulation.node_history import Violation
from tests.simulation.storage_machine import seeds

SEEDS = 5
PLANTED_SEEDS = 20

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """A simulated crash is logged as the error it would be anywhere else."""
    caplog.set_level("CRITICAL")


def test_what_members_were_told_stays_true_and_groups_become_stable() -> None:
    mine = list(seeds(default=SEEDS))

    counts: Counter[str] = Counter()
    for seed in mine:
        try:
            counts += run(seed)[0]
        except BaseException as error:
            error.add_note(f"PYTHONPATH=. python -m tests.simulation.group_support {seed}")
            raise

    print(f"{len(mine)} seeds: {dict(counts.most_common())}")
    for event in ("committed", "fenced", "hang", "restart", "leave", "led", "revoked", "out of step", "unanswered"):
        assert counts[event] >= len(mine) // 2, f"the simulation hardly sees '{event}' any more"


def test_the_same_seed_gives_the_same_run_in_another_process_too() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "4711"}
    command = [sys.executable, "-m", "tests.simulation.group_support", "4"]

    _, trace_hash = run(4)
    other = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)

    assert other.stdout.split()[-1] == trace_hash


# Planted bugs


def answer_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def answer_at_once(_coordinator: Coordinator, replies: Sequence[Reply]) -> None:
        runtime._answer(replies)

    patch.setattr(Coordinator, "_answer_when_durable", answer_at_once)


def forget_offsets_over_a_restart(patch: pytest.MonkeyPatch) -> None:
    replay = Coordinator._replay

    async def replay_and_forget(coordinator: Coordinator) -> None:
        await replay(coordinator)
        coordinator.groups.offsets.clear()

    patch.setattr(Coordinator, "_replay", replay_and_forget)


def take_commits_of_any_generation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offset_access, "_check_classic_commit", lambda *_arguments, **_named: None)


def take_commits_of_any_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offset_access, "_check_epoch", lambda *_arguments: None)


def _ignore_timers(patch: pytest.MonkeyPatch, kind: str) -> None:
    on_timer = GroupRouting.on_timer

    def on_other_timer(routing: GroupRouting, to: Coordinator, key: TimerKey) -> None:
        if key.kind != kind:
            on_timer(routing, to, key)

    patch.setattr(GroupRouting, "on_timer", on_other_timer)


def keep_members_whose_session_ended(patch: pytest.MonkeyPatch) -> None:
    _ignore_timers(patch, SESSION)


def wait_for_ever_for_members_to_join(patch: pytest.MonkeyPatch) -> None:
    _ignore_timers(patch, JOIN)


def start_no_sessions_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupRouting, "timers_after_load", lambda _routing, _coordinator: [])


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

    caught = next((found for seed in range(PLANTED_SEEDS) if (found := _caught(seed)) is not None), None)

    assert caught is not None, f"{PLANTED_SEEDS} runs did not notice"
    print(f"caught: {caught}")


def _caught(seed: int) -> str | None:
    """How a run failed, if it did; anything but a broken promise would be a bug of the plant."""
    try:
        run(seed)
    except ExceptionGroup as group:
        found = group.subgroup(Violation)
        if found is None:
            raise
        return f"by seed {seed}, {_first(found)}"
    return None


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
