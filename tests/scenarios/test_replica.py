"""Scenarios of a replicated partition: `replica/*.txt`, the cases in which others have lost or mixed up records."""

from pathlib import Path

import pytest

from barnabas.core.metadata import electing, isr, leadership, topics
from barnabas.core.replica import leader as leading
from barnabas.core.replica.follower import Action, FetchAnswer, Follower, Truncate
from barnabas.core.replica.leader import Leader
from barnabas.core.replica.leader_epochs import EpochEnd
from tests.scenarios.replica_stage import ReplicaStage
from tests.scenarios.transcript import Planted, check_mistake_shows, check_transcript, name_of, nothing, transcripts


def _to_watermark(follower: Follower, _theirs: EpochEnd) -> Action:
    return Truncate(follower.high_watermark, loses_committed=False)


def _any_answer(follower: Follower, fetch: object, answer: FetchAnswer) -> Action:
    follower._fetch = fetch  # type: ignore[assignment]
    return _RECEIVE(follower, fetch, answer)  # type: ignore[arg-type]


def _with_its_watermark(follower: Follower, theirs: EpochEnd) -> Action:
    follower.high_watermark = follower._end_offset
    return _DIVERGED(follower, theirs)


def _always(*_arguments: object, **_named: object) -> bool:
    return True


def _nobody(*_arguments: object, **_named: object) -> tuple[int, ...]:
    return ()


def _first_of_all(draft: electing._Draft, *_arguments: object, **_named: object) -> int:
    return draft.replicas[0]


def _begin_at_watermark(follower: Follower, **known: object) -> None:
    _INIT(follower, **{**known, "end_offset": known["high_watermark"]})  # type: ignore[arg-type]


_INIT = Follower.__init__
_RECEIVE, _DIVERGED = Follower.receive, Follower._diverged
PLANTED: list[Planted] = [
    Planted("diverging_leader", Follower, "_diverged", _with_its_watermark),
    Planted("restarted_follower", Follower, "__init__", _begin_at_watermark),
    Planted("two_fast_failovers", Follower, "_diverged", _to_watermark),
    Planted("old_answer", Follower, "receive", _any_answer),
    Planted("replaced_fetch", Follower, "receive", _any_answer),
    Planted("rebooted_follower", isr, "_check_eligible", nothing),
    Planted("no_early_growth", Leader, "_may_join", _always),
    Planted("frozen_watermark", leading, "_are_enough", _always),
    Planted("replaced_disk", leadership, "_lost", _nobody),
    Planted("min_isr_change", topics, "without_elr", _nobody),
    Planted("power_cut", electing, "has_elr", lambda _image: False),
    Planted("last_leader", leadership, "_lost", _nobody),
    Planted("unclean", electing, "_unclean_leader", _first_of_all),
    Planted("fenced_leader", isr, "_check_epochs", nothing),
]


@pytest.mark.parametrize("planted", PLANTED, ids=[f"{each.name}-{each.rule}" for each in PLANTED])
def test_a_planted_mistake_shows_in_its_transcript(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    check_mistake_shows("replica", planted, ReplicaStage, monkeypatch)


@pytest.mark.parametrize("path", transcripts("replica"), ids=name_of)
def test_transcript(path: Path) -> None:
    check_transcript(path, ReplicaStage)
