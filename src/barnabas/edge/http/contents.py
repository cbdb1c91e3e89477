"""Records as the API shows them: bytes as text with their encoding named, cut where they are long.

What is in a record is up to whoever wrote it. It leaves here as a JSON string or as base64, never as markup, and its
parsed JSON never becomes keys of ours.
"""

import base64
from typing import Final, Literal
from urllib.parse import quote

import msgspec

from barnabas.edge.http import models
from barnabas.services.browsing import Found

CUT_BYTES: Final = 20_000
Form = Literal["auto", "base64", "hex"]


def record_of(
    topic: str, found: Found, *, form: Form, is_full: bool = False, has_content: bool = True
) -> models.Record:
    """A record as it is answered."""
    record, partition = found.record, found.partition
    most = None if is_full else CUT_BYTES
    return models.Record(
        topic=topic,
        partition=partition,
        offset=record.offset,
        timestamp=record.timestamp,
        timestamp_type="LogAppendTime" if found.is_log_append_time else "CreateTime",
        key=content_of(record.key, form, most=most, has_content=has_content),
        value=content_of(record.value, form, most=most, has_content=has_content),
        headers=[
            models.Header(name=_name(name), value=content_of(value, form, most=most, has_content=has_content))
            for name, value in record.headers
        ],
        href=f"/api/v1/topics/{quote(topic, safe='')}/partitions/{partition}/records/{record.offset}",
    )


def content_of(
    data: bytes | None, form: Form, *, most: int | None = CUT_BYTES, has_content: bool = True
) -> models.Content | None:
    """Bytes as text: as UTF-8 if they are that, else as base64 with the reason why."""
    if data is None:
        return None
    size = len(data)
    if not has_content:
        return models.Content(encoding="utf8", data="", size=size, is_cut=size > 0)
    is_cut = most is not None and size > most
    shown = data[:most] if is_cut else data
    if form == "hex":
        return models.Content(encoding="hex", data=shown.hex(), size=size, is_cut=is_cut)
    why = "base64 was asked for" if form == "base64" else None
    if why is None:
        try:
            text = shown.decode() if not is_cut else _decoded_start(shown)
        except UnicodeDecodeError as error:
            why = f"not UTF-8: {error.reason} at byte {error.start}"
        else:
            return models.Content(
                encoding="utf8", data=text, size=size, is_cut=is_cut, is_json=not is_cut and _is_json(shown)
            )
    encoded = base64.b64encode(shown).decode()
    return models.Content(encoding="base64", data=encoded, size=size, is_cut=is_cut, why_not_text=why)


def _decoded_start(data: bytes) -> str:
    """The text of bytes that were cut, perhaps within a letter."""
    for end in range(len(data), len(data) - 4, -1):
        try:
            return data[:end].decode()
        except UnicodeDecodeError as error:
            if error.start < len(data) - 4:
                raise
    return data.decode()


def _is_json(data: bytes) -> bool:
    if not data[:1].strip() or data[:1] not in b'{["0123456789-tfn':
        return False
    try:
        msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _name(name: str) -> str:
    """The name of a header, which may be no Unicode text at all."""
    return name.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def bytes_of(text: str | None, encoding: str) -> bytes | None:
    """What a client sends as bytes; a `ValueError` if it is not what it says."""
    if text is None:
        return None
    return base64.b64decode(text, validate=True) if encoding == "base64" else text.encode()
