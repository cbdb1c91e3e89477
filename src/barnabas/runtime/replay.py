"""Reading back the log of a coordinator, a piece at a time and on a thread.

Unreadable data is never skipped: every byte is checked, batches must go on where the one before ended or later
(compaction leaves gaps), and a piece without a whole batch in it is damage. All of that is a refusal, which the
coordinator then reports.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from barnabas.core.errors import CorruptLog
from barnabas.core.records.batch import BatchHeader, check_batch, iter_whole_batches
from barnabas.core.records.control import MarkerType, read_marker
from barnabas.core.records.record import Record, decode_records
from barnabas.storage.reading import ReadPlan

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)

# Of the log, at a time: what is read is applied on the loop, which others want too.
READ_BYTES: Final = 512 * 1024

_NO_BOUND: Final = 2**63


# Of a record that says what an older one of another format said before; see `rewriting`.
REWRITTEN: Final = ("rewritten", None)

_NOTHING_OLD: Final[Mapping[bytes, bool]] = MappingProxyType({})


class Piece(NamedTuple, Generic[E]):
    """A batch of the log in a replay: entries, in a transaction or not, or the end of a transaction."""

    entries: Sequence[E]
    transaction: int | None = None  # the producer id of the transaction that it is in, or ends
    marker: MarkerType | None = None
    is_rewritten: bool = False
    old_keys: Mapping[bytes, bool] = _NOTHING_OLD  # of the old format, and whether the last value under each is there


class Format(Protocol[E_co]):
    """How the records of a log are read. Runs on a thread."""

    def decode(self, key: bytes, value: bytes | None) -> E_co: ...
    def is_old(self, key: bytes) -> bool: ...


def reading(plan: ReadPlan, of: Format[E]) -> Callable[[], tuple[list[Piece[E]], int | None]]:
    """Read and decode the next part of the log: its batches, and the offset after them; None if nothing is left."""

    def read() -> tuple[list[Piece[E]], int | None]:
        located = plan.locate(READ_BYTES)
        if located is None:
            _check_nothing_is_left(plan)
            return [], None
        try:
            data = located.read()
        except OSError as error:
            raise plan.health.fail(error) from error
        pieces: list[Piece[E]] = []
        next_offset: int | None = None
        for position, header in iter_whole_batches(data):
            check_batch(data, position, header)
            _check_place(header, next_offset, plan)
            next_offset = header.next_offset
            if header.is_control:
                marker = read_marker(data, position, header).type
                if marker.ends_transaction:
                    pieces.append(Piece((), header.producer_id, marker))
                continue
            records = [each for each in decode_records(data, position, header) if each.offset >= plan.offset]
            pieces.append(_piece_of(records, header.producer_id if header.is_transactional else None, of))
        if next_offset is None:
            raise CorruptLog(f"{located.file.path} at position {located.position}: there is no whole batch")
        return pieces, next_offset

    return read


def _piece_of(records: Sequence[Record], transaction: int | None, of: Format[E]) -> Piece[E]:
    decode, is_old = of.decode, of.is_old
    keyed = [(record.key, record.value) for record in records if record.key is not None]
    old_keys = {key: value is not None for key, value in keyed if is_old(key)} or _NOTHING_OLD
    is_rewritten = bool(records) and REWRITTEN in records[0].headers  # all of a batch are, or none
    if is_rewritten:
        # What deletes an old key says nothing of what is known under it: that is in a record of the new format.
        keyed = [(key, value) for key, value in keyed if not is_old(key)]
    return Piece([decode(key, value) for key, value in keyed], transaction, None, is_rewritten, old_keys)


class BeyondTheEnd(CorruptLog):
    """There is a batch beyond the end, unless the log has grown meanwhile."""


def _check_nothing_is_left(plan: ReadPlan) -> None:
    """A batch with a damaged offset must not be taken for one that was appended after the plan was made."""
    found = plan._replace(bound=_NO_BOUND, end_position=None).locate(1)
    if found is not None:
        raise BeyondTheEnd(f"{found.file.path} at position {found.position}: a batch claims offsets past the log's end")


def _check_place(header: BatchHeader, before: int | None, plan: ReadPlan) -> None:
    if header.base_offset < (before or 0) or header.next_offset > plan.bound:
        raise CorruptLog(
            f"a batch claims the offsets {header.base_offset} to {header.last_offset}, after {before or 0} and in a "
            f"log that ends at {plan.bound}"
        )
