"""Processes of this machine by their id and the moment they began: a process id alone may by now be another's.

Nothing here signals a process that is not the very one that was started.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

POLL_S: Final = 0.02
_PROC: Final = Path("/proc")
_BOOT_ID: Final = _PROC / "sys/kernel/random/boot_id"
_HAS_PIDFD: Final = sys.platform == "linux" and hasattr(os, "pidfd_open")


class Condition(Enum):
    """What a process does."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class ProcessKey(msgspec.Struct, frozen=True):
    """One process, and no other that gets its id later."""

    pid: int
    began: str
    """When it began, in the words of the operating system."""

    @classmethod
    def of(cls, pid: int) -> "ProcessKey | None":
        """The process that has this id now; None if there is none, or if it has ended and nobody took note."""
        found = _look(pid)
        return None if found is None else cls(pid, found[1])

    @property
    def condition(self) -> Condition:
        found = _look(self.pid)
        if found is None or found[1] != self.began:
            return Condition.STOPPED
        return Condition.PAUSED if found[0] in "Tt" else Condition.RUNNING

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; False if the process is gone."""
        with contextlib.suppress(ProcessLookupError):
            if not _HAS_PIDFD:
                if self.condition is Condition.STOPPED:
                    return False
                os.kill(self.pid, number)
                return True
            handle = os.pidfd_open(self.pid)  # from here on it is this process, even if it ends
            try:
                if self.condition is Condition.STOPPED:
                    return False
                signal.pidfd_send_signal(handle, number)
                return True
            finally:
                os.close(handle)
        return False

    def wait_gone(self, timeout_s: float) -> bool:
        """Whether the process has ended in time."""
        deadline = time.monotonic() + timeout_s
        while self.condition is not Condition.STOPPED:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def end(self, grace_s: float) -> None:
        """Have it stop cleanly, also if it is paused; kill it if it takes too long."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)
        if not self.wait_gone(grace_s):
            self.kill()

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.wait_gone(timeout_s=10)


def _look(pid: int) -> tuple[str, str] | None:
    """The state of a process, in one letter, and when it began. None if it has ended."""
    found = _look_in_proc(pid) if _PROC.joinpath("self/stat").exists() else _look_with_ps(pid)
    return None if found is None or found[0] in "ZX" else found


def _look_in_proc(pid: int) -> tuple[str, str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may contain anything
    boot = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
    return fields[0], f"{boot}:{fields[19]}"


def _look_with_ps(pid: int) -> tuple[str, str] | None:
    asked = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    state, _, began = asked.partition(" ")
    return (state[0], began.strip()) if state else None
