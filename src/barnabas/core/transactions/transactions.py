"""The replicated state of all transactional ids of one partition of the transaction log.

Owns that state; only `apply` changes it, one entry at a time, live and in a replay. The log is compacted, so each entry
is applied on its own, and a tombstone of an unknown id changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from barnabas.core.transactions.records import TransactionEntry, TransactionRecord, TransactionTombstone


@dataclass(slots=True)
class Transactions:
    """The transactional ids as of the log. Reading is free; only `apply` may change them."""

    by_id: dict[str, TransactionRecord] = field(default_factory=dict)

    def get(self, transactional_id: str) -> TransactionRecord | None:
        return self.by_id.get(transactional_id)

    def apply(self, entry: TransactionEntry) -> None:
        """Apply one entry of the log."""
        if isinstance(entry, TransactionTombstone):
            self.by_id.pop(entry.transactional_id, None)
        else:
            self.by_id[entry.transactional_id] = entry

    def to_records(self) -> Iterator[TransactionRecord]:
        """The records that make empty transactions equal to these."""
        for _, record in sorted(self.by_id.items()):
            yield record
