"""A commit in the metadata log: the records of one decision, in record batches, the last record marked.

A batch is in the log whole or not at all. A commit of several batches may lose its end to a crash: it then has no
marked record, and whoever reads the log takes nothing of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from barnabas.core.errors import InvalidMetadata
from barnabas.core.metadata.records import MetadataRecord, decode_record, encode_record
from barnabas.core.records.record import Record, encode_batch

MAX_BATCH_BYTES: Final = 64 * 1024  # a few milliseconds of work
RECORD_OVERHEAD: Final = 32  # what a record takes in a batch besides its value, at most
LAST_OF_COMMIT: Final = b"\x01"  # the key of the last record of a commit; the others have none


def encode_commit(records: Sequence[MetadataRecord], *, timestamp_ms: int) -> bytearray:
    """The batches of one commit, to be appended in one go."""
    return bytearray().join(encode_batches(records, timestamp_ms=timestamp_ms))


def encode_batches(records: Sequence[MetadataRecord], *, timestamp_ms: int) -> Iterator[bytearray]:
    """The same, one batch after another: a commit may have many."""
    batch: list[Record] = []
    size = 0
    last = len(records) - 1
    for index, record in enumerate(records):
        value = encode_record(record)
        size += len(value) + RECORD_OVERHEAD
        if batch and size > MAX_BATCH_BYTES:
            yield encode_batch(batch)
            batch, size = [], len(value) + RECORD_OVERHEAD
        batch.append(Record(index, timestamp_ms, LAST_OF_COMMIT if index == last else None, value))
    yield encode_batch(batch)


class CommitReader:
    """Puts the records of a log together to commits again."""

    def __init__(self) -> None:
        self._records: list[MetadataRecord] = []
        self.unfinished_at: int | None = None
        """The offset at which a commit began whose end has not been seen."""

    def read(self, records: Iterable[Record]) -> Iterator[Sequence[MetadataRecord]]:
        """Each commit that these records of the log, which follow those before, bring to its end."""
        for record in records:
            if self.unfinished_at is None:
                self.unfinished_at = record.offset
            if record.value is None:
                raise InvalidMetadata(f"the metadata record at offset {record.offset} has no value")
            self._records.append(decode_record(record.value))
            if record.key == LAST_OF_COMMIT:
                commit, self._records = self._records, []
                self.unfinished_at = None
                yield commit
