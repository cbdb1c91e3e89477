"""The states of share partitions in one partition of `__share_group_state`, led here."""

from collections.abc import Hashable, Sequence
from typing import ClassVar
from uuid import UUID

from barnabas.core.coordination import TimerChange
from barnabas.core.groups.share.persisted import (
    ShareKey,
    ShareStates,
    StateEntry,
    decide_snapshots,
)
from barnabas.core.groups.share.state_encoding import decode, encode_key, encode_value
from barnabas.runtime.clock import Clock
from barnabas.runtime.coordinator import Coordinator
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition


class ShareCoordinator(Coordinator[StateEntry]):
    """States by group and partition."""

    WHAT: ClassVar[str] = "states of share groups"

    def __init__(self, partition: Partition, *, offload: Offload, clock: Clock) -> None:
        super().__init__(partition, offload=offload, clock=clock)
        self.states = ShareStates()

    def encode(self, entry: StateEntry) -> tuple[bytes, bytes | None]:
        return encode_key(entry), encode_value(entry)

    def decode(self, key: bytes, value: bytes | None) -> StateEntry:
        return decode(key, value)

    def is_old(self, key: bytes) -> bool:  # noqa: ARG002
        return False  # there is one format

    def old_key(self, entry: StateEntry) -> bytes:
        raise NotImplementedError

    def find_under(self, old_key: bytes) -> StateEntry | None:
        raise NotImplementedError

    def apply(self, entry: StateEntry) -> None:
        self.states.apply(entry)

    def after_load(self) -> Sequence[TimerChange]:
        return ()

    def on_timer(self, key: Hashable) -> None:
        raise AssertionError(f"it has no timers, and {key} fired")

    def keys_of_topic(self, topic_id: UUID) -> list[ShareKey]:
        """The states of a topic, of all groups."""
        return sorted(key for key in self.states.by_key if key.topic_id == topic_id)

    async def write_snapshots(self, keys: Sequence[ShareKey]) -> None:
        """Write the whole states of these, so that what is before them in the log is needed no more."""
        await self.commit(lambda: decide_snapshots(self.states, keys, now_ms=self._clock.now_ms()), is_own=True)
