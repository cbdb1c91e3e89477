"""The producers of one log: the sequences of idempotent producers and their open transactions.

Owns the rules that make a retry harmless and a transaction whole: a batch seen before is answered with the
offset it already has, a gap is refused, an older epoch is fenced, and the first offset of the oldest open
transaction holds the last stable offset back. `check` decides and changes nothing; `apply` changes and is
what a replay calls, so that a recovered log arrives at the same state.

What a marker has ended is never repeated: a producer commits only when all of its batches are acknowledged, and has no
use for them when it aborts. So a batch with the sequence numbers of an ended one, transactional itself or not, is a new
batch, and would be lost if it were answered with the offset of that one. The start of the open transaction shows which
are ended; a snapshot has it too.

Invariants: the last `REMEMBERED_BATCHES` batches of a producer are ascending in offset, all of its current
epoch; an open transaction is in `open_transactions` exactly when its producer says so.

Must not know: files, snapshots' format, time (it arrives as an argument).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from barnabas.core.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    PolicyViolation,
    TransactionCoordinatorFenced,
)
from barnabas.core.model import NO_EPOCH, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from barnabas.core.records.batch import MAX_SEQUENCE, BatchHeader, add_sequence
from barnabas.core.records.control import Marker, MarkerType

REMEMBERED_BATCHES: Final = 5  # the most requests a producer may have in flight and stay idempotent
MAX_PRODUCER_EPOCH: Final = 2**15 - 1
NO_LIMIT: Final = 2**63 - 1
_RAISED_EPOCHS_FROM: Final = 2  # the transaction version in which every marker raises its producer's epoch (KIP-890)


class WrittenBatch(NamedTuple):
    """One batch a producer wrote, remembered so that a retry of it can be answered."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@dataclass(slots=True)
class Producer:
    """The state of one producer id."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    transaction_start: int | None = None
    batches: tuple[WrittenBatch, ...] = ()
    # For `expire`: the epoch and the newest batch it found last time, and since when. Not part of what the log says.
    last_seen: tuple[int, WrittenBatch | None] | None = field(default=None, compare=False)
    idle_since_ms: int | None = field(default=None, compare=False)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int | None:
        return self.batches[-1].last_offset if self.batches else None


class CompletedTransaction(NamedTuple):
    """A transaction that a marker at `last_offset` has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


@dataclass(slots=True)
class ProducerStates:
    """All producers of one log."""

    _producers: dict[int, Producer] = field(default_factory=dict)
    # First offset -> producer id. Transactions start in offset order, so the first key is the oldest.
    open_transactions: dict[int, int] = field(default_factory=dict)
    # Ended, but with a marker that the high watermark has not passed: still unstable.
    _unreplicated: list[CompletedTransaction] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def admit(self, header: BatchHeader, max_count: int = NO_LIMIT) -> WrittenBatch | None:
        """The batch that a data batch repeats, if it does; refused when it does not follow, or when it would be the
        first of one producer more than `max_count`.

        Called for every batch of an idempotent producer, so the common case comes first.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            if len(self._producers) >= max_count:
                raise PolicyViolation(
                    f"the partition remembers {max_count} idempotent producers, the maximum "
                    "(max.producer.ids.per.partition); a producer that is idle is forgotten after a while"
                )
            return None
        if (
            producer.batches
            and header.base_sequence == producer.batches[-1].last_sequence + 1
            and header.producer_epoch == producer.epoch
            and (producer.transaction_start is None or header.is_transactional)
        ):
            return None
        written = self.find_duplicate(header)
        if written is None:
            self.check(header)
        return written

    def find_duplicate(self, header: BatchHeader) -> WrittenBatch | None:
        """The remembered batch that `header` is a retry of, if it is one."""
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch or header.base_sequence == NO_SEQUENCE:
            return None
        start = _repeatable_from(producer, is_transactional=header.is_transactional)
        if start is None:
            return None  # a marker has ended whatever it could repeat
        first, last = header.base_sequence, header.last_sequence
        for batch in producer.batches:
            if batch.first_sequence == first and batch.last_sequence == last and batch.first_offset >= start:
                return batch
        return None

    def is_in_transaction(self, header: BatchHeader) -> bool:
        """Whether a transactional batch belongs to a transaction that is open here.

        Any other must be verified with the coordinator (KIP-890): the transaction that it opens here may already have
        ended, and then it would never be ended.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return False
        return producer.transaction_start is not None and producer.epoch == header.producer_epoch

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Refuse a fenced producer epoch."""
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {producer_id} has epoch {epoch}; epoch {producer.epoch} has replaced it"
            )

    def check_begins_anew(self, header: BatchHeader) -> None:
        """Refuse the first batch of a producer when it cannot be its first. For producers with a new epoch in each
        transaction, which starts at sequence 0: any other means that an earlier batch is still in flight.
        """
        if header.base_sequence != 0 and header.producer_id not in self._producers:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} began its transaction at sequence {header.base_sequence}, not 0"
            )

    def check(self, header: BatchHeader) -> None:
        """Refuse a data batch that does not follow what its producer wrote before."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return
        self.check_epoch(header.producer_id, header.producer_epoch)
        _check_sequence(producer, header)
        if producer.transaction_start is not None and not header.is_transactional:
            raise InvalidTxnState(
                f"producer {header.producer_id} has a transaction open since offset "
                f"{producer.transaction_start} and wrote outside of it"
            )

    def check_marker(self, header: BatchHeader, marker: Marker, *, version: int = 0) -> bool:
        """Whether a marker has anything to end; False if it repeats the marker of an ended transaction.

        Refused if its coordinator or its producer epoch is fenced. From transaction `version` 2 on a marker raises the
        epoch, so one that does not is late, or a repetition. Before that it has the epoch of its transaction, and
        cannot be distinguished from an earlier one. A log does not record the version, so without one only the checks
        common to all apply.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return True
        epoch = header.producer_epoch
        has_ended = producer.transaction_start is None
        must_raise = version >= _RAISED_EPOCHS_FROM and not has_ended and epoch < MAX_PRODUCER_EPOCH
        if epoch < producer.epoch or (must_raise and epoch == producer.epoch):
            raise InvalidProducerEpoch(
                f"marker for producer {header.producer_id} has epoch {epoch}; epoch {producer.epoch} has replaced it"
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"marker from coordinator epoch {marker.coordinator_epoch}; "
                f"epoch {producer.coordinator_epoch} has replaced it"
            )
        return not (version >= _RAISED_EPOCHS_FROM and has_ended and epoch == producer.epoch)

    def apply(self, header: BatchHeader, marker: Marker | None = None) -> CompletedTransaction | None:
        """Note a batch of the log, `header` with its final offsets; returns the transaction it ended.

        A control batch comes with its `marker` unless it ends no transaction.
        """
        if not header.has_producer:
            return None
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._producers[header.producer_id] = Producer(header.producer_id)
        if header.is_control:
            return self._apply_marker(producer, header, marker) if marker is not None else None
        self._apply_data(producer, header)
        return None

    def note_data(self, header: BatchHeader, *, first_offset: int, last_offset: int, timestamp: int) -> None:
        """Note a data batch that was just appended: `header` is as it came, the rest as it was written."""
        producer = self._producers.get(header.producer_id)
        if (
            producer is None
            or producer.epoch != header.producer_epoch
            or header.base_sequence == NO_SEQUENCE
            or (header.is_transactional and producer.transaction_start is None)
        ):
            self.apply(header._replace(base_offset=first_offset, max_timestamp=timestamp))
            return
        written = WrittenBatch(header.base_sequence, header.last_sequence, first_offset, last_offset, timestamp)
        producer.batches = (*producer.batches[1 - REMEMBERED_BATCHES :], written)
        producer.last_timestamp = timestamp

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset right after this transaction ended, replication aside."""
        return min(
            (start for start in self.open_transactions if start != completed.first_offset),
            default=completed.last_offset + 1,
        )

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset that `read_committed` may not read yet because its marker is not replicated."""
        if not self.open_transactions and not self._unreplicated:
            return None
        self._unreplicated = [txn for txn in self._unreplicated if txn.last_offset >= high_watermark]
        candidates = [next(iter(self.open_transactions))] if self.open_transactions else []
        candidates += [txn.first_offset for txn in self._unreplicated]
        return min(candidates, default=None)

    def expire(self, *, now_ms: int, idle_ms: int) -> int:
        """Forget producers without an open transaction that were seen to write nothing for `idle_ms`.

        That is counted from one call to the next. The timestamps of records do not matter: a producer of old timestamps
        must be remembered as long as any other.
        """
        expired = []
        for producer in self._producers.values():
            seen = (producer.epoch, producer.batches[-1] if producer.batches else None)
            if producer.last_seen != seen or producer.idle_since_ms is None or producer.transaction_start is not None:
                producer.last_seen, producer.idle_since_ms = seen, now_ms
            elif now_ms - producer.idle_since_ms >= idle_ms:
                expired.append(producer.producer_id)
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def restore(self, producers: Iterable[Producer]) -> None:
        """Start from a snapshot."""
        self._producers = {producer.producer_id: replace(producer) for producer in producers}
        starts = sorted(
            (producer.transaction_start, producer.producer_id)
            for producer in self._producers.values()
            if producer.transaction_start is not None
        )
        self.open_transactions = dict(starts)
        self._unreplicated = []

    def _apply_data(self, producer: Producer, header: BatchHeader) -> None:
        if header.producer_epoch != producer.epoch:
            producer.epoch = header.producer_epoch
            producer.batches = ()
        if header.base_sequence != NO_SEQUENCE:
            written = WrittenBatch(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
            )
            producer.batches = (*producer.batches[1 - REMEMBERED_BATCHES :], written)
        producer.last_timestamp = header.max_timestamp
        if header.is_transactional and producer.transaction_start is None:
            producer.transaction_start = header.base_offset
            self.open_transactions[header.base_offset] = producer.producer_id

    def _apply_marker(self, producer: Producer, header: BatchHeader, marker: Marker) -> CompletedTransaction | None:
        if header.producer_epoch != producer.epoch:
            producer.epoch = header.producer_epoch
            producer.batches = ()
        producer.coordinator_epoch = max(producer.coordinator_epoch, marker.coordinator_epoch)
        producer.last_timestamp = header.max_timestamp
        start = producer.transaction_start
        if start is None:
            return None  # a marker for a transaction that wrote nothing here, or a repeated one
        producer.transaction_start = None
        del self.open_transactions[start]
        is_aborted = marker.type is MarkerType.ABORT
        completed = CompletedTransaction(producer.producer_id, start, header.last_offset, is_aborted)
        self._unreplicated.append(completed)
        return completed


def marker_ends(epoch: int, *, marker_epoch: int, version: int) -> bool:
    """Whether a marker ends a transaction that has `epoch`.

    One that raises the epoch may arrive when the next transaction of its producer, with the new epoch, is being
    verified: it ends the one before.
    """
    return epoch < marker_epoch or (epoch == marker_epoch and version < _RAISED_EPOCHS_FROM)


def _check_sequence(producer: Producer, header: BatchHeader) -> None:
    if header.base_sequence == NO_SEQUENCE:
        return  # a coordinator writes within a transaction of the producer: its records are not numbered
    if header.producer_epoch != producer.epoch:
        if header.base_sequence != 0 and producer.epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} began epoch {header.producer_epoch} at sequence "
                f"{header.base_sequence}, not 0"
            )
        return
    if not producer.batches:
        # Only a marker of this epoch is known: its batches were in an epoch that it replaced, or are gone.
        if header.base_sequence != 0:
            raise OutOfOrderSequence(f"producer {header.producer_id} sent sequence {header.base_sequence}, expected 0")
        return
    expected = add_sequence(producer.last_sequence, 1)
    if header.base_sequence == expected:
        return
    # How far it lies before what is remembered, the short way round: a client takes a duplicate for written, so a gap
    # where sequences wrap must not pass for one.
    # Nor may one that was refused before the first that was taken: there is nothing older while not all are remembered.
    distance = (producer.batches[0].first_sequence - header.last_sequence) & MAX_SEQUENCE
    if 0 < distance <= MAX_SEQUENCE // 2 and _has_forgotten(producer, is_transactional=header.is_transactional):
        raise DuplicateSequence(
            f"producer {header.producer_id} sent sequence {header.base_sequence} again; only the last "
            f"{REMEMBERED_BATCHES} batches are remembered"
        )
    raise OutOfOrderSequence(f"producer {header.producer_id} sent sequence {header.base_sequence}, expected {expected}")


def _has_forgotten(producer: Producer, *, is_transactional: bool) -> bool:
    """Whether batches that may be repeated were written before those that are remembered."""
    if len(producer.batches) < REMEMBERED_BATCHES:
        return False
    start = _repeatable_from(producer, is_transactional=is_transactional)
    return start is not None and start < producer.batches[0].first_offset


def _repeatable_from(producer: Producer, *, is_transactional: bool) -> int | None:
    """The start of the batches that a producer may repeat; None if there are none. Outside transactions these are all,
    except for a producer that had transactions, whose batches may be aborted.
    """
    if is_transactional:
        return producer.transaction_start
    return -1 if producer.coordinator_epoch == NO_EPOCH else None
