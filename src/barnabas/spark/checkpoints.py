"""What Spark's checkpoint of a query says of a batch, where it is a directory that can be read from here."""

import hashlib
import json
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_HEAD_LINES: Final = 2  # the version of the log, and the time and settings of the run: not what is read
_DIGEST_BYTES: Final = 16


def source_digest(checkpoint: str | None, batch_id: int) -> str:
    """A digest of what a batch reads; nothing where the checkpoint is not a directory of this machine."""
    directory = _local(checkpoint)
    if directory is None:
        return ""
    try:
        offsets = (directory / "offsets" / str(batch_id)).read_text().splitlines()[_HEAD_LINES:]
        parts = [part for number, offset in enumerate(offsets) for part in (offset, *_files(directory, number, offset))]
    except (OSError, ValueError):
        return ""
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _local(checkpoint: str | None) -> Path | None:
    if not checkpoint:
        return None
    parts = urlsplit(checkpoint)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path) if parts.scheme else checkpoint)


def _files(directory: Path, source: int, offset: str) -> list[str]:
    """Of a source of files, the names of those that the offset stands for, as it has written them down."""
    about = json.loads(offset) if offset.startswith("{") else None
    number = about.get("logOffset") if isinstance(about, dict) else None
    if number is None:
        return []
    log = directory / "sources" / str(source)
    entry = log / str(number)
    return [(entry if entry.exists() else log / f"{number}.compact").read_text()]
