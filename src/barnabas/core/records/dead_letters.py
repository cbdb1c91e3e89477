"""Dead letters (KIP-1191): the record that is left of one which nobody could process.

Owns what a letter looks like, for those who write it and for those who read it. Its headers are Kafka's; a letter that
has a copy of its record says so in a header of ours, since a record may have neither key nor value, and keeps the
headers of its record, too.
"""

from enum import Enum
from typing import Final, NamedTuple

from barnabas.core.records.record import Header, Record

PREFIX: Final = "__dlq.errors."
TOPIC: Final = PREFIX + "topic"
PARTITION: Final = PREFIX + "partition"
OFFSET: Final = PREFIX + "offset"
GROUP: Final = PREFIX + "group"
DELIVERY_COUNT: Final = PREFIX + "delivery.count"
MESSAGE: Final = PREFIX + "message"
COPIED: Final = "barnabas-dlq-copied"
"""Ours: the letter has key, value and headers of its record."""


class Cause(Enum):
    """Why a record gets a dead letter, in Kafka's words, which clients compare."""

    REJECTED = "Offset rejected by client."
    LIMIT = "Offset delivery count exceeded the threshold."


class Source(NamedTuple):
    """Where the record of a letter is, and for whom it could not be processed."""

    group: str
    topic: str
    partition: int
    offset: int


class LetterRange(NamedTuple):
    """Records in a row that get a letter each, for the same reason."""

    first: int
    last: int
    delivery_count: int
    cause: Cause


class ReadLetter(NamedTuple):
    """What the headers of a letter say."""

    source: Source
    is_copy: bool
    headers: tuple[Header, ...]  # those of its record


def build_letter(source: Source, *, at: LetterRange, record: Record | None, number: int, now_ms: int) -> Record:
    """The letter of a record; without a `record` it has its headers alone."""
    own: tuple[Header, ...] = (
        (TOPIC, source.topic.encode()),
        (PARTITION, b"%d" % source.partition),
        (OFFSET, b"%d" % source.offset),
        (GROUP, source.group.encode()),
        (DELIVERY_COUNT, b"%d" % at.delivery_count),
        (MESSAGE, at.cause.value.encode()),
    )
    if record is None:
        return Record(number, now_ms, None, None, own)
    kept = tuple(header for header in record.headers if not _is_ours(header[0]))
    return Record(number, now_ms, record.key, record.value, (*kept, *own, (COPIED, b"true")))


def read_letter(headers: tuple[Header, ...], *, has_content: bool) -> ReadLetter | None:
    """What a record of a dead-letter topic says; None if it is no letter.

    `has_content`: it has a key or a value, and so is a copy, whoever wrote it.
    """
    own = {name: value for name, value in headers if _is_ours(name)}
    try:
        source = Source(
            (own[GROUP] or b"").decode(),
            (own[TOPIC] or b"").decode(),
            int(own[PARTITION] or b""),
            int(own[OFFSET] or b""),
        )
    except (KeyError, ValueError):
        return None
    if not source.group or not source.topic or source.partition < 0 or source.offset < 0:
        return None
    kept = tuple(header for header in headers if not _is_ours(header[0]))
    return ReadLetter(source, has_content or COPIED in own, kept)


def _is_ours(name: str) -> bool:
    """Whether a header is one of a letter. A record that was a letter itself keeps none of that: it would be taken for
    what became of it later.
    """
    return name.startswith(PREFIX) or name == COPIED
