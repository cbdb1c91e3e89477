"""The groups and committed offsets of one partition of `__consumer_offsets`, led here.

Requests of members pass through here once: to the decision of `core.groups.routing`, and from there to the log.
"""

from collections.abc import Callable, Container, Hashable, Sequence
from typing import ClassVar
from uuid import UUID

from barnabas.core.coordination import Outcome, TimerChange
from barnabas.core.errors import BarnabasError
from barnabas.core.groups import old_encoding, routing
from barnabas.core.groups.classic.messages import (
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    SyncReply,
    SyncRequest,
)
from barnabas.core.groups.classic.state import ClassicSoft
from barnabas.core.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatReply
from barnabas.core.groups.consumer.regexes import Visible, all_visible
from barnabas.core.groups.consumer.state import Topics
from barnabas.core.groups.decision import GroupOutcome, TimerKey
from barnabas.core.groups.encoding import decode, encode_key, encode_value
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.offsets import delete_topic
from barnabas.core.groups.records import GroupEntry, GroupTombstone
from barnabas.core.groups.routing import GroupView
from barnabas.core.groups.settings import ConsumerConfig, ShareConfig
from barnabas.core.groups.share.messages import ShareHeartbeat, ShareHeartbeatReply
from barnabas.runtime.clock import Clock
from barnabas.runtime.coordinator import Coordinator
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition


class GroupCoordinator(Coordinator[GroupEntry]):
    """Groups: their replicated state and their soft state."""

    WHAT: ClassVar[str] = "groups"

    def __init__(
        self,
        partition: Partition,
        *,
        soft: ClassicSoft,
        topics: Topics,
        config_of: Callable[[str], ConsumerConfig],
        share_config_of: Callable[[str], ShareConfig] = lambda _: ShareConfig(),
        visible: Visible = all_visible,
        offload: Offload,
        clock: Clock,
    ) -> None:
        super().__init__(partition, offload=offload, clock=clock)
        self.groups = Groups()
        self.soft = soft
        self._view = GroupView(self.groups, soft, topics, config_of, share_config_of, visible)
        self.topics = topics

    # What members ask

    async def join(self, request: JoinRequest, *, new_member_id: str) -> JoinReply:
        """JoinGroup; waits until the generation is made."""
        now_ms = self._clock.now_ms()
        return await self.ask(
            lambda token: routing.join(self._view, request, token=token, now_ms=now_ms, new_member_id=new_member_id)
        )

    async def sync(self, request: SyncRequest) -> SyncReply:
        """SyncGroup; waits until the leader has assigned."""
        now_ms = self._clock.now_ms()
        return await self.ask(lambda token: routing.sync(self._view, request, token=token, now_ms=now_ms))

    async def heartbeat(self, request: HeartbeatRequest) -> None:
        """Heartbeat."""
        now_ms = self._clock.now_ms()
        return await self.ask(lambda token: routing.heartbeat(self._view, request, token=token, now_ms=now_ms))

    async def leave(self, request: LeaveRequest) -> LeaveReply:
        """LeaveGroup."""
        now_ms = self._clock.now_ms()
        return await self.ask(lambda token: routing.leave(self._view, request, token=token, now_ms=now_ms))

    async def consumer_heartbeat(self, request: ConsumerHeartbeat, *, new_member_id: str) -> ConsumerHeartbeatReply:
        """ConsumerGroupHeartbeat."""
        now_ms = self._clock.now_ms()
        return await self.ask(
            lambda token: routing.consumer_heartbeat(
                self._view, request, token=token, now_ms=now_ms, new_member_id=new_member_id
            )
        )

    async def share_heartbeat(self, request: ShareHeartbeat) -> ShareHeartbeatReply:
        """ShareGroupHeartbeat."""
        now_ms = self._clock.now_ms()
        return await self.ask(lambda token: routing.share_heartbeat(self._view, request, token=token, now_ms=now_ms))

    # Time, topics and failures

    def after_load(self) -> Sequence[TimerChange]:
        return routing.timers_after_load(self._view)

    def on_timer(self, key: Hashable) -> None:
        assert isinstance(key, TimerKey)
        self.carry_out(routing.on_timer(self._view, key, now_ms=self._clock.now_ms()))

    def tell_of_topics(self, group: str) -> None:
        """Topics were created, deleted, grown or moved: update the groups that read them."""
        self.carry_out(routing.on_topics_change(self._view, group, now_ms=self._clock.now_ms()))

    def forget_topic(self, name: str, topic_id: UUID, *, limit: int) -> int | None:
        """Delete the offsets of a deleted topic, about so many at most; returns how many, fewer if those were the last.
        None if that cannot be written.
        """
        found = delete_topic(self.groups, name, topic_id, limit=limit)
        return found.reply if self.carry_out(Outcome(found.records)) else None

    def give_up(self, records: Sequence[GroupEntry], error: BarnabasError) -> GroupOutcome:
        return routing.give_up(self._view, records, error)

    # What the log holds

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
