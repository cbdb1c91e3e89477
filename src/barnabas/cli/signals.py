"""How a command ends when it is told to: SIGTERM is heard as Ctrl-C is, so that whatever was open is closed well.

Commands that wait for their own end (`serve`, `pipeline run`) have handlers of their own once they wait. Until then
`serve` ends at once, by no exception: Python drops what a handler raises inside a callback, such as those of its import
locks, and a node that was told to stop would serve on.

Must not import anything of weight.
"""

import os
import signal
import sys
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130  # as a shell says of a command that SIGINT ended
TERMINATED: Final = 143

_heard: list[int] = []


def leave_at_once() -> None:
    """From now on Ctrl-C, and SIGTERM when it is to be heard, end this process: nothing that was begun has to be ended.

    A node that ends because it was told to has done what it should.
    """
    signal.signal(signal.SIGINT, _leave)
    if _is_serving():
        signal.signal(signal.SIGTERM, _leave)


def hear() -> None:
    """From now on SIGTERM raises `KeyboardInterrupt`, as Ctrl-C does; for a process of its own."""
    if _is_serving():
        leave_at_once()
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)


def exit_code() -> int:
    """The exit code of a command that was interrupted."""
    return TERMINATED if signal.SIGTERM in _heard else INTERRUPTED


def _is_serving() -> bool:
    return sys.argv[1:2] == ["serve"]


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0 if _is_serving() else INTERRUPTED)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _heard.append(number)
    raise KeyboardInterrupt
