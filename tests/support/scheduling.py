"""How tests are given to processes: what is short many at a time, whatever may be long one by one.

Of `--dist loadgroup` every test that is in no group is given out by itself: for each of thousands of tests that take
milliseconds a process asks for another, and each process goes through nearly every file, with what is made once for a
file and the look for garbage at its end. Tests of a unit are given out as they follow each other in their file, some
dozens at a time: few enough that no process has much left when the others are done.
"""

import itertools
from collections.abc import Iterable
from typing import Final

from xdist.scheduler import LoadGroupScheduling

SHORT: Final = ("tests/unit/", "tests/conformance/records/", "tests/scenarios/")
_AT_A_TIME: Final = 40


class Handfuls(LoadGroupScheduling):  # type: ignore[misc] # xdist has no types
    """Groups as they are, and short tests by the handful."""

    _handfuls: dict[str, str] | None = None

    def schedule(self) -> None:
        if self._handfuls is None:
            self._handfuls = handfuls(next(iter(self.registered_collections.values())))
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return (self._handfuls or {}).get(nodeid) or super()._split_scope(nodeid)


def handfuls(ids: Iterable[str]) -> dict[str, str]:
    """The handful that each short test is in, by its id; those in a group are in none."""
    found: dict[str, str] = {}
    for file, tests in itertools.groupby(ids, key=lambda each: each.partition("::")[0]):
        if file.startswith(SHORT):
            alone = [each for each in tests if each.rfind("@") <= each.rfind("]")]
            found |= {each: f"{file} from {place - place % _AT_A_TIME} on" for place, each in enumerate(alone)}
    return found
