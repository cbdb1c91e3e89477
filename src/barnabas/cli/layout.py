"""How tables and sentences fit a terminal: words are never broken, however narrow it is.

A table that does not fit becomes a list, one line for each value. Output to a pipe is never wrapped; see `output`.
"""

import shutil
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

WIDE: Final = 80  # from here on, help may have its panels
_GAP: Final = 3  # between two columns, and nearly so around them


def terminal_width() -> int:
    """The width of the terminal in columns, or the value of COLUMNS."""
    return shutil.get_terminal_size().columns


def wrap(text: str, width: int, *, indent: str = "") -> list[str]:
    """A text in lines that fit, broken at spaces only; a word that is longer than a line stays whole."""
    import textwrap

    lines = textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return lines or [""]


def fit_columns(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """A width for each column; if there is little room, headings are wrapped. None if they do not fit even so."""
    for heads in ([len(column) for column in columns], [max(map(len, column.split())) for column in columns]):
        widths = [max(head, *(len(row[index]) for row in rows), 1) for index, head in enumerate(heads)]
        if sum(widths) + _GAP * len(widths) + 1 <= width:
            return widths
    return None


def as_list(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> list[str]:
    """Each row as lines of its own: `column: value`."""
    lines: list[str] = []
    for row in rows:
        if lines:
            lines.append("")
        for column, cell in zip(columns, row, strict=True):
            lines += wrap(f"{column}: {cell}", width, indent="  ")
    return lines


def render(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int, title: str | None = None
) -> "RenderableType":
    """A table if it fits, else a list; `right` says which columns are numbers."""
    from rich.text import Text

    widths = fit_columns(columns, rows, width)
    if widths is None:
        titled = [] if title is None else [*wrap(title, width), ""]
        return Text("\n".join([*titled, *as_list(columns, rows, width)]))
    return _table(columns, rows, right, widths, title)


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], widths: list[int], title: str | None
) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for column, size, is_right in zip(columns, widths, right, strict=True):
        table.add_column(column, justify="right" if is_right else "left", width=size)
    for row in rows:
        table.add_row(*map(Text, row))
    return table
