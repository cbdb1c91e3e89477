"""Shown messages as files."""

import csv
import io
import json

import pytest

from barnabas.console.exporting import csv_text, cut_ones, harmless, json_lines
from barnabas.console.models import Content, Header, Record


def _text(data: str, *, is_cut: bool = False) -> Content:
    return Content(encoding="utf8", data=data, size=len(data), is_cut=is_cut)


def _record(offset: int, key: Content | None, value: Content | None, *headers: Header) -> Record:
    return Record(
        topic="t",
        partition=0,
        offset=offset,
        timestamp=1000 + offset,
        timestamp_type="CreateTime",
        key=key,
        value=value,
        headers=list(headers),
    )


def test_a_line_of_json_has_all_of_a_record() -> None:
    found = [_record(0, None, _text('a "quoted"\nline')), _record(1, _text("k"), None, Header(name="h", value=None))]

    first, second = map(json.loads, json_lines(found).decode().splitlines())

    assert (first["key"], first["value"]["data"]) == (None, 'a "quoted"\nline')
    assert (second["offset"], second["headers"]) == (1, [{"name": "h", "value": None}])


def test_csv_is_read_back_as_it_was_and_tells_null_from_empty() -> None:
    binary = Content(encoding="base64", data="AAE=", size=2)
    found = [_record(0, _text(""), _text('x,"y"\nz')), _record(1, None, binary)]

    head, *rows = csv.reader(io.StringIO(csv_text(found).decode()))

    assert [row[3:7] for row in rows] == [["", "utf8", 'x,"y"\nz', "utf8"], ["", "null", "AAE=", "base64"]]
    assert head[:3] == ["partition", "offset", "timestamp"]


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_no_cell_begins_as_a_formula_does(cell: str) -> None:
    (_, row) = csv.reader(io.StringIO(csv_text([_record(0, _text(cell), _text(cell))]).decode(), newline=""))
    assert (row[3], row[5]) == (f"'{cell}", f"'{cell}")
    assert harmless("1-1") == "1-1"


def test_those_that_were_cut_are_found_also_by_their_headers() -> None:
    header = Header(name="h", value=_text("x", is_cut=True))
    found = [_record(0, None, _text("v")), _record(1, None, _text("v", is_cut=True)), _record(2, None, None, header)]
    assert cut_ones(found) == [1, 2]
