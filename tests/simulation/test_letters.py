"""Dead letters of a share group on a whole node, through crashes: what was rejected has its letter.

TEST_SEEDS says how many runs, TEST_FIRST_SEED where to begin, as for the other machines here. One run alone:
PYTHONPATH=. python -m tests.simulation.letter_support SEED
"""

from collections.abc import Callable

import pytest

from barnabas.core.groups.share import partition
from barnabas.core.groups.share.window import Persisted, State
from tests.simulation.letter_support import run
from tests.simulation.seeded import check_noticed, check_seeds

SEEDS = 2
PLANTED_SEEDS = 10

pytestmark = pytest.mark.usefixtures("_quiet")


def test_every_rejected_job_has_its_letter_and_no_other_has_one() -> None:
    check_seeds(run, default=SEEDS, events=("acknowledged", "again", "crash at an answer", "done", "letter"))


# Planted bugs


def forget_letters_over_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition, "_LOADED", {Persisted.AVAILABLE: State.AVAILABLE})


def deliver_again_what_waits_for_its_letter(patch: pytest.MonkeyPatch) -> None:
    loaded = {Persisted.AVAILABLE: State.AVAILABLE, Persisted.ARCHIVING: State.AVAILABLE}
    patch.setattr(partition, "_LOADED", loaded)


@pytest.mark.parametrize(
    "plant",
    [forget_letters_over_a_restart, deliver_again_what_waits_for_its_letter],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_noticed(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    check_noticed(run, within=PLANTED_SEEDS)
