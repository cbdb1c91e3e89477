"""A share group on a whole node, through crashes, kills and resets: what workers were told stays true.

TEST_SEEDS says how many runs, TEST_FIRST_SEED where to begin, as for the other machines here. One run alone:
PYTHONPATH=. python -m tests.simulation.share_support SEED
"""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from barnabas.core.groups.share import persisted
from barnabas.core.groups.share.partition import SharePartition, StateBatch
from barnabas.services.led_shares import LedShare
from tests.simulation.seeded import check_noticed, check_seeds
from tests.simulation.share_support import run

SEEDS = 4
PLANTED_SEEDS = 10

pytestmark = pytest.mark.usefixtures("_quiet")


def test_no_job_is_lost_and_none_that_was_acknowledged_comes_back() -> None:
    check_seeds(
        run,
        default=SEEDS,
        events=(
            "acknowledged",
            "again",
            "crash at an answer",
            "delivered",
            "done",
            "hang",
            "late write",
            "leave",
            "refused",
        ),
    )


# Planted bugs


def answer_before_the_write(patch: pytest.MonkeyPatch) -> None:
    acknowledge = LedShare.acknowledge

    def acknowledge_at_once(led: LedShare, *arguments: Any) -> None:
        acknowledge(led, *arguments)

    patch.setattr(LedShare, "acknowledge", acknowledge_at_once)


def start_past_what_is_not_done(patch: pytest.MonkeyPatch) -> None:
    after = SharePartition._after

    def too_far(partition: SharePartition, number: int) -> tuple[int, int]:
        start, complete = after(partition, number)
        return min(start + 1, partition.end_offset + 1), complete

    patch.setattr(SharePartition, "_after", too_far)


def keep_locks_of_sessions_that_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "_give_back", lambda *_arguments: False)


def let_the_last_write_count(patch: pytest.MonkeyPatch) -> None:
    def merge(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
        last = {offset: each for each in batches for offset in range(max(each.first, start_offset), each.last + 1)}
        return tuple(each._replace(first=offset, last=offset) for offset, each in sorted(last.items()))

    patch.setattr(persisted, "merge_batches", merge)


@pytest.mark.parametrize(
    "plant",
    [
        answer_before_the_write,
        start_past_what_is_not_done,
        keep_locks_of_sessions_that_end,
        let_the_last_write_count,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_noticed(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    check_noticed(run, within=PLANTED_SEEDS, likely=3 if plant is let_the_last_write_count else 0)
