"""Settings of share groups (KIP-932), under Kafka's names: the broker's, and those of a group itself.

The broker's are a part of `BrokerConfig`. What a group sets itself is bounded by the broker's `min` and `max`.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from barnabas.core.groups.settings import ShareConfig
from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import BrokerName, InvalidSetting, Setting, SettingType

INT, SHORT, STRING, BOOLEAN = SettingType.INT, SettingType.SHORT, SettingType.STRING, SettingType.BOOLEAN
SHARE: Final = ShareConfig()
HOUR_MS: Final = 3_600_000
LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
LETTER_COPIES: Final = "errors.deadletterqueue.copy.record.enable"
LETTERS_ALLOWED: Final = "errors.deadletterqueue.group.enable"
"""The setting of a topic that lets it take dead letters."""
ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
OFFSET_RESET: Final = r"latest|earliest|by_duration:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?"


class ShareSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of share groups, and of the topic that their state is kept in."""

    group_share_heartbeat_interval_ms: Annotated[
        int, About(INT, "The heartbeat interval of members of share groups.", at_least=1)
    ] = SHARE.heartbeat_interval_ms
    group_share_min_heartbeat_interval_ms: Annotated[
        int, About(INT, "The shortest heartbeat interval that a share group may set for itself.", at_least=1)
    ] = 5_000
    group_share_max_heartbeat_interval_ms: Annotated[
        int, About(INT, "The longest heartbeat interval that a share group may set for itself.", at_least=1)
    ] = 15_000
    group_share_session_timeout_ms: Annotated[
        int, About(INT, "A member of a share group that sends no heartbeat for this long is removed.", at_least=1)
    ] = SHARE.session_timeout_ms
    group_share_min_session_timeout_ms: Annotated[
        int, About(INT, "The shortest session timeout that a share group may set for itself.", at_least=1)
    ] = 45_000
    group_share_max_session_timeout_ms: Annotated[
        int, About(INT, "The longest session timeout that a share group may set for itself.", at_least=1)
    ] = 60_000
    group_share_max_size: Annotated[int, About(INT, "The most members of a share group.", at_least=1, at_most=1000)] = (
        SHARE.max_size
    )
    group_share_max_share_sessions: Annotated[
        int, About(INT, "The most share sessions of members with this broker.", at_least=1)
    ] = 2000
    group_share_delivery_count_limit: Annotated[
        int,
        About(INT, "How often a record is delivered to a share group at most.", at_least=2, at_most=10),
    ] = SHARE.limits.delivery_limit
    group_share_min_delivery_count_limit: Annotated[
        int, About(INT, "The lowest delivery limit that a share group may set for itself.", at_least=2, at_most=5)
    ] = 2
    group_share_max_delivery_count_limit: Annotated[
        int, About(INT, "The highest delivery limit that a share group may set for itself.", at_least=5, at_most=25)
    ] = 10
    group_share_record_lock_duration_ms: Annotated[
        int,
        About(
            INT,
            "For how long a member of a share group has a record that it fetched.",
            at_least=1000,
            at_most=HOUR_MS,
        ),
    ] = SHARE.limits.lock_duration_ms
    group_share_min_record_lock_duration_ms: Annotated[
        int,
        About(INT, "The shortest lock duration that a share group may set for itself.", at_least=1000, at_most=30_000),
    ] = 15_000
    group_share_max_record_lock_duration_ms: Annotated[
        int,
        About(
            INT, "The longest lock duration that a share group may set for itself.", at_least=30_000, at_most=HOUR_MS
        ),
    ] = 60_000
    group_share_partition_max_record_locks: Annotated[
        int,
        About(
            INT,
            "The most records of a partition that are with members of a share group, or to be delivered to it again.",
            at_least=100,
            at_most=10_000,
        ),
    ] = SHARE.limits.max_locks
    group_share_min_partition_max_record_locks: Annotated[
        int,
        About(INT, "The lowest number of locks that a share group may set for itself.", at_least=100, at_most=2000),
    ] = 100
    group_share_max_partition_max_record_locks: Annotated[
        int,
        About(INT, "The highest number of locks that a share group may set for itself.", at_least=2000, at_most=10_000),
    ] = 4000

    errors_deadletterqueue_auto_create_topics_enable: Annotated[
        bool,
        About(
            BOOLEAN,
            "Whether the dead-letter topic of a share group is created when the first letter is written.",
            is_dynamic=True,
        ),
    ] = False
    errors_deadletterqueue_topic_name_prefix: Annotated[
        str,
        About(
            STRING, "What the names of dead-letter topics of share groups begin with. Empty: anything.", is_dynamic=True
        ),
    ] = "dlq."

    share_coordinator_state_topic_num_partitions: Annotated[
        int, About(INT, "The number of partitions of __share_group_state when it is created.", at_least=1)
    ] = 50
    share_coordinator_state_topic_replication_factor: Annotated[
        int | None,
        About(
            SHORT,
            "The replication factor of __share_group_state when it is created. Unset: 3, or as many as there are nodes "
            "then, if they are fewer.",
            at_least=1,
        ),
    ] = None
    share_coordinator_state_topic_min_isr: Annotated[
        int,
        About(
            SHORT,
            "The min.insync.replicas of __share_group_state when it is created, or all replicas if they are fewer.",
            at_least=1,
        ),
    ] = 2
    share_coordinator_state_topic_segment_bytes: Annotated[
        int, About(INT, "The segment size of __share_group_state when it is created.", at_least=1024 * 1024)
    ] = 104_857_600

    def __post_init__(self) -> None:
        for name, (least, most) in self.bounds().items():
            if most < least:
                high, low = (f"group.{name.replace('share.', f'share.{end}.', 1)}" for end in ("max", "min"))
                raise InvalidSetting(high, f"{high} must not be below {low}")
        if self.group_share_session_timeout_ms <= self.group_share_heartbeat_interval_ms:
            raise InvalidSetting(
                "group.share.session.timeout.ms",
                "group.share.session.timeout.ms must be above group.share.heartbeat.interval.ms",
            )

    def bounds(self) -> Mapping[str, tuple[int, int]]:
        """The least and the most of what a group may set for itself."""
        return {
            "share.heartbeat.interval.ms": (
                self.group_share_min_heartbeat_interval_ms,
                self.group_share_max_heartbeat_interval_ms,
            ),
            "share.session.timeout.ms": (
                self.group_share_min_session_timeout_ms,
                self.group_share_max_session_timeout_ms,
            ),
            "share.delivery.count.limit": (
                self.group_share_min_delivery_count_limit,
                self.group_share_max_delivery_count_limit,
            ),
            "share.record.lock.duration.ms": (
                self.group_share_min_record_lock_duration_ms,
                self.group_share_max_record_lock_duration_ms,
            ),
            "share.partition.max.record.locks": (
                self.group_share_min_partition_max_record_locks,
                self.group_share_max_partition_max_record_locks,
            ),
        }


SHARE_GROUP_SETTINGS: Final = (
    Setting(
        name=LETTER_COPIES,
        kind=BOOLEAN,
        default="false",
        doc="Whether a dead letter has key, value and headers of its record, and not only says where the record is.",
    ),
    Setting(
        name=LETTER_TOPIC,
        kind=STRING,
        default="",
        doc="The topic that gets a dead letter for each record which members of the group reject, or which was "
        "delivered as often as it may be. Empty: there are no dead letters.",
    ),
    Setting(
        name="share.auto.offset.reset",
        kind=STRING,
        default="latest",
        pattern=OFFSET_RESET,
        pattern_says="latest, earliest or by_duration:<ISO 8601 duration>",
        doc="Where a share group begins to read a partition.",
    ),
    Setting(
        name="share.delivery.count.limit",
        kind=INT,
        at_least=2,
        broker_names=(BrokerName("group.share.delivery.count.limit"),),
        doc="How often a record is delivered to the group at most.",
    ),
    Setting(
        name="share.heartbeat.interval.ms",
        kind=INT,
        at_least=1,
        broker_names=(BrokerName("group.share.heartbeat.interval.ms"),),
        doc="The heartbeat interval of the members of a share group.",
    ),
    Setting(
        name="share.isolation.level",
        kind=STRING,
        default="read_uncommitted",
        choices=ISOLATION_LEVELS,
        doc="Whether a share group gets records of transactions that are not committed.",
    ),
    Setting(
        name="share.partition.max.record.locks",
        kind=INT,
        at_least=100,
        broker_names=(BrokerName("group.share.partition.max.record.locks"),),
        doc="The most records of a partition that are with members of the group, or to be delivered to it again.",
    ),
    Setting(
        name="share.partition.max.waiting.records",
        kind=INT,
        default=str(SHARE.limits.max_waiting),
        at_least=100,
        at_most=50_000,
        doc="The most records of a partition that wait for their backoff to end; with as many, nothing new is "
        "delivered.",
    ),
    Setting(
        name="share.record.lock.duration.ms",
        kind=INT,
        at_least=1000,
        broker_names=(BrokerName("group.share.record.lock.duration.ms"),),
        doc="For how long a member of the group has a record that it fetched.",
    ),
    Setting(
        name="share.renew.acknowledge.enable",
        kind=BOOLEAN,
        default="true",
        doc="Whether members of a share group may renew the locks of records that they have.",
    ),
    Setting(
        name="share.retry.backoff.max.ms",
        kind=INT,
        default=str(SHARE.limits.backoff.most_ms),
        at_least=1,
        at_most=24 * HOUR_MS,
        doc="The longest time that a record waits until it is delivered again.",
    ),
    Setting(
        name="share.retry.backoff.ms",
        kind=INT,
        default=str(SHARE.limits.backoff.first_ms),
        at_least=0,
        at_most=24 * HOUR_MS,
        doc="How long a record that was released, or whose lock has run out, waits until it is delivered again: after "
        "its first delivery, twice as long after the next, and so on. 0: not at all.",
    ),
    Setting(
        name="share.session.timeout.ms",
        kind=INT,
        at_least=1,
        broker_names=(BrokerName("group.share.session.timeout.ms"),),
        doc="A member of a share group that sends no heartbeat for this long is removed.",
    ),
)
"""The settings that a share group may override."""
