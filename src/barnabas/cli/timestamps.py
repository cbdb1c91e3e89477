"""Timestamps on the command line."""

from datetime import datetime

import typer


def parse_timestamp(text: str, option: str = "--timestamp") -> int:
    """Milliseconds since 1970, from that number itself or from an ISO 8601 time."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise typer.BadParameter(
            f"{text!r} is neither milliseconds since 1970 nor ISO 8601", param_hint=option
        ) from None
