"""How a command ends when it is told to: SIGTERM is heard as Ctrl-C is, so that whatever was open is closed well.

Commands that wait for their own end (`serve`, `pipeline run`) have handlers of their own.
"""

import signal
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130  # as a shell says of a command that SIGINT ended
TERMINATED: Final = 143

_heard: list[int] = []


def hear_sigterm() -> None:
    """From now on, SIGTERM raises `KeyboardInterrupt`; for a process of its own."""
    signal.signal(signal.SIGTERM, _interrupt)


def exit_code() -> int:
    """The exit code of a command that was interrupted."""
    return TERMINATED if signal.SIGTERM in _heard else INTERRUPTED


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _heard.append(number)
    raise KeyboardInterrupt
