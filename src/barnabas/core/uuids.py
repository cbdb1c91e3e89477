"""Ids in Kafka's text form, as shown and stored in files: 16 bytes in the URL-safe form of Base64, without padding."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from uuid import UUID

_LETTERS: Final = 22


def id_text(number: UUID) -> str:
    """An id in 22 letters."""
    return urlsafe_b64encode(number.bytes).decode().rstrip("=")


def parse_id(text: str) -> UUID:
    """Parse an id of 22 letters; `ValueError` if they are not one."""
    try:
        number = UUID(bytes=urlsafe_b64decode(f"{text}=="))
    except (binascii.Error, ValueError):
        raise ValueError(f"{text!r} is not an id of {_LETTERS} letters") from None
    if id_text(number) != text:
        raise ValueError(f"{text!r} is not an id of {_LETTERS} letters")
    return number
