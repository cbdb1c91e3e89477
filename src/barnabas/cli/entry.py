"""The entry point of the ``barnabas`` command: importing the rest takes a moment, during which Ctrl-C must not show a
traceback.

A node is started from here, without loading the other commands and what reads their options: that takes a third of the
time in which a node is ready. Options that are not plain (help, one that is unknown, a value that is none) are for the
command as a whole, which knows what to say of them.

Must not import anything slow.
"""

import sys
from collections.abc import Sequence
from typing import Final

from barnabas.cli import signals

# The options of `serve` as they are in `main`, and what they are called in `serve.ServeOptions`.
SERVE_OPTIONS: Final = {
    "--config": "config",
    "--data-dir": "data_dir",
    "--listen": "listen",
    "--advertise": "advertise",
    "--node-id": "node_id",
    "--rack": "rack",
    "--set": "settings",
    "--processes": "processes",
    "--console": "console",
    "--console-listen": "console_listen",
}
FLAGS: Final = ("--console",)


def main() -> None:
    """Load the command and run it; from then on the command handles Ctrl-C itself."""
    signals.leave_at_once()
    given = plain_serve_options(sys.argv[1:])
    if given is not None:
        from barnabas.cli.serve import ServeOptions, serve_plainly

        sys.exit(serve_plainly(ServeOptions.of_texts(given)))
    from barnabas.cli.main import main as run

    try:
        run()
    except KeyboardInterrupt:
        sys.exit(signals.INTERRUPTED)


def plain_serve_options(arguments: Sequence[str]) -> dict[str, list[str]] | None:
    """The values of each option of `serve` on a command line; None if it is another command, or not plain."""
    if arguments[:1] != ["serve"]:
        return None
    given: dict[str, list[str]] = {}
    rest = iter(arguments[1:])
    for argument in rest:
        option, equals, value = argument.partition("=")
        name = SERVE_OPTIONS.get(option)
        if name is None or (option in FLAGS and equals):
            return None
        if not equals and option not in FLAGS:
            value = next(rest, "-")
            if value.startswith("-"):
                return None
        if name in ("node_id", "processes") and not value.isdecimal():
            return None
        given.setdefault(name, []).append(value)
    return given
