"""A commit in the metadata log: the records of one decision, in record batches, the last record marked.

A batch is in the log whole or not at all. A commit of several batches may lose its end, to a crash or to a change of
leaders: it then has no marked record, and readers of the log ignore it.

All of a commit is of one leader epoch. So a commit followed by another epoch will never be completed, and the records
of that epoch are not part of it. Control batches (a new leader, the voters) belong to the replication of the log: no
commit has any.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from barnabas.core.errors import InvalidMetadata
from barnabas.core.metadata.records import MetadataRecord, decode_record, encode_record
from barnabas.core.model import NO_EPOCH
from barnabas.core.records.batch import BatchHeader, Buffer
from barnabas.core.records.record import Record, decode_records, encode_batch

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
    """Reads commits from the batches of a log."""

    def __init__(self) -> None:
        self._records: list[MetadataRecord] = []
        self._epoch = NO_EPOCH
        self.unfinished_at: int | None = None
        """The offset at which a commit began whose end has not been seen."""
        self.dropped: list[int] = []
        """The offsets at which commits began that another leader epoch cut off."""

    def read(self, batch: Buffer, header: BatchHeader) -> Iterator[Sequence[MetadataRecord]]:
        """Each commit that this batch of the log, which follows those before, brings to its end."""
        self.pass_over(header.leader_epoch)
        if header.is_control:
            return
        for record in decode_records(batch, 0, header):
            if self.unfinished_at is None:
                self.unfinished_at = record.offset
            if record.value is None:
                raise InvalidMetadata(f"the metadata record at offset {record.offset} has no value")
            self._records.append(decode_record(record.value))
            if record.key == LAST_OF_COMMIT:
                commit, self._records = self._records, []
                self.unfinished_at = None
                yield commit

    def pass_over(self, epoch: int) -> None:
        """Batches of this epoch come next, which this reader need not read: each of their commits is whole."""
        if epoch != self._epoch:
            self._drop()
            self._epoch = epoch

    def forget(self) -> None:
        """What comes next does not follow what was read: a whole state is in between."""
        self._epoch = NO_EPOCH
        self._drop()

    def _drop(self) -> None:
        """Drop an incomplete commit: only the leader that began it could have completed it."""
        if self.unfinished_at is not None:
            self.dropped.append(self.unfinished_at)
            self.unfinished_at = None
            self._records = []
