"""Whether a table has a batch: by its query and number, and by a digest of what its sources gave for it."""

from typing import NamedTuple

from barnabas.core.errors import InvalidRequest


class Batch(NamedTuple):
    """A batch of a query; the digest is empty where what it reads is not known."""

    query_id: str
    number: int
    digest: str = ""


def is_same(batch: Batch, last: Batch | None, where: str) -> bool:
    """Whether a table whose last batch of a query is `last` has this one. One that it cannot have is refused."""
    if last is None or last.number < batch.number:
        return False
    if last.number > batch.number:
        raise InvalidRequest(
            f"{where} has batch {last.number} of query {batch.query_id} already, and this is batch {batch.number}: "
            "this is an old copy of the checkpoint, or two queries run from one checkpoint. Nothing was added. Go on "
            "with the newest checkpoint. Without it, begin a new checkpoint with 'startingOffsets' behind what the "
            "table has"
        )
    if last.digest and batch.digest and last.digest != batch.digest:
        raise InvalidRequest(
            f"{where} has batch {batch.number} of query {batch.query_id} already, with other offsets of its source: "
            "this is an old copy of the checkpoint. Nothing was added. Go on with the newest checkpoint, or begin a "
            "new one with 'startingOffsets' behind what the table has"
        )
    return True
