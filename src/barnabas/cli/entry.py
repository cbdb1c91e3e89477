"""Where the ``barnabas`` command begins: importing all of it takes a moment, in which Ctrl-C must not show a traceback.

Must not import anything of weight.
"""

import os
import signal
import sys
from types import FrameType

_INTERRUPTED = 130  # as a shell says of a command that SIGINT ended


def main() -> None:
    """Load the command and run it; from then on it hears Ctrl-C by itself."""
    signal.signal(signal.SIGINT, _leave)
    from barnabas.cli.main import main as run

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)  # nothing was begun that would have to be ended
