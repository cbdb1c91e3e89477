"""Processes, by what the system says of them."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

TIMEOUT_S: Final = 300.0
_POLL_S: Final = 0.05


def wait_for(
    what: str, condition: Callable[[], Any], more: Callable[[], str] = lambda: "", *, poll_s: float = _POLL_S
) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {TIMEOUT_S:.0f} s for {what}{more()}"
        time.sleep(poll_s)


def is_running(pid: int) -> bool:
    return _state_and_session(pid)[0] not in ("", "Z")


def processes_of_session(session_id: int) -> set[int]:
    """The processes of a session that still run."""
    pids = {int(directory.name) for directory in Path("/proc").iterdir() if directory.name.isdecimal()}
    found = {pid: _state_and_session(pid) for pid in pids}
    return {pid for pid, (state, session) in found.items() if session == session_id and state != "Z"}


def kill_session(session_id: int, *, but: set[int] | None = None) -> None:
    """SIGKILL to all of a session but some, and wait until they are gone."""
    spared = but or set()

    def are_gone() -> bool:
        left = processes_of_session(session_id) - spared
        for pid in sorted(left):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not left

    wait_for("processes to end", are_gone)


def _state_and_session(pid: int) -> tuple[str, int]:
    try:
        state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
        return state, int(session)
    except (OSError, ValueError):  # it has just ended
        return "", 0
