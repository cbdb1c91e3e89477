"""Help on a narrow terminal: the description of an option comes below it, and no word is broken.

On a wide one typer has panels for it; its plain help keeps a column of thirty for the options whatever the width.
"""

from typing import Any, Final

import typer

from barnabas.cli import layout

_LEAST: Final = 20
_Formatter: Any = typer.Context.formatter_class


class NarrowFormatter(_Formatter):  # type: ignore[misc]
    """Writes definitions one below the other."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.width = max(layout.terminal_width(), _LEAST)

    def write_dl(self, rows: Any, **_columns: Any) -> None:
        indent = " " * self.current_indent
        for first, second in rows:
            for line in layout.wrap(f"{indent}{first}", self.width, indent=f"{indent}  "):
                self.write(f"{line}\n")
            for line in layout.wrap(second, max(self.width - self.current_indent - 4, _LEAST)) if second else ():
                self.write(f"{indent}    {line}\n")


def use_narrow_help() -> None:
    typer.Context.formatter_class = NarrowFormatter
    for kind in typer.Context.__mro__:
        if "formatter_class" in vars(kind):
            kind.formatter_class = NarrowFormatter  # type: ignore[attr-defined]
