"""Whether a table has a batch: by its query and number, and by a fingerprint of what its sources gave for it."""

from typing import Final, NamedTuple

from barnabas.core.errors import InvalidRequest
from barnabas.spark.checkpoints import begin_anew, source_offsets

UNKNOWN: Final = 0
_DIGITS: Final = 15  # of a digest, so that a fingerprint fits where a table keeps a version


class Batch(NamedTuple):
    """A batch of a query."""

    query_id: str
    number: int
    fingerprint: int = UNKNOWN
    topics: str = ""  # up to where it has read them, for people


def fingerprint(digest: str, row_count: int) -> int:
    """What tells two batches of one number apart: the offsets they read, by their digest; else their count of rows.

    One kind is even and the other odd: nothing follows from comparing the two.
    """
    return int(digest[:_DIGITS], 16) + 1 << 1 if digest else row_count << 1 | 1


def follows(batch: Batch, last: Batch, checkpoint: str | None) -> bool:
    """Whether a batch comes after the last one that a table has of its query.

    Not if its checkpoint has that one with other offsets. Those between may have had no rows, and then nobody has
    looked at the table for them.
    """
    if last.number >= batch.number:
        return False
    digest = source_offsets(checkpoint, last.number).digest
    return not digest or not _differ(last.fingerprint, fingerprint(digest, row_count=0))


def is_same(batch: Batch, last: Batch, where: str) -> bool:
    """Whether the last batch of a query in a table, which this one does not follow, is this one; refused if not."""
    if last.number > batch.number:
        raise InvalidRequest(
            f"{where} has batch {last.number} of query {batch.query_id} already, and this is batch {batch.number}: "
            "this is an old copy of the checkpoint, or two queries run from one checkpoint. Nothing was added. Go on "
            f"with the newest checkpoint. Without it, {begin_anew(last.topics, 'what the table has')}"
        )
    if last.number < batch.number or _differ(last.fingerprint, batch.fingerprint):
        what = "other offsets of its source" if last.fingerprint % 2 == 0 else "another count of rows"
        raise InvalidRequest(
            f"{where} has batch {last.number} of query {batch.query_id} already, with {what}: "
            "this is an old copy of the checkpoint. Nothing was added. Go on with the newest checkpoint. Without it, "
            + begin_anew(last.topics, "what the table has")
        )
    return True


def _differ(one: int, other: int) -> bool:
    return UNKNOWN not in (one, other) and one % 2 == other % 2 and one != other
