"""What Spark's checkpoint of a query has about a batch, if it is a directory that can be read from here."""

import hashlib
import json
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeGuard
from urllib.parse import unquote, urlsplit

_HEAD_LINES: Final = 2  # the version of the log, and the time and settings of the run: not what is read
_DIGEST_BYTES: Final = 16
_MOST_CHARACTERS: Final = 4_000  # of offsets that are kept for people: some hundred partitions


class SourceOffsets(NamedTuple):
    """The end offsets of a batch, and their digest; both are empty if the checkpoint cannot be read from here."""

    topics: str = ""  # those of topics, as the option 'startingOffsets' takes them; empty if that is long
    digest: str = ""


def source_offsets(checkpoint: str | None, batch_id: int) -> SourceOffsets:
    """The offsets of a query's sources for a batch."""
    directory = _local(checkpoint)
    if directory is None:
        return SourceOffsets()
    try:
        offsets = (directory / "offsets" / str(batch_id)).read_text().splitlines()[_HEAD_LINES:]
        parsed = [json.loads(offset) if offset.startswith("{") else None for offset in offsets]
        files = [_files(directory, number, each) for number, each in enumerate(parsed)]
    except (OSError, ValueError):
        return SourceOffsets()
    parts = [part for offset, listed in zip(offsets, files, strict=True) for part in (offset, *listed)]
    digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    topics = " and ".join(_starting_offsets(each) for each in parsed if _is_of_topics(each))
    return SourceOffsets(topics if len(topics) <= _MOST_CHARACTERS else "", digest)


def begin_anew(topics: str, what_is_there: str) -> str:
    """Advice for a user without a checkpoint to continue from."""
    which = f": {topics}" if topics else ""
    return f"begin a new checkpoint with 'startingOffsets' right after {what_is_there}{which}"


def _is_of_topics(offset: Any) -> TypeGuard[dict[str, dict[str, int]]]:
    return isinstance(offset, dict) and bool(offset) and all(isinstance(each, dict) for each in offset.values())


def _starting_offsets(offset: dict[str, dict[str, int]]) -> str:
    """Without what has no partitions: that says which topics they were."""
    named = {topic: partitions for topic, partitions in offset.items() if partitions}
    return json.dumps(named, separators=(",", ":"))


def _local(checkpoint: str | None) -> Path | None:
    if not checkpoint:
        return None
    parts = urlsplit(checkpoint)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path) if parts.scheme else checkpoint)


def _files(directory: Path, source: int, offset: Any) -> list[str]:
    """Of a source of files, the names of those that the offset stands for, as it has written them down."""
    number = offset.get("logOffset") if isinstance(offset, dict) else None
    if number is None:
        return []
    log = directory / "sources" / str(source)
    entry = log / str(number)
    return [(entry if entry.exists() else log / f"{number}.compact").read_text()]
