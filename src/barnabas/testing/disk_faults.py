"""The faults injected into a simulated disk: which call fails, how often, and with what error.

Owns the bookkeeping of injected faults. The first armed fault that matches a path is the one that strikes; it
is spent after `count` strikes, and `count=None` never ends.

Must not know: what a failure does to the bytes.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from barnabas.testing.disk_pages import Keep

Matching: TypeAlias = Callable[[str], bool]


def any_path(_path: str) -> bool:
    """Matches everything."""
    return True


@dataclass(slots=True)
class Fault:
    """One armed fault."""

    matching: Matching
    count: int | None
    error: int
    room: int = 0  # writes: how many bytes still fit
    keep: Keep = Keep.NOTHING  # syncs: what reaches the platter all the same

    def on(self, path: str) -> OSError:
        """The error to raise; one strike is spent."""
        if self.count is not None:
            self.count -= 1
        return OSError(self.error, os.strerror(self.error), path)


@dataclass(slots=True)
class Faults:
    """The armed faults, by the kind of call they strike."""

    reads: list[Fault] = field(default_factory=list)
    writes: list[Fault] = field(default_factory=list)
    syncs: list[Fault] = field(default_factory=list)
    opens: list[Fault] = field(default_factory=list)
    creates: list[Fault] = field(default_factory=list)
    renames: list[Fault] = field(default_factory=list)

    def clear(self) -> None:
        self.reads.clear()
        self.writes.clear()
        self.syncs.clear()
        self.opens.clear()
        self.creates.clear()
        self.renames.clear()


def find_fault(faults: list[Fault], path: str) -> Fault | None:
    """The armed fault that matches the path."""
    for fault in faults:
        if fault.count != 0 and fault.matching(path):
            return fault
    return None
