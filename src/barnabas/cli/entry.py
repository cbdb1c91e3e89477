"""Where the ``barnabas`` command begins: importing all of it takes a moment, in which Ctrl-C must not show a traceback.

Must not import anything of weight.
"""

import sys

from barnabas.cli import signals


def main() -> None:
    """Load the command and run it; from then on it hears Ctrl-C by itself."""
    signals.leave_at_once()
    from barnabas.cli.main import main as run

    try:
        run()
    except KeyboardInterrupt:
        sys.exit(signals.INTERRUPTED)
