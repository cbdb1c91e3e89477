"""What commands print: tables for people, plain lines for pipes, JSON for programs.

Owns one rule: data of a record or a topic cannot control the terminal. On a terminal, control and other unprintable
characters are shown as escapes; to a pipe, bytes are written unchanged.
"""

import contextlib
import dataclasses
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli import layout

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SLOW_S: Final = 4.0


def printable(data: bytes | str) -> str:
    """Text that is safe on a terminal: unprintable characters become escapes such as `\\x1b`."""
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
    """Print results: all of them as JSON, or rows made of them as a table."""
    if as_json:
        print_json([dataclasses.asdict(each) for each in found])
    else:
        print_table(columns, rows)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on a terminal, or a list if it is narrow; tab-separated lines elsewhere."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            print(*row, sep="\t")
        return
    width = layout.terminal_width()
    is_number = [bool(rows) and all(isinstance(row[index], int) for row in rows) for index in range(len(columns))]
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    if layout.fit_columns(columns, cells, width) is None:
        print(*layout.as_list(columns, cells, width), sep="\n")
        return
    from rich.console import Console

    Console(width=width).print(layout.render(columns, cells, is_number, width))


def say(message: str, *, error: bool = False) -> None:
    """Print a message: unchanged to a pipe; wrapped at words, with unprintable characters escaped, on a terminal."""
    stream = sys.stderr if error else sys.stdout
    if stream.isatty():
        message = "\n".join(layout.wrap(printable(message), layout.terminal_width()))
    print(message, file=stream)


def warn(message: str) -> None:
    say(f"barnabas: warning: {message}", error=True)


@contextlib.contextmanager
def said_when_slow(message: Callable[[], str]) -> Iterator[None]:
    """Print once what a command waits for, if that takes long; `message` may take some time to find out."""
    is_over = threading.Event()

    def tell() -> None:
        text = message()
        if not is_over.is_set():
            say(f"barnabas: {text}", error=True)

    timer = threading.Timer(SLOW_S, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        is_over.set()
        timer.cancel()


@contextlib.contextmanager
def quiet_end() -> Iterator[None]:
    """Treat Ctrl-C and a closed pipe as the normal end of a stream."""
    with quiet_pipe():
        try:
            yield
        except KeyboardInterrupt:
            return


@contextlib.contextmanager
def quiet_pipe() -> Iterator[None]:
    """Treat a closed pipe as success; the output is flushed at the end."""
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
