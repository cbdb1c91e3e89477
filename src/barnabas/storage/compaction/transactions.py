"""What a round of compaction must know of transactions: which data was aborted, and which markers still matter.

A marker matters as long as the log holds a batch of its transaction, even an emptied one: without it a replay of the
log would find the transaction open. An entry of the transaction index matters exactly as long as its transaction has
such a batch. An entry that outlives its marker would do harm: a consumer that is told of it drops everything its
producer wrote, until it meets the marker.

Batches must be noted in the order of the log, from its first on.
"""

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter

from barnabas.core.records.batch import BatchHeader
from barnabas.storage.txn_index import AbortedTransaction

_marker_offset = attrgetter("last_offset")


class SeenTransactions:
    """The transactions found so far in a log."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        for transaction in sorted(aborted, key=_marker_offset):
            self._aborted.setdefault(transaction.producer_id, []).append(transaction)
        self._with_data: set[int] = set()  # producers with a batch since their last marker

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to a transaction that was aborted."""
        if not header.is_transactional:
            return False
        transaction = self._ended_by(header.producer_id, header.last_offset)
        return transaction is not None and transaction.first_offset <= header.base_offset

    def note_data(self, header: BatchHeader) -> None:
        """The next batch is a data batch, kept or not."""
        if header.is_transactional:
            self._with_data.add(header.producer_id)

    def note_marker(self, header: BatchHeader) -> bool:
        """The next batch ends a transaction; returns whether the log had a batch of that one."""
        had_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        return had_data

    def aborted_at(self, header: BatchHeader) -> AbortedTransaction | None:
        """The transaction that this marker aborted."""
        transaction = self._ended_by(header.producer_id, header.last_offset)
        return transaction if transaction is not None and transaction.last_offset == header.last_offset else None

    def _ended_by(self, producer_id: int, offset: int) -> AbortedTransaction | None:
        """The first aborted transaction of a producer whose marker is at or after `offset`."""
        aborted = self._aborted.get(producer_id, ())
        index = bisect_left(aborted, offset, key=_marker_offset)
        return aborted[index] if index < len(aborted) else None
