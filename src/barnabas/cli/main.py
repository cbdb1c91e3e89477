"""The ``barnabas`` command: its options, its commands and how a failure looks.

Exit codes: 0 done; 1 refused or failed, with one line on stderr; 2 wrong usage. A refusal (a
``BarnabasError``) never shows a traceback; anything else is a bug, and does.

A command imports what it needs in its own body, so that ``barnabas --help`` does not pay for a broker.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from barnabas.core.errors import BarnabasError

app = typer.Typer(
    name="barnabas",
    help="A distributed commit log and message bus that speaks the Kafka protocol.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if not asked:
        return
    from importlib.metadata import version

    typer.echo(f"barnabas {version('barnabas')}")
    raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the command as a whole; their callbacks do the work."""


@app.command()
def demo(
    orders: Annotated[int, typer.Option(min=1000, help="How many orders to append.")] = 200_000,
    seed: Annotated[int, typer.Option(help="Decides when the kill comes and what is looked up.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="Leave the logs in this directory.")] = None,
) -> None:
    """See the storage engine at work: append, kill, recover, read by id and by time."""
    from barnabas.cli.demo import run as run_demo

    run_demo(orders=orders, seed=seed, keep=keep)


def run(commands: typer.Typer, arguments: Sequence[str] | None = None) -> None:
    """Run a command line (this process's own unless ``arguments`` are given) and exit with its code."""
    try:
        commands(arguments, prog_name="barnabas")
    except BarnabasError as refusal:
        print(f"barnabas: {_one_line(refusal)}", file=sys.stderr)
        sys.exit(1)


def _one_line(refusal: BarnabasError) -> str:
    return " ".join(str(refusal).split()) or type(refusal).__name__


def main() -> None:
    run(app)


if __name__ == "__main__":
    main()
