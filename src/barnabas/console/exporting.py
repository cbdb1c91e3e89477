"""Shown messages as a file: JSON lines, or CSV whose cells no spreadsheet takes for formulas. Pure."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from barnabas.console.models import Content, Record

HEAD: Final = ("partition", "offset", "timestamp", "key", "key_encoding", "value", "value_encoding", "headers")
_BEGIN_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def json_lines(records: Iterable[Record]) -> bytes:
    """Each record as the API tells it, in a line."""
    return b"".join(msgspec.json.encode(each) + b"\n" for each in records)


def csv_text(records: Iterable[Record]) -> bytes:
    """A line for each record; bytes that are no text are in base64, which the column beside them says."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\r\n")  # cells with either of the two are quoted, and begin no row
    lines.writerow(HEAD)
    for each in records:
        headers = msgspec.json.encode(each.headers).decode() if each.headers else ""
        cells = [*_cells(each.key), *_cells(each.value), headers]
        lines.writerow([each.partition, each.offset, each.timestamp, *map(harmless, cells)])
    return out.getvalue().encode()


def harmless(cell: str) -> str:
    """The text, with a quote before it if it begins as a formula does."""
    return f"'{cell}" if cell.startswith(_BEGIN_FORMULAS) else cell


def _cells(content: Content | None) -> tuple[str, str]:
    return ("", "null") if content is None else (content.data, content.encoding)


def cut_ones(records: Sequence[Record]) -> list[int]:
    """Which of these have only the start of a key, a value or a header."""
    return [at for at, each in enumerate(records) if any(part is not None and part.is_cut for part in _parts(each))]


def _parts(record: Record) -> list[Content | None]:
    return [record.key, record.value, *(header.value for header in record.headers)]
