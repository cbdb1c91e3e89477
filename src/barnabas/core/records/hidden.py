"""Which batches a reader of committed records never sees: markers, and those of transactions that were aborted."""

from collections.abc import Iterator, Sequence

from barnabas.core.records.batch import BatchHeader


class Hidden:
    """To be asked of every batch of an answer, in order. `aborted` are producer ids and first offsets, as a fetch
    lists them.
    """

    def __init__(self, aborted: Sequence[tuple[int, int]] = ()) -> None:
        self._coming: Iterator[tuple[int, int]] = iter(sorted(aborted, key=lambda each: each[1]))
        self._next = next(self._coming, None)
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        while self._next is not None and self._next[1] <= header.last_offset:
            self._open.add(self._next[0])
            self._next = next(self._coming, None)
        if header.is_control:
            self._open.discard(header.producer_id)  # its marker: the transaction ends here
            return True
        return header.is_transactional and header.producer_id in self._open
