"""Asking for confirmation before something that cannot be undone: at a terminal; elsewhere `--yes` is required.

Every command that removes or overwrites what others rely on asks here, before it connects to anything.
"""

import sys
from typing import Annotated, TypeAlias

import typer

from barnabas.cli import output
from barnabas.cli.output import printable

Yes: TypeAlias = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required without a terminal.")
]


def confirm(question: str, *, yes: bool) -> None:
    """Return if the answer is yes. Otherwise exit: with 1 if the answer is no, with 2 if there is no terminal."""
    if yes:
        return
    question = printable(question)
    if not sys.stdin.isatty():
        output.say(f"barnabas: {question} Nothing was done: there is no terminal to confirm at; use --yes", error=True)
        raise typer.Exit(2)
    typer.confirm(question, abort=True, err=True)
