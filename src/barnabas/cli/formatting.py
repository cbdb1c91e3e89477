"""How a record is printed: a format in the manner of kcat, or one JSON object per line.

Owns the format's letters. A format is parsed once, before anything is read, so that an invalid one is a usage error.
"""

import base64
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from barnabas.cli.output import printable

if TYPE_CHECKING:
    from barnabas.client import Message

Render: TypeAlias = "Callable[[Message], bytes]"

FORMAT_HELP: Final = (
    "What to print per record: %t topic, %p partition, %o offset, %k key, %v or %s value, %T timestamp in ms, "
    "%h headers, %% a percent sign; \\n, \\t, \\r and \\\\ as usual. Or: json."
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_FIELDS: "Final[dict[str, Callable[[Message], bytes | str]]]" = {
    "t": lambda message: message.topic,
    "p": lambda message: str(message.partition),
    "o": lambda message: str(message.offset),
    "k": lambda message: message.key or b"",
    "v": lambda message: message.value or b"",
    "s": lambda message: message.value or b"",
    "T": lambda message: str(message.timestamp_ms),
    "h": lambda message: b",".join(name_bytes(name) + b"=" + (value or b"") for name, value in message.headers),
}


def name_bytes(name: str) -> bytes:
    """The name of a header as it was written, which need not be UTF-8."""
    return name.encode("utf-8", "surrogateescape")


def parse_format(text: str, *, for_terminal: bool) -> Render:
    """The function that formats a record; raises ValueError if the format is invalid."""
    if text == "json":
        return lambda message: json_line(message, ascii_only=for_terminal)
    parts = _parse(text)
    show = _printable_bytes if for_terminal else _as_bytes

    def render(message: "Message") -> bytes:
        return b"".join(part if isinstance(part, bytes) else show(part(message)) for part in parts)

    return render


def _parse(text: str) -> "list[bytes | Callable[[Message], bytes | str]]":
    parts: list[bytes | Callable[[Message], bytes | str]] = []
    literal = ""
    letters = iter(text)
    for letter in letters:
        if letter == "\\":
            literal += _escaped(next(letters, ""))
        elif letter != "%":
            literal += letter
        elif (name := next(letters, "")) == "%":
            literal += "%"
        elif name in _FIELDS:
            parts += (literal.encode(), _FIELDS[name])
            literal = ""
        else:
            raise ValueError(f"%{name} is unknown in a format; use %{', %'.join(_FIELDS)} or %%")
    return [*parts, literal.encode()]


def _escaped(letter: str) -> str:
    if letter not in _ESCAPES:
        raise ValueError(f"\\{letter} is unknown in a format; use \\n, \\t, \\r or \\\\")
    return _ESCAPES[letter]


def _as_bytes(data: bytes | str) -> bytes:
    return data if isinstance(data, bytes) else data.encode()


def _printable_bytes(data: bytes | str) -> bytes:
    return printable(data).encode()


def json_line(message: "Message", *, ascii_only: bool) -> bytes:
    """One record as one line of JSON; bytes that are not UTF-8 become `key_base64` and so on."""
    row: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms,
        "timestamp_type": message.timestamp_type.name.lower(),
        **_json_field("key", message.key),
        **_json_field("value", message.value),
        "headers": [
            {**_json_field("name", name_bytes(name)), **_json_field("value", value)} for name, value in message.headers
        ],
    }
    return json.dumps(row, ensure_ascii=ascii_only).encode() + b"\n"


def _json_field(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
