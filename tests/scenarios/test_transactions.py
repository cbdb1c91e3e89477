"""Scenarios of transactions: `transactions/*.txt`, one for each rule of their coordinator."""

from pathlib import Path

import pytest

from barnabas.core.replica.producers import ProducerStates
from barnabas.core.transactions import ending, expiring, initialising, partitions, preparing
from barnabas.core.transactions.records import TransactionRecord
from tests.scenarios.transaction_stage import TransactionStage
from tests.scenarios.transcript import (
    Planted,
    check_mistake_shows,
    check_transcript,
    name_of,
    no_timers,
    nothing,
    transcripts,
)


def _never(*_arguments: object) -> bool:
    return False


def _always(*_arguments: object, **_named: object) -> bool:
    return True


def _no_time_left(_record: TransactionRecord, _now_ms: int) -> int:
    return 0


PLANTED = [
    Planted("commit", partitions, "check_not_prepared", nothing),
    Planted("fencing", partitions, "check_owner", nothing),
    Planted("epoch_bump", ending, "_is_retry", _never),
    Planted("init_retry", initialising, "_is_retry", _always),
    Planted("timeout", ending, "stop_timer", no_timers),
    Planted("restart", expiring, "remaining_ms", _no_time_left),
    Planted("last_epoch", preparing, "is_exhausted", _never),
    Planted("markers", ProducerStates, "check_marker", _always),
]
"""Mistakes that change a transcript."""


@pytest.mark.parametrize("planted", PLANTED, ids=[each.name for each in PLANTED])
def test_a_planted_mistake_shows_in_its_transcript(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    check_mistake_shows("transactions", planted, TransactionStage, monkeypatch)


@pytest.mark.parametrize("path", transcripts("transactions"), ids=name_of)
def test_transcript(path: Path) -> None:
    check_transcript(path, TransactionStage)
