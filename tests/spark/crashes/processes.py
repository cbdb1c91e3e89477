"""Processes, by what the system says of them."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

TIMEOUT_S: Final = 300.0
_POLL_S: Final = 0.05
_NONE: Final = ("", 0, 0)


def wait_for(
    what: str, condition: Callable[[], Any], more: Callable[[], str] = lambda: "", *, poll_s: float = _POLL_S
) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {TIMEOUT_S:.0f} s for {what}{more()}"
        time.sleep(poll_s)


def is_running(pid: int) -> bool:
    return _read(pid)[0] not in ("", "Z")


def processes_of(driver: int) -> set[int]:
    """The processes of a driver's session that still run, and those of the sessions that they have begun: Java has one
    of its own.
    """
    pids = {int(directory.name) for directory in Path("/proc").iterdir() if directory.name.isdecimal()}
    found = {pid: _read(pid) for pid in pids}
    sessions = {driver}
    while (
        begun := {
            pid
            for pid, (_, parent, session) in found.items()
            if session == pid and found.get(parent, _NONE)[2] in sessions
        }
        - sessions
    ):
        sessions |= begun
    return {pid for pid, (state, _, session) in found.items() if session in sessions and state != "Z"}


def kill_all_of(driver: int, *, but: set[int] | None = None) -> None:
    """SIGKILL to all processes of a driver but some, and wait until they are gone."""
    spared = but or set()
    known: set[int] = set()  # also when the one that has begun their session is gone

    def are_gone() -> bool:
        known.update(processes_of(driver))
        left = {pid for pid in known if is_running(pid)} - spared
        for pid in sorted(left):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not left

    wait_for("processes to end", are_gone)


def _read(pid: int) -> tuple[str, int, int]:
    """State, parent and session of a process."""
    try:
        state, parent, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
        return state, int(parent), int(session)
    except (OSError, ValueError):  # it has just ended
        return _NONE
