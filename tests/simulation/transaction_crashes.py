"""Power cuts at the moments that count in the end of a transaction, one for each state of its coordinator.

`install` has the node pass these points; the one that is armed is the node's last.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from barnabas.core.transactions.records import TransactionEntry
from barnabas.runtime.partition import Partition
from barnabas.runtime.transaction_coordinator import TransactionCoordinator
from barnabas.services import markers as services
from barnabas.services.markers import Markers

PREPARING: Final = "preparing"  # decided, and not written
PREPARED: Final = "prepared"  # written, and not synced
DECIDED: Final = "decided"  # synced, and no marker is written
MARKING: Final = "marking"  # one marker is written, and not synced
SYNCING: Final = "syncing"  # all markers are written; some are synced, perhaps
COMPLETING: Final = "completing"  # all markers are synced, and the completion is not written
COMPLETED: Final = "completed"  # written, and not synced

POINTS: Final = (PREPARING, PREPARED, DECIDED, MARKING, SYNCING, COMPLETING, COMPLETED)


class CrashPoints:
    """Which point the node does not pass."""

    armed: str | None = None
    crash: Callable[[], None]

    def reach(self, point: str) -> None:
        if point == self.armed:
            self.armed = None
            self.crash()


POINTS_OF_NODE: Final = CrashPoints()


def install(patch: pytest.MonkeyPatch) -> None:
    """Have the node pass the points."""
    reach = POINTS_OF_NODE.reach
    append, write, append_marker = TransactionCoordinator._append, Markers.write, Markers._append
    wait_acked = services.wait_acked

    def append_entries(to: TransactionCoordinator, entries: Sequence[TransactionEntry], within: Any) -> None:
        states = [state for entry in entries if (state := getattr(entry, "state", None)) is not None]
        is_prepared, is_complete = (any(check) for check in _kinds(states))
        if is_prepared:
            reach(PREPARING)
        if is_complete:
            reach(COMPLETING)
        append(to, entries, within)
        if is_prepared:
            reach(PREPARED)
        if is_complete:
            reach(COMPLETED)

    async def write_markers(markers: Markers, end: Any, names: Any) -> Any:
        reach(DECIDED)
        return await write(markers, end, names)

    def append_one(markers: Markers, end: Any, name: Any) -> tuple[Partition, int, int]:
        appended = append_marker(markers, end, name)
        reach(MARKING)
        return appended

    async def wait(partition: Partition, end_offset: int, *, leader_epoch: int, give_up_at: float) -> None:
        reach(SYNCING)
        await wait_acked(partition, end_offset, leader_epoch=leader_epoch, give_up_at=give_up_at)

    patch.setattr(TransactionCoordinator, "_append", append_entries)
    patch.setattr(Markers, "write", write_markers)
    patch.setattr(Markers, "_append", append_one)
    patch.setattr(services, "wait_acked", wait)


def _kinds(states: Sequence[Any]) -> tuple[list[bool], list[bool]]:
    return [state.is_prepared for state in states], [state.is_complete for state in states]
