"""What every simulation is put through: many seeds, one seed in two processes, and seeds that must notice a bug.

TEST_SEEDS says how many runs, TEST_FIRST_SEED where to begin.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.simulation.node_history import Violation

ROOT: Final = Path(__file__).parents[2]

Run = Callable[[int], tuple[Counter[str], str]]
"""One run of a seed: what happened how often, and the hash of all of it. Its module is a program that prints both."""


def seeds(default: int) -> Iterator[int]:
    """The seeds of this run: so many, or as many as TEST_SEEDS says, from TEST_FIRST_SEED on."""
    first = int(os.environ.get("TEST_FIRST_SEED", "0"))
    return iter(range(first, first + int(os.environ.get("TEST_SEEDS", default))))


def check_seeds(run: Run, *, default: int, events: Sequence[str]) -> None:
    """Run the seeds, and see that each of these events happens in half of them. The first seed gives the same run in
    another process, too.
    """
    mine = list(seeds(default=default))

    counts: Counter[str] = Counter()
    hashes: dict[int, str] = {}
    for seed in mine:
        try:
            happened, hashes[seed] = run(seed)
        except BaseException as error:
            error.add_note(f"PYTHONPATH=. python -m {run.__module__} {seed}")
            raise
        counts += happened

    print(f"{len(mine)} seeds: {dict(counts.most_common())}")
    for event in events:
        assert counts[event] >= len(mine) // 2, f"the simulation hardly sees '{event}' any more"
    assert hashes[mine[0]] == _hash_in_another_process(run, mine[0]), "the same seed gives another run"


def _hash_in_another_process(run: Run, seed: int) -> str:
    """The hash of a run in a process whose sets and dicts of strings are in another order."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT}/src", "PYTHONHASHSEED": "4711"}
    command = [sys.executable, "-m", run.__module__, str(seed)]
    other = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return other.stdout.split()[-1]


def in_turn(within: int, likely: int = 0) -> Iterable[int]:
    """So many seeds, and first the one that has noticed a planted bug before: the others only if it no longer does."""
    return sorted(range(within), key=lambda seed: seed != likely)


def check_noticed(run: Run, *, within: int, likely: int = 0) -> None:
    """See that one of so many seeds breaks a promise."""
    caught = next((found for seed in in_turn(within, likely) if (found := _caught(run, seed)) is not None), None)

    assert caught is not None, f"{within} runs did not notice"
    print(f"caught: {caught}")


def _caught(run: Run, seed: int) -> str | None:
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
