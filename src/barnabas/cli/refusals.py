"""How a refusal ends a command: one line on stderr, and an exit code.

Must not import anything slow.
"""

from typing import Final

from barnabas.core.errors import BarnabasError, DataDirLost, InconsistentClusterId, InvalidConfig

WRONG_USAGE: Final = 2
EX_IOERR: Final = 74  # of sysexits.h: a supervisor that starts it again will not help before somebody looks at the disk


def say_refused(refusal: BarnabasError) -> None:
    """Print a refusal on one line."""
    from barnabas.cli import output

    one_line = " ".join(str(refusal).split()) or type(refusal).__name__
    output.say(f"barnabas: {one_line}", error=True)


def exit_code_of(refusal: BarnabasError) -> int:
    """The exit code of `serve` after a refusal."""
    if isinstance(refusal, InvalidConfig | InconsistentClusterId):
        return WRONG_USAGE
    return EX_IOERR if isinstance(refusal, DataDirLost) else 1
