"""Records on a terminal: nothing in them may drive it."""

import json

import pytest

from barnabas.cli.formatting import json_line, parse_format
from barnabas.cli.output import printable
from barnabas.client import Message
from barnabas.core.records.batch import TimestampType


def message(value: bytes | None, key: bytes | None = None) -> Message:
    return Message("t", 0, 0, 0, TimestampType.CREATE_TIME, key, value)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain", "plain"),
        ("grüße 🎉", "grüße 🎉"),
        (b"\x1b[2J", r"\x1b[2J"),
        (b"a\nb\tc", r"a\nb\tc"),
        (b"\xff", r"\xff"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u202eb", r"a\u202eb"),
    ],
)
def test_unprintable_characters_are_shown_as_escapes(data: bytes | str, shown: str) -> None:
    assert printable(data) == shown


def test_only_what_came_from_the_record_is_escaped() -> None:
    render = parse_format(r"%k\t%v\n", for_terminal=True)

    assert render(message(b"\x07\n", b"k\r")) == b"k\\r\t\\x07\\n\n"


def test_null_is_printed_as_nothing_and_in_json_as_null() -> None:
    assert parse_format("[%k|%v]", for_terminal=False)(message(None)) == b"[|]"
    assert json.loads(json_line(message(None), ascii_only=True))["value"] is None


def test_json_for_a_terminal_is_ascii() -> None:
    assert json_line(message("\x9bü".encode()), ascii_only=True).isascii()
    assert "ü".encode() in json_line(message("ü".encode()), ascii_only=False)
