"""Cursors: where browsing goes on, in a text that the client brings back. The server keeps nothing.

It says which topic, in which order and which offsets of each partition are to come. It is not secret and not signed: a
client that changes it reads from somewhere else, which it may do anyway.
"""

import base64
from uuid import UUID

import msgspec

from barnabas.edge.http.problems import bad
from barnabas.services.browsing import Position, Span


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """A position in a topic of an id."""

    topic_id: UUID
    is_newest_first: bool
    spans: list[tuple[int, int, int]]

    @property
    def position(self) -> dict[int, Span]:
        """The offsets that are to come."""
        return {index: Span(first, end) for index, first, end in self.spans}


def cursor_text(topic_id: UUID, position: Position, *, is_newest_first: bool) -> str:
    """The text of a cursor; what is read to the end is left out."""
    spans = [(index, span.first, span.end) for index, span in position.items() if span.first < span.end]
    packed = msgspec.msgpack.encode(Cursor(topic_id, is_newest_first, spans))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def read_cursor(text: str, topic_id: UUID) -> Cursor:
    """The cursor of a text; refused if it is none, or that of another topic."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        cursor = msgspec.msgpack.decode(data, type=Cursor)
    except (ValueError, msgspec.MsgspecError):
        raise bad("the cursor cannot be read: begin without one") from None
    if cursor.topic_id != topic_id:
        raise bad("the cursor is of another topic, or of one that was deleted: begin without one")
    if any(index < 0 or first < 0 or end < 0 for index, first, end in cursor.spans):
        raise bad("the cursor has impossible offsets: begin without one")
    return cursor
