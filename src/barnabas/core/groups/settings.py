"""The settings of groups of every kind, and of committed offsets.

Apart from what uses them: a node reads its settings before it has any group. Must not import what decides on groups.
"""

from typing import Final, NamedTuple

import msgspec

from barnabas.core.groups.backoff import Backoff

UNIFORM: Final = "uniform"
RANGE: Final = "range"
ASSIGNORS: Final = (UNIFORM, RANGE)
"""Those of consumer groups."""

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BY_DURATION: Final = "by_duration:"
"""Where a share group begins: at an end of the log, or so long ago."""


class ClassicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of classic groups; defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    max_size: int = 10_000  # group.max.size; Kafka has no limit
    # Members that were told their id and have not joined with it: each is kept for a session. Kafka has no limit.
    max_pending: int = 10_000
    # A new member cannot heartbeat, for it does not know its id: this is how long its join may wait.
    new_member_join_timeout_ms: int = 300_000


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of consumer groups; defaults are Kafka's."""

    heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    max_size: int = 10_000  # group.consumer.max.size; Kafka has no limit
    assignors: tuple[str, ...] = ASSIGNORS  # group.consumer.assignors; the first is the default
    # A target costs time with the size of the group, and a thousand members that join at once would ask for a thousand
    # targets. A group with this many members gets a new one at most once in the interval, a smaller one at once.
    assignment_interval_ms: int = 1_000  # group.consumer.assignment.interval.ms
    large_group_members: int = 100
    # group.consumer.migration.policy, as its two halves.
    upgrades: bool = True
    downgrades: bool = True
    classic_max_size: int = 10_000  # group.max.size, which a group that becomes classic must keep to


class OffsetsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of committed offsets; defaults are Kafka's."""

    metadata_max_chars: int = 4096  # offset.metadata.max.bytes, which Kafka counts in characters
    retention_ms: int = 7 * 24 * 3600 * 1000  # offsets.retention.minutes


class LetterSettings(msgspec.Struct, frozen=True):
    """Where the dead letters of a share group go, and whether they have a copy of their records."""

    topic: str  # errors.deadletterqueue.topic.name
    is_copied: bool = False  # errors.deadletterqueue.copy.record.enable


class ShareLimits(NamedTuple):
    """The settings of a group that count for its share partitions; defaults are Kafka's."""

    lock_duration_ms: int = 30_000  # share.record.lock.duration.ms
    delivery_limit: int = 5  # share.delivery.count.limit
    max_locks: int = 2000  # share.partition.max.record.locks
    allows_renewal: bool = True  # share.renew.acknowledge.enable
    backoff: Backoff = Backoff()
    max_waiting: int = 10_000  # share.partition.max.waiting.records
    has_letters: bool = False  # errors.deadletterqueue.topic.name

    @property
    def halving_from(self) -> int:
        """The number of deliveries from which on batches are halved."""
        return max(2, -(-self.delivery_limit // 2))


class ShareConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of share groups; defaults are Kafka's."""

    heartbeat_interval_ms: int = 5_000  # group.share.heartbeat.interval.ms
    session_timeout_ms: int = 45_000  # group.share.session.timeout.ms
    max_size: int = 200  # group.share.max.size
    limits: ShareLimits = ShareLimits()
    auto_offset_reset: str = LATEST  # share.auto.offset.reset
    is_committed: bool = False  # share.isolation.level
    letters: LetterSettings | None = None  # None: there are no dead letters
