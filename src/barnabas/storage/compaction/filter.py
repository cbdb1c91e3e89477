"""The fate of each batch: copied unchanged, rebuilt without the removed records, emptied, or left out.

The rules, in the order they apply:

- From the end of the key map on everything stays as it is; only transactions are followed.
- Data of an aborted transaction goes. A marker stays while the log has a batch of its transaction.
- Otherwise the key map decides, record by record.
- A tombstone, or a marker without data, that stays for the first time gets a *delete horizon* (KIP-534): a flag, and
  the time until which readers may still need it, which takes the place of the base timestamp. In a later round,
  when that time has come, it goes. Never in the round that made it take effect: until that round is over, and
  whatever a crash leaves of it, an older record of the key may still be there.
- A batch that the state of a producer is made of stays even when it has nothing left, as a header without records:
  the batches remembered to recognise a retry, and the last marker, which fences. So does the batch that ends at
  the end of the log or the high watermark, or a reader could never arrive there.

Base offset, last offset, leader epoch, producer fields and codec of a batch never change, nor does the offset,
timestamp, key, value or header of any record.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.core.model import NO_TIMESTAMP
from barnabas.core.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Buffer,
    Codec,
    TimestampType,
    attributes_of,
    seal,
    write_header,
)
from barnabas.core.records.compression import compress
from barnabas.core.records.control import read_marker
from barnabas.core.records.record import payload
from barnabas.storage.compaction.key_map import KeyMap, PlainSelection, Selection, read_records
from barnabas.storage.compaction.transactions import SeenTransactions
from barnabas.storage.txn_index import AbortedTransaction

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


class KeptBatch(NamedTuple):
    """A batch of the cleaned log."""

    data: Buffer
    header: BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The input of the filter, apart from keys and transactions."""

    now_ms: int
    delete_retention_ms: int
    dirty_start: int
    clean_end: int
    """The end of the key map, at the start of a batch."""
    producer_ids: Container[int]
    """The producers the log remembers."""
    remembered: Container[int]
    """The base offsets of the batches it remembers of them."""
    last_markers: Mapping[int, int]
    """The offset of the last marker in the dirty part, by producer."""
    last_ends: Container[int]
    """Where a reader must be able to arrive: the batch that ends there stays."""


class BatchFilter:
    """Takes the batches of a log in order, from the first on, and decides what remains of each."""

    def __init__(self, key_map: KeyMap, transactions: SeenTransactions, rules: Rules) -> None:
        self._keys = key_map
        self._transactions = transactions
        self._rules = rules
        self._horizon_ms = min(rules.now_ms + rules.delete_retention_ms, _INT64_MAX)
        self.aborted: list[AbortedTransaction] = []
        """Entries for the transaction index, of the markers since the list was last taken."""

    def clean(self, header: BatchHeader, data: Buffer) -> KeptBatch | None:
        """What remains of the next batch: `data` itself if all of it does, None if nothing does."""
        if header.is_control:
            return self._clean_control(header, data)
        self._transactions.note_data(header)
        if header.base_offset >= self._rules.clean_end:
            return KeptBatch(data, header)
        if header.record_count == 0 or self._transactions.is_aborted(header):
            return self._without_records(header, data)
        return self._clean_data(header, data)

    def _clean_data(self, header: BatchHeader, data: Buffer) -> KeptBatch | None:
        records = payload(data, 0, header)
        is_due = header.has_delete_horizon and header.base_timestamp <= self._rules.now_ms
        keeps_tombstones = not is_due or header.last_offset >= self._rules.dirty_start
        selection = self._keys.select(header, records, keeps_tombstones=keeps_tombstones)
        if selection.count == 0:
            return self._without_records(header, data)
        gets_horizon = selection.tombstones > 0 and self._may_get_horizon(header, selection)
        if selection.count == header.record_count and not gets_horizon:
            return KeptBatch(data, header)
        return self._rebuild(header, selection, horizon_ms=self._horizon_ms if gets_horizon else None)

    def _clean_control(self, header: BatchHeader, data: Buffer) -> KeptBatch | None:
        rules = self._rules
        marker = read_marker(data, 0, header)
        whole = KeptBatch(data, header)
        if header.record_count and not marker.type.ends_transaction:
            return whole
        had_data = self._transactions.note_marker(header)
        if had_data or header.base_offset >= rules.clean_end:
            aborted = self._transactions.aborted_at(header)
            if aborted is not None:
                self.aborted.append(aborted)
            return whole
        if header.record_count and not header.has_delete_horizon:
            records = payload(data, 0, header)
            selection = PlainSelection(records, list(read_records(header, records)))
            if not self._may_get_horizon(header, selection):
                return whole
            return self._rebuild(header, selection, horizon_ms=self._horizon_ms)
        is_needed = self._may_be_last_marker(header) or header.next_offset in rules.last_ends
        is_due = header.base_timestamp <= rules.now_ms or header.record_count == 0
        return None if is_due and not is_needed else whole

    def _may_be_last_marker(self, header: BatchHeader) -> bool:
        """Whether this may be the newest marker of a producer that the log remembers.

        Only the dirty part is known before the log is walked, so an older marker stays until a newer one is there.
        """
        producer_id = header.producer_id
        return producer_id in self._rules.producer_ids and header.base_offset >= self._rules.last_markers.get(
            producer_id, header.base_offset
        )

    def _may_get_horizon(self, header: BatchHeader, selection: Selection) -> bool:
        """Whether a batch can be given a delete horizon: it has none, and the distance from it fits in 64 bits.

        Where it does not fit, with timestamps before the Big Bang, the tombstones just stay.
        """
        if header.has_delete_horizon:
            return False
        earliest = selection.oldest_timestamp - self._horizon_ms
        return earliest >= _INT64_MIN and selection.newest_timestamp - self._horizon_ms <= _INT64_MAX

    def _without_records(self, header: BatchHeader, data: Buffer) -> KeptBatch | None:
        rules = self._rules
        is_remembered = header.has_producer and header.base_offset in rules.remembered
        if not is_remembered and header.next_offset not in rules.last_ends:
            return None
        return KeptBatch(data, header) if header.record_count == 0 else emptied(header)

    def _rebuild(self, header: BatchHeader, selection: Selection, *, horizon_ms: int | None) -> KeptBatch:
        is_log_append = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        max_timestamp = header.max_timestamp
        # The time of a remembered batch is part of its producer's state, which must not depend on compaction.
        if not is_log_append and not header.is_control and header.base_offset not in self._rules.remembered:
            max_timestamp = selection.newest_timestamp
        section: Buffer = selection.records(base_timestamp=horizon_ms)
        if header.codec is not Codec.NONE:
            section = compress(header.codec, section)
        attributes, base_timestamp = header.attributes, header.base_timestamp
        if horizon_ms is not None:
            attributes |= attributes_of(Codec.NONE, has_delete_horizon=True)
            base_timestamp = horizon_ms
        return _sealed(
            header._replace(
                attributes=attributes,
                base_timestamp=base_timestamp,
                max_timestamp=max_timestamp,
                record_count=selection.count,
            ),
            section,
        )


def emptied(header: BatchHeader) -> KeptBatch:
    """The batch without its records: offsets, sequence numbers and time stay."""
    attributes = attributes_of(
        Codec.NONE,
        header.timestamp_type,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )
    return _sealed(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")


def _sealed(header: BatchHeader, section: Buffer) -> KeptBatch:
    size = HEADER_SIZE + len(section)
    out = bytearray(size)
    header = header._replace(batch_length=size - LOG_OVERHEAD)
    write_header(out, 0, header)
    out[HEADER_SIZE:] = section
    seal(out, 0, size)
    return KeptBatch(out, header)
