"""Asking before something is done that cannot be undone: a person at a terminal; elsewhere `--yes` has to say it.

Every command that removes or overwrites what others rely on asks here, before it connects to anything.
"""

import sys
from typing import Annotated, TypeAlias

import typer

from barnabas.cli import output
from barnabas.cli.output import printable

Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Needed where there is no terminal.")]


def confirm(question: str, *, yes: bool) -> None:
    """Return if it may be done. Otherwise the command ends: with 1 if the answer is no, with 2 if nobody can answer."""
    if yes:
        return
    question = printable(question)
    if not sys.stdin.isatty():
        output.say(f"barnabas: {question} Nothing was done: there is no terminal to ask at; add --yes", error=True)
        raise typer.Exit(2)
    typer.confirm(question, abort=True, err=True)
