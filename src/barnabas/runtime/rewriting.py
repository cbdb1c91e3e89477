"""Rewriting the log of a coordinator that an earlier version has written in another format, once it is loaded.

A record of the earlier format and one of the new have different keys, so compaction would keep both, and an old one
could outlive what replaced it. So everything under old keys is written again under new ones, and the old keys are
deleted. All records of a batch that does so have a header, `REWRITTEN`, for they say nothing new: a replay applies an
entry as of its original place, so it supersedes no pending offset, and ignores the deletion of an old key.

A crash may occur between any two batches. The state that the log yields is the same before and after each, and the next
start goes on with the remaining old keys. Offsets that are pending come first, while nobody else writes: what their
partitions have, then they themselves, as part of the same transactions, then the end of their old keys.
"""

import asyncio
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from barnabas.core.coordination import Within
from barnabas.core.errors import RecordTooLarge, StorageExhausted
from barnabas.core.records.record import Header
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.replay import REWRITTEN

if TYPE_CHECKING:
    from barnabas.runtime.partition import Partition

log = get_logger("barnabas.coordinator")

E = TypeVar("E")

KEYS_AT_ONCE: Final = 256  # rewritten before others have the loop

Pair = tuple[bytes, bytes | None]


class Rewritable(Protocol[E]):
    """What rewriting needs of a coordinator."""

    partition: "Partition"
    has_old: bool
    old_keys: dict[bytes, None]

    @property
    def is_ended(self) -> bool: ...
    def encode(self, entry: E) -> Pair: ...
    def old_key(self, entry: E) -> bytes: ...
    def find_under(self, old_key: bytes) -> E | None: ...
    def implied_by_old(self) -> Sequence[E]: ...
    def pending_under(self, old_keys: Container[bytes]) -> Sequence[tuple[int, E]]: ...
    def restore(self, entry: E) -> None: ...
    def apply_within(self, producer_id: int, entry: E) -> None: ...
    def append_pairs(self, pairs: Sequence[Pair], within: Within | None, headers: tuple[Header, ...] = ()) -> None: ...


async def rewrite_old(to: Rewritable[E]) -> None:
    """Rewrite everything of the earlier format; only what compaction has yet to remove is left."""
    if not to.has_old:
        return
    count = len(to.old_keys)
    try:
        await _rewrite_all(to)
    except StorageExhausted as refusal:
        # The log says the same as ever, and can be used. What is left goes as for a record that is too large.
        log.warning("%s: not all records of an earlier format are rewritten: %s", to.partition.name, refusal)
    if count:
        log.info("%s: rewrote %d records of an earlier format", to.partition.name, count - len(to.old_keys))


async def _rewrite_all(to: Rewritable[E]) -> None:
    for entry in to.implied_by_old():
        to.append_pairs([to.encode(entry)], None, (REWRITTEN,))
        to.restore(entry)
    _rewrite_pending(to)
    keys = list(to.old_keys)
    for first in range(0, len(keys), KEYS_AT_ONCE):
        if to.is_ended:
            return
        _rewrite(to, keys[first : first + KEYS_AT_ONCE])
        await asyncio.sleep(0)


def forget_old(to: Rewritable[E], entries: Sequence[E]) -> None:
    """These records replaced some of the earlier format, which must not reappear when they are deleted."""
    keys = [key for key in map(to.old_key, entries) if key in to.old_keys]
    if keys:
        with suppress(StorageExhausted, RecordTooLarge):  # what was written stands; the next start sees to the rest
            _delete(to, keys)


def _rewrite(to: Rewritable[E], keys: Sequence[bytes]) -> None:
    """Write the entries under old keys again, and delete the old keys, in one batch if it can hold all."""
    pairs = [pair for key in keys for pair in (*_known_under(to, key), (key, None))]
    try:
        to.append_pairs(pairs, None, (REWRITTEN,))
    except RecordTooLarge as refusal:
        if len(keys) == 1:
            # It stays as it is, and goes when something else is written under its key.
            log.warning("%s: a record of an earlier format is not rewritten: %s", to.partition.name, refusal)
            return
        for key in keys:
            _rewrite(to, [key])
        return
    for key in keys:
        del to.old_keys[key]


def _rewrite_pending(to: Rewritable[E]) -> None:
    pending = list(_open(to))
    keys = list(dict.fromkeys(to.old_key(entry) for _, entry in pending))
    for key in keys:
        for pair in _known_under(to, key):
            to.append_pairs([pair], None, (REWRITTEN,))
    for within, entry in pending:
        to.append_pairs([to.encode(entry)], within, (REWRITTEN,))
        to.apply_within(within.producer_id, entry)
    if keys:
        _delete(to, keys)


def _open(to: Rewritable[E]) -> Iterator[tuple[Within, E]]:
    for producer_id, entry in to.pending_under(to.old_keys):
        producer = to.partition.log.producers.get(producer_id)
        assert producer is not None
        assert producer.transaction_start is not None, f"producer {producer_id} has ended its transaction"
        yield Within(producer_id, producer.epoch), entry


def _known_under(to: Rewritable[E], old_key: bytes) -> list[Pair]:
    entry = to.find_under(old_key)
    return [] if entry is None else [to.encode(entry)]


def _delete(to: Rewritable[E], keys: Sequence[bytes]) -> None:
    to.append_pairs([(key, None) for key in keys], None, (REWRITTEN,))
    for key in keys:
        del to.old_keys[key]
