"""Scenarios of groups: `groups/*.txt`, one for each rule of the classic protocol and of that of KIP-848."""

from pathlib import Path

import pytest

from barnabas.core.coordination import Outcome
from barnabas.core.groups import offset_access, routing
from barnabas.core.groups.classic import decisions as classic
from barnabas.core.groups.classic.state import LiveGroup, LiveMember
from barnabas.core.groups.consumer import decisions as consumer
from barnabas.core.groups.consumer import reconcile
from barnabas.core.groups.consumer.reconcile import Goal
from barnabas.core.groups.records import ConsumerCurrentMemberRecord
from tests.scenarios.group_stage import GroupStage
from tests.scenarios.transcript import (
    Planted,
    check_mistake_shows,
    check_transcript,
    name_of,
    no_timers,
    nothing,
    transcripts,
)

_STEP = reconcile._step


def _no_outcome(*_arguments: object, **_named: object) -> Outcome[object]:
    return Outcome()


def _take_any_member(group: LiveGroup, member_id: str, _instance_id: str | None) -> LiveMember:
    return group.members.get(member_id) or next(iter(group.members.values()))


def _hand_out_what_is_not_released(current: ConsumerCurrentMemberRecord, goal: Goal) -> ConsumerCurrentMemberRecord:
    return _STEP(current, goal._replace(owner_of=lambda _topic_id, _partition: None))


PLANTED = [
    Planted("rebalance", offset_access, "_check_classic_commit", nothing),
    Planted("static_member", LiveGroup, "check_member", _take_any_member),
    Planted("session_end", offset_access, "keep_session", nothing),
    Planted("slow_member", classic, "on_timer", _no_outcome),
    Planted("restart", classic, "timers_after_load", no_timers),
    Planted("full_disk", routing, "give_up", _no_outcome),
    Planted("consumer_join", reconcile, "_step", _hand_out_what_is_not_released),
    Planted("consumer_commits", offset_access, "_check_epoch", nothing),
    Planted("consumer_restart", consumer, "timers_after_load", no_timers),
    Planted("migration", routing, "downgraded_to", nothing),
]
"""Mistakes that change a transcript."""


@pytest.mark.parametrize("planted", PLANTED, ids=[each.name for each in PLANTED])
def test_a_planted_mistake_shows_in_its_transcript(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    check_mistake_shows("groups", planted, GroupStage, monkeypatch)


@pytest.mark.parametrize("path", transcripts("groups"), ids=name_of)
def test_transcript(path: Path) -> None:
    check_transcript(path, GroupStage)
