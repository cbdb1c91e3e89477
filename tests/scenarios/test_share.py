"""Scenarios of share partitions: `share/*.txt`, one for each rule of delivery."""

from pathlib import Path

import pytest

from barnabas.core.groups.settings import ShareLimits
from barnabas.core.groups.share import persisted
from barnabas.core.groups.share.partition import SharePartition
from barnabas.core.groups.share.window import Span, State
from tests.scenarios.share_stage import ShareStage
from tests.scenarios.transcript import (
    Planted,
    check_mistake_shows,
    check_transcript,
    name_of,
    nothing,
    transcripts,
)


def _keep(_self: SharePartition, _member: str, **_named: object) -> bool:
    return False


def _forget_count(self: SharePartition, span: Span, _limits: ShareLimits, _now_ms: int) -> None:
    self.window.change(span, State.AVAILABLE, count=0)


def _start_past_everything(self: SharePartition, _number: int) -> tuple[int, int]:
    return self.end_offset + 1, 0


def _archive_at_once(self: SharePartition, span: Span, _limits: ShareLimits, _now_ms: int) -> None:
    self.window.change(span, State.FINISHED)


def _always(_self: SharePartition, _limits: ShareLimits) -> bool:
    return True


def _never_with_any(self: SharePartition, limits: ShareLimits) -> bool:
    return self.window.unfinished < limits.max_locks  # as if what waits were locked


PLANTED = [
    Planted("locks", SharePartition, "release", _keep),
    Planted("limit", SharePartition, "_return", _forget_count),
    Planted("locks", SharePartition, "_check", nothing),
    Planted("fail_over", SharePartition, "_after", _start_past_everything),
    Planted("fail_over", persisted, "_check_leader", nothing),
    Planted("gaps", SharePartition, "_pass_over", nothing),
    Planted("letters", SharePartition, "_return", _archive_at_once),
    Planted("letters", SharePartition, "end_letters", nothing),
    Planted("letters_full", SharePartition, "has_room", _always),
    Planted("backoff", SharePartition, "wait_anew", nothing),
    Planted("backoff_full", SharePartition, "is_full_of_waiting", nothing),
    Planted("backoff_full", SharePartition, "has_room", _never_with_any),
]
"""Mistakes that change a transcript."""


@pytest.mark.parametrize("planted", PLANTED, ids=[f"{each.name}-{number}" for number, each in enumerate(PLANTED)])
def test_a_planted_mistake_shows_in_its_transcript(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    check_mistake_shows("share", planted, ShareStage, monkeypatch)


@pytest.mark.parametrize("path", transcripts("share"), ids=name_of)
def test_transcript(path: Path) -> None:
    check_transcript(path, ShareStage)
