"""The entry point of the ``barnabas`` command: importing the rest takes a moment, during which Ctrl-C must not show a
traceback.

Must not import anything slow.
"""

import sys

from barnabas.cli import signals


def main() -> None:
    """Load the command and run it; from then on the command handles Ctrl-C itself."""
    signals.leave_at_once()
    from barnabas.cli.main import main as run

    try:
        run()
    except KeyboardInterrupt:
        sys.exit(signals.INTERRUPTED)
