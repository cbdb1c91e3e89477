"""What commands print: tables for people, plain lines for pipes, JSON for programs.

Owns one rule: what came from a record or a topic cannot drive the terminal. On a terminal, control and other
unprintable characters are shown as escapes; into a pipe bytes go as they are.
"""

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def printable(data: bytes | str) -> str:
    """Text that is safe on a terminal: whatever is not printable becomes an escape such as `\\x1b`."""
    text = data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else data
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def print_json(value: Any) -> None:
    """One JSON document; ASCII only on a terminal."""
    print(json.dumps(value, indent=2, ensure_ascii=sys.stdout.isatty()))


def print_found(
    found: Sequence["DataclassInstance"], columns: Sequence[str], rows: Sequence[Sequence[object]], *, as_json: bool
) -> None:
    """What was found: all of it as JSON, or the rows made of it as a table."""
    if as_json:
        print_json([dataclasses.asdict(each) for each in found])
    else:
        print_table(columns, rows)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on a terminal, tab-separated lines elsewhere."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            print(*row, sep="\t")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for index, column in enumerate(columns):
        is_number = bool(rows) and all(isinstance(row[index], int) for row in rows)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    Console().print(table)


def warn(message: str) -> None:
    print(f"barnabas: warning: {printable(message)}", file=sys.stderr)


@contextlib.contextmanager
def quiet_end() -> Iterator[None]:
    """A stream that ends because the user or the next program in the pipe has had enough ends well."""
    with quiet_pipe():
        try:
            yield
        except KeyboardInterrupt:
            return


@contextlib.contextmanager
def quiet_pipe() -> Iterator[None]:
    """A reader of our output who has gone away is no failure; all that was printed has left at the end."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered has nowhere to go; without this Python complains when it exits.
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
