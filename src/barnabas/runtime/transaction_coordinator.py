"""The transactional ids of one partition of `__transaction_state`, led here."""

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import ClassVar

from barnabas.core.coordination import Outcome, TimerChange, Within
from barnabas.core.errors import BarnabasError
from barnabas.core.transactions import listing, old_encoding
from barnabas.core.transactions.decision import TransactionTimer
from barnabas.core.transactions.encoding import decode, encode_key, encode_value
from barnabas.core.transactions.ending import MarkersDue, markers_due
from barnabas.core.transactions.expiring import timers_after_load
from barnabas.core.transactions.records import TransactionEntry, TransactionRecord
from barnabas.core.transactions.transactions import Transactions
from barnabas.runtime.clock import Clock
from barnabas.runtime.coordinator import Coordinator
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition

OnTransaction = Callable[["TransactionCoordinator", str], None]


class TransactionCoordinator(Coordinator[TransactionEntry]):
    """Transactions by their ids."""

    WHAT: ClassVar[str] = "transactions"

    def __init__(
        self,
        partition: Partition,
        *,
        offload: Offload,
        clock: Clock,
        on_prepared: OnTransaction,
        on_timeout: OnTransaction,
    ) -> None:
        super().__init__(partition, offload=offload, clock=clock)
        self.transactions = Transactions()
        self._on_prepared = on_prepared
        self._on_timeout = on_timeout

    @property
    def coordinator_epoch(self) -> int:
        """The epoch in its markers, which distinguishes them from those of a replaced coordinator."""
        return self.leader_epoch

    def encode(self, entry: TransactionEntry) -> tuple[bytes, bytes | None]:
        return encode_key(entry), encode_value(entry)

    def decode(self, key: bytes, value: bytes | None) -> TransactionEntry:
        return decode(key, value)

    def is_old(self, key: bytes) -> bool:
        return old_encoding.is_old(key)

    def old_key(self, entry: TransactionEntry) -> bytes:
        return old_encoding.encode_key(entry)

    def find_under(self, old_key: bytes) -> TransactionEntry | None:
        return self.transactions.get(old_encoding.decode(old_key, None).transactional_id)

    def apply(self, entry: TransactionEntry) -> None:
        self.transactions.apply(entry)

    def carry_out(self, outcome: Outcome[TransactionEntry], *, within: Within | None = None) -> bool:
        is_written = super().carry_out(outcome, within=within)
        # Here, and not by whoever asked for the end: that one may be gone before it is durable.
        for entry in outcome.records if is_written else ():
            if isinstance(entry, TransactionRecord) and entry.state.is_prepared:
                self._on_prepared(self, entry.transactional_id)
        return is_written

    def after_load(self) -> Sequence[TimerChange]:
        return timers_after_load(self.transactions, self._clock.now_ms())

    def on_timer(self, key: Hashable) -> None:
        assert isinstance(key, TransactionTimer)
        self._on_timeout(self, key.transactional_id)

    # What others look at, once the decisions that made it are on disk

    async def markers_due(self, transactional_id: str) -> MarkersDue | None:
        """The markers to write, once the decision is on disk: else a crash could undo that, but not the markers."""

        def look() -> MarkersDue | None:
            record = self.transactions.get(transactional_id)
            return None if record is None else markers_due(record)

        try:
            return await self.read(look, is_own=True)
        except BarnabasError:
            return None  # it coordinates no more: whoever does next sees to it

    async def list_transactions(
        self, *, states: Collection[str], producer_ids: Collection[int], longer_than_ms: int, id_pattern: str | None
    ) -> list[TransactionRecord]:
        """The matching transactions."""
        return await self.read(
            partial(
                listing.list_transactions,
                self.transactions,
                states=states,
                producer_ids=producer_ids,
                longer_than_ms=longer_than_ms,
                id_pattern=id_pattern,
                now_ms=self._clock.now_ms(),
            )
        )

    async def describe(self, transactional_id: str) -> TransactionRecord:
        """One transactional id."""
        return await self.read(lambda: listing.describe(self.transactions, transactional_id))
