"""How values look, and that what somebody wrote stays text."""

import base64
from datetime import UTC

import pytest

from barnabas.console import showing
from barnabas.console.models import Content, Record


def content(data: bytes, *, is_cut: bool = False) -> Content:
    try:
        return Content(encoding="utf8", data=data.decode(), size=len(data), is_cut=is_cut)
    except UnicodeDecodeError as error:
        why = f"not UTF-8: {error.reason}"
        return Content(encoding="base64", data=base64.b64encode(data).decode(), size=len(data), why_not_text=why)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (123_456, "123 kB"), (5e9, "5.0 GB"), (-1, "unknown")],
)
def test_sizes(number: float, text: str) -> None:
    assert showing.size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (0, "0 s"), (0.2, "< 1 s"), (61, "1 min 1 s"), (7500, "2 h 5 min"), (90_000, "1 d 1 h")],
)
def test_spans(seconds: float | None, text: str) -> None:
    assert showing.span(seconds) == text


def test_a_rate_of_nothing_is_a_dash() -> None:
    assert (showing.rate(0), showing.rate(2000)) == ("-", "2.0 kB/s")


def test_times_are_in_utc_or_in_the_zone_of_the_browser() -> None:
    at = 1_700_000_000_123
    assert showing.Times().show(at) == "2023-11-14 22:13:20.123 UTC"
    local = showing.Times.of(is_local=True, zone_name="Europe/Berlin")
    assert local.show(at) == "2023-11-14 23:13:20.123 CET"
    assert local.read("2023-11-14 23:13:20") == 1_700_000_000_000
    assert showing.ago(at, at + 90_000) == "1 min ago"


@pytest.mark.parametrize("name", ["", "Nowhere/Else", "../../etc/passwd", "/etc/passwd", "\0"])
def test_a_zone_that_nobody_knows_is_utc(name: str) -> None:
    assert showing.Times.of(is_local=True, zone_name=name).zone is UTC


def test_a_time_that_is_none_is_refused_with_an_example() -> None:
    with pytest.raises(ValueError, match="write 2026-01-31"):
        showing.Times().read("yesterday")


def test_times_beyond_the_calendar_are_shown_as_numbers() -> None:
    assert showing.Times().show(2**62) == f"{2**62} ms"


def test_json_is_laid_out_and_its_numbers_keep_their_digits() -> None:
    found = showing.as_json(content(b'{"a":[1,12345678901234567890.10],"b":{}}'))
    assert found == '{\n  "a": [\n    1,\n    12345678901234567890.10\n  ],\n  "b": {}\n}'


@pytest.mark.parametrize("data", [b"{", b"[" * 100_000, b"\xff"])
def test_what_is_no_json_says_why(data: bytes) -> None:
    assert showing.as_json(content(data)).startswith("This is no JSON: ")


def test_json_that_is_cut_asks_to_load_all() -> None:
    assert "Load all" in showing.as_json(content(b'{"a', is_cut=True))


def test_bytes_are_shown_in_rows_of_sixteen() -> None:
    rows = showing.as_hex(content(bytes(range(60, 80)))).splitlines()
    assert rows[0] == "00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK"
    assert rows[1].startswith("00000010  4c 4d 4e 4f ")


def test_what_is_no_text_says_why() -> None:
    assert "invalid start byte" in showing.as_text(content(b"\xff\x00"))


def test_control_characters_and_turned_directions_are_made_visible() -> None:
    assert showing.visible("a\x1b[31m\u202eb\tc") == "a\\u001b[31m\\u202eb\tc"


def test_a_preview_is_one_line_of_limited_length() -> None:
    assert showing.preview(None) == "null"
    assert showing.preview(content(b"")) == "(empty)"
    assert showing.preview(content(b"a\n  b")) == "a b"
    assert len(showing.preview(content(b"x" * 10_000))) < 200
    assert showing.preview(content(b"\xff\x01")) == "2 bytes: ff 01"


def test_partitions_in_a_row_are_one() -> None:
    assert showing.partitions([3, 0, 1, 2, 7]) == "0-3, 7"


def test_a_command_for_a_record_is_quoted_for_the_shell() -> None:
    record = Record(
        topic="a'; rm -rf",
        partition=0,
        offset=5,
        timestamp=0,
        timestamp_type="CreateTime",
        key=None,
        value=None,
        headers=[],
    )
    command = showing.command_for(record, "http://127.0.0.1:9644")
    assert command == "curl -s http://127.0.0.1:9644/api/v1/topics/a%27%3B%20rm%20-rf/partitions/0/records/5"
