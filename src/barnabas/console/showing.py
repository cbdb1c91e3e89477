"""How values look: sizes, rates, times, and the bytes of records as text, JSON or hex. Pure; the result is plain text,
and no page takes it for markup.
"""

import base64
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final
from urllib.parse import quote
from zoneinfo import ZoneInfo

from barnabas.console.models import Content, Record

UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
PREVIEW: Final = 160
HEX_ROW: Final = 16
MAX_PRETTY: Final = 200_000
MAX_HEX: Final = 64 * 1024


def size(number: float) -> str:
    """Bytes for people: 1.2 MB."""
    if number < 0:
        return "unknown"
    for unit in UNITS[:-1]:
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} {UNITS[-1]}"


def rate(number: float) -> str:
    """Bytes per second; nothing much is a dash."""
    return f"{size(number)}/s" if number >= 0.5 else "-"


def count(number: int | None) -> str:
    """A number with thin groups: 1 234 567; what is not known is a question mark."""
    return "?" if number is None else f"{number:,}".replace(",", "\u202f")


def span(seconds: float | None, *, units: int = 2) -> str:
    """A span of time in its largest units: 2 h 5 min."""
    if seconds is None:
        return "?"
    if seconds < 1:
        return "0 s" if seconds <= 0 else "< 1 s"
    left = int(seconds)
    parts = []
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, length)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:units])


@dataclass(frozen=True, slots=True)
class Times:
    """Shows times in one zone: UTC, or that of the browser."""

    is_local: bool = False
    zone: tzinfo = UTC

    @classmethod
    def of(cls, *, is_local: bool, zone_name: str) -> "Times":
        """In a zone that the browser names; UTC if nobody knows it."""
        try:
            return cls(is_local, ZoneInfo(zone_name) if is_local and zone_name else UTC)
        except (KeyError, OSError, ValueError):
            return cls(is_local, UTC)

    def show(self, timestamp_ms: int) -> str:
        """A time to the millisecond, with its zone."""
        if timestamp_ms < 0:
            return "none"
        try:
            at = datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone(self.zone)
        except (OverflowError, ValueError, OSError):
            return f"{timestamp_ms} ms"
        return f"{at:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d} {at.tzname()}"

    def clock(self, timestamp_ms: float) -> str:
        """Only the hour and minute, for the axis of a chart."""
        return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone(self.zone):%H:%M:%S}"

    def read(self, text: str) -> int:
        """Milliseconds of a time as people write it, in this zone; a `ValueError` says what is wrong."""
        text = text.strip()
        if text.isdecimal():
            return int(text)
        try:
            at = datetime.fromisoformat(text.removesuffix("UTC").strip())
        except ValueError:
            raise ValueError(f"'{text}' is no time; write 2026-01-31 18:30:00, or milliseconds since 1970") from None
        return round((at if at.tzinfo else at.replace(tzinfo=self.zone)).timestamp() * 1000)


def ago(timestamp_ms: int, now_ms: float) -> str:
    """How long ago it was."""
    return "" if timestamp_ms < 0 else f"{span(max(now_ms - timestamp_ms, 0) / 1000, units=1)} ago"


def raw(content: Content) -> bytes:
    """The bytes, or the start of them."""
    if content.encoding == "hex":
        return bytes.fromhex(content.data)
    return base64.b64decode(content.data) if content.encoding == "base64" else content.data.encode()


def preview(content: Content | None) -> str:
    """One line of it."""
    if content is None:
        return "null"
    if content.size == 0:
        return "(empty)"
    if content.encoding != "utf8":
        return f"{content.size} bytes: {raw(content)[:24].hex(' ')}{' …' if content.size > 24 else ''}"
    line = visible(" ".join(content.data[: PREVIEW * 2].split()))
    return line[:PREVIEW] + " …" if len(line) > PREVIEW or content.is_cut else line


def visible(text: str) -> str:
    """The text with its control characters, and those that turn its direction, made visible."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else f"\\u{ord(letter):04x}" for letter in text)


def as_text(content: Content) -> str:
    """As text; what is none says why."""
    if content.encoding == "utf8":
        return visible(content.data)
    return f"This is no text ({content.why_not_text or 'it was asked for in bytes'}). Look at it in hex."


def as_json(content: Content) -> str:
    """As JSON with a line for each member; what is none says why."""
    if content.encoding != "utf8":
        return f"This is no JSON: {content.why_not_text or 'it is not text'}."
    if content.is_cut:
        return "Only the start of it is here, and that is no whole JSON. Load all of it first."
    if len(content.data) > MAX_PRETTY:
        return f"It is longer than {size(MAX_PRETTY)}: look at it as text."
    try:
        # Numbers are kept as they are written: a large one must not lose its last digits.
        found = json.loads(content.data, parse_int=_Digits, parse_float=_Digits)
        return visible(_pretty(found))
    except (ValueError, RecursionError) as error:
        return f"This is no JSON: {error}."


class _Digits(str):
    """A number as it is written."""

    __slots__ = ()


def _pretty(value: object, indent: str = "") -> str:
    deeper = indent + "  "
    if isinstance(value, dict):
        if not value:
            return "{}"
        lines = [
            f"{deeper}{json.dumps(key, ensure_ascii=False)}: {_pretty(each, deeper)}" for key, each in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list):
        if not value:
            return "[]"
        return "[\n" + ",\n".join(deeper + _pretty(each, deeper) for each in value) + f"\n{indent}]"
    return str(value) if isinstance(value, _Digits) else json.dumps(value, ensure_ascii=False)


def as_hex(content: Content) -> str:
    """As rows of sixteen bytes, with what is printable of them."""
    data = raw(content)
    rows = []
    for at in range(0, min(len(data), MAX_HEX), HEX_ROW):
        row = data[at : at + HEX_ROW]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{at:08x}  {row.hex(' '):<47}  {letters}")
    if len(data) > MAX_HEX:
        rows.append(f"… {size(len(data) - MAX_HEX)} more")
    return "\n".join(rows)


def partitions(numbers: Sequence[int]) -> str:
    """Numbers of partitions, those in a row as one: 0-3, 7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def command_for(record: Record, api_url: str) -> str:
    """A command line that fetches this record."""
    path = f"/api/v1/topics/{quote(record.topic, safe='')}/partitions/{record.partition}/records/{record.offset}"
    return f"curl -s {shlex.quote(api_url + path)}"
