"""The groups and committed offsets of one partition of `__consumer_offsets`, led here."""

from collections.abc import Callable, Container, Hashable, Sequence
from typing import ClassVar

from barnabas.core.coordination import Reply, TimerChange
from barnabas.core.errors import BarnabasError
from barnabas.core.groups import classic, old_encoding
from barnabas.core.groups.classic_state import ClassicSoft
from barnabas.core.groups.decision import Outcome, TimerKey
from barnabas.core.groups.encoding import decode, encode_key, encode_value
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.records import GroupEntry, GroupTombstone, OffsetRecord
from barnabas.runtime.clock import Clock
from barnabas.runtime.coordinator import Coordinator
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition

OnTimer = Callable[["GroupCoordinator", TimerKey], None]
AfterLoad = Callable[["GroupCoordinator"], Sequence[TimerChange]]


class GroupCoordinator(Coordinator[GroupEntry]):
    """Groups, what is replicated of them and what is not."""

    WHAT: ClassVar[str] = "groups"

    def __init__(
        self,
        partition: Partition,
        *,
        soft: ClassicSoft,
        offload: Offload,
        clock: Clock,
        on_timer: OnTimer,
        after_load: AfterLoad,
    ) -> None:
        super().__init__(partition, offload=offload, clock=clock)
        self.groups = Groups()
        self.soft = soft
        self._on_timer = on_timer
        self._after_load = after_load

    def encode(self, entry: GroupEntry) -> tuple[bytes, bytes | None]:
        return encode_key(entry), encode_value(entry)

    def decode(self, key: bytes, value: bytes | None) -> GroupEntry:
        return decode(key, value)

    def is_old(self, key: bytes) -> bool:
        return old_encoding.is_old(key)

    def old_key(self, entry: GroupEntry) -> bytes:
        return old_encoding.encode_key(entry)

    def find_under(self, old_key: bytes) -> GroupEntry | None:
        tombstone = old_encoding.decode(old_key, None)
        assert isinstance(tombstone, GroupTombstone)
        return self.groups.find(tombstone)

    def implied_by_old(self) -> Sequence[GroupEntry]:
        return self.groups.ended_in_old_log()

    def pending_under(self, old_keys: Container[bytes]) -> Sequence[tuple[int, GroupEntry]]:
        return [
            (producer_id, pending.record)
            for producer_id, pending in self.groups.all_pending()
            if self.old_key(pending.record) in old_keys
        ]

    def apply(self, entry: GroupEntry) -> None:
        self.groups.apply(entry)

    def restore(self, entry: GroupEntry) -> None:
        self.groups.restore(entry)

    def apply_within(self, producer_id: int, entry: GroupEntry) -> None:
        self.groups.apply_pending(producer_id, entry)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.groups.end_transaction(producer_id, is_commit=is_commit)

    def after_load(self) -> Sequence[TimerChange]:
        return self._after_load(self)

    def on_timer(self, key: Hashable) -> None:
        assert isinstance(key, TimerKey)
        self._on_timer(self, key)

    def give_up(self, records: Sequence[GroupEntry], error: BarnabasError) -> Outcome:
        timers: list[TimerChange] = []
        replies: list[Reply] = []
        for group in dict.fromkeys(each.group for each in records if not isinstance(each, OffsetRecord)):
            reset = classic.reset(self.groups, self.soft, group, error)
            timers += reset.timers
            replies += reset.replies
        return Outcome((), replies, timers)
