"""How a command ends at a signal: SIGTERM is handled as Ctrl-C is, so that everything open is closed properly.

Commands that run until stopped (`serve`, `pipeline run`) install their own handlers once they run. Until then `serve`
exits at once, without an exception: Python drops an exception that a handler raises inside a callback, such as those of
its import locks, and the node would go on serving. Must not import anything slow.
"""

import os
import signal
import sys
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130  # as a shell says of a command that SIGINT ended
TERMINATED: Final = 143

_received: list[int] = []


def leave_at_once() -> None:
    """From now on Ctrl-C, and SIGTERM for `serve`, exit this process at once: nothing needs to be cleaned up.

    For a node this is success: it did what it was told.
    """
    signal.signal(signal.SIGINT, _leave)
    if _is_serving():
        signal.signal(signal.SIGTERM, _leave)


def interrupt_at_sigterm() -> None:
    """From now on SIGTERM raises `KeyboardInterrupt`, as Ctrl-C does. `serve` exits at once instead."""
    if _is_serving():
        leave_at_once()
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)


def exit_code() -> int:
    """The exit code of a command that was interrupted."""
    return TERMINATED if signal.SIGTERM in _received else INTERRUPTED


def _is_serving() -> bool:
    return sys.argv[1:2] == ["serve"]


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0 if _is_serving() else INTERRUPTED)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _received.append(number)
    raise KeyboardInterrupt
