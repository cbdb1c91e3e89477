"""Settings of groups and committed offsets, under Kafka's names: the broker's, and those of a group itself.

The broker's are a part of `BrokerConfig`, checked when they are made. A default is defined in the struct that groups
use, if there is one. Those of share groups are in `share_settings`. Differs from Kafka: streams groups have no settings
here, so theirs are unknown names.
"""

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

import msgspec

from barnabas.core.groups.settings import ASSIGNORS, ClassicConfig, ConsumerConfig, OffsetsConfig
from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import BrokerName, InvalidSetting, Setting, SettingType
from barnabas.services.settings.catalogue.share_settings import SHARE_GROUP_SETTINGS

INT, LIST, LONG, SHORT, STRING = (
    SettingType.INT,
    SettingType.LIST,
    SettingType.LONG,
    SettingType.SHORT,
    SettingType.STRING,
)
MINUTE_MS: Final = 60_000
CLASSIC: Final = ClassicConfig()
CONSUMER: Final = ConsumerConfig()
OFFSETS: Final = OffsetsConfig()
MIGRATION_POLICIES: Final = ("bidirectional", "upgrade", "downgrade", "disabled")


Bounds: TypeAlias = Mapping[str, tuple[int, int]]


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of groups, classic and consumer, and of the topic they are kept in."""

    offsets_topic_num_partitions: Annotated[
        int, About(INT, "The number of partitions of __consumer_offsets when it is created.", at_least=1)
    ] = 50
    offsets_topic_replication_factor: Annotated[
        int | None,
        About(
            SHORT,
            "The replication factor of __consumer_offsets when it is created. Unset: 3, or as many as there are nodes "
            "then, if they are fewer.",
            at_least=1,
        ),
    ] = None
    offsets_topic_segment_bytes: Annotated[
        int,
        About(INT, "The segment size of __consumer_offsets when it is created.", at_least=1024 * 1024),
    ] = 104_857_600
    offsets_retention_minutes: Annotated[
        int, About(INT, "How long the committed offsets of a group without members are kept.", at_least=1)
    ] = OFFSETS.retention_ms // MINUTE_MS
    offsets_retention_check_interval_ms: Annotated[
        int, About(LONG, "How often committed offsets are checked for expired ones.", at_least=1)
    ] = 600_000
    offset_metadata_max_bytes: Annotated[
        int, About(INT, "The most characters of metadata that a client may commit with an offset.", at_least=0)
    ] = OFFSETS.metadata_max_chars

    group_initial_rebalance_delay_ms: Annotated[
        int, About(INT, "How long a new group waits for more members before its first rebalance.", at_least=0)
    ] = CLASSIC.initial_rebalance_delay_ms
    group_min_session_timeout_ms: Annotated[
        int, About(INT, "The shortest session timeout that a member of a classic group may ask for.", at_least=1)
    ] = CLASSIC.min_session_timeout_ms
    group_max_session_timeout_ms: Annotated[
        int, About(INT, "The longest session timeout that a member of a classic group may ask for.", at_least=1)
    ] = CLASSIC.max_session_timeout_ms
    group_max_size: Annotated[
        int, About(INT, "The most members of a classic group. Kafka has no limit by default.", at_least=1)
    ] = CLASSIC.max_size

    group_consumer_heartbeat_interval_ms: Annotated[
        int, About(INT, "The heartbeat interval of members of consumer groups (KIP-848).", at_least=1)
    ] = CONSUMER.heartbeat_interval_ms
    group_consumer_session_timeout_ms: Annotated[
        int, About(INT, "A member of a consumer group that sends no heartbeat for this long is removed.", at_least=1)
    ] = CONSUMER.session_timeout_ms
    group_consumer_min_heartbeat_interval_ms: Annotated[
        int, About(INT, "The shortest heartbeat interval that a group may set for itself.", at_least=1)
    ] = 5_000
    group_consumer_max_heartbeat_interval_ms: Annotated[
        int, About(INT, "The longest heartbeat interval that a group may set for itself.", at_least=1)
    ] = 15_000
    group_consumer_min_session_timeout_ms: Annotated[
        int, About(INT, "The shortest session timeout that a group may set for itself.", at_least=1)
    ] = 45_000
    group_consumer_max_session_timeout_ms: Annotated[
        int, About(INT, "The longest session timeout that a group may set for itself.", at_least=1)
    ] = 60_000
    group_consumer_max_size: Annotated[
        int, About(INT, "The most members of a consumer group. Kafka has no limit by default.", at_least=1)
    ] = CONSUMER.max_size
    group_consumer_assignors: Annotated[
        tuple[str, ...],
        About(
            LIST,
            "The assignors that members of consumer groups may ask for. The first is the default.",
            choices=ASSIGNORS,
        ),
    ] = CONSUMER.assignors
    group_consumer_assignment_interval_ms: Annotated[
        int,
        About(INT, "The shortest time between two assignments of a large consumer group.", at_least=0, is_dynamic=True),
    ] = CONSUMER.assignment_interval_ms
    group_consumer_min_assignment_interval_ms: Annotated[
        int, About(INT, "The shortest assignment interval that a group may set for itself.", at_least=0)
    ] = 0
    group_consumer_max_assignment_interval_ms: Annotated[
        int, About(INT, "The longest assignment interval that a group may set for itself.", at_least=0)
    ] = 15_000
    group_consumer_migration_policy: Annotated[
        str,
        About(
            STRING,
            "Which groups are converted between the two protocols while members use them.",
            choices=MIGRATION_POLICIES,
        ),
    ] = "bidirectional"

    def __post_init__(self) -> None:
        if self.group_max_session_timeout_ms < self.group_min_session_timeout_ms:
            raise InvalidSetting(
                "group.max.session.timeout.ms",
                "group.max.session.timeout.ms must not be below group.min.session.timeout.ms",
            )
        if self.group_consumer_session_timeout_ms <= self.group_consumer_heartbeat_interval_ms:
            raise InvalidSetting(
                "group.consumer.session.timeout.ms",
                "group.consumer.session.timeout.ms must be above group.consumer.heartbeat.interval.ms",
            )
        for name, (least, most) in self.bounds().items():
            if most < least:
                high, low = (f"group.{name.replace('consumer.', f'consumer.{end}.', 1)}" for end in ("max", "min"))
                raise InvalidSetting(high, f"{high} must not be below {low}")
        if not self.group_consumer_assignors:
            raise InvalidSetting("group.consumer.assignors", "group.consumer.assignors must name at least one")

    def bounds(self) -> Bounds:
        """The least and the most of what a group may set for itself. The broker's own value may lie outside, here."""
        return {
            "consumer.heartbeat.interval.ms": (
                self.group_consumer_min_heartbeat_interval_ms,
                self.group_consumer_max_heartbeat_interval_ms,
            ),
            "consumer.session.timeout.ms": (
                self.group_consumer_min_session_timeout_ms,
                self.group_consumer_max_session_timeout_ms,
            ),
            "consumer.assignment.interval.ms": (
                self.group_consumer_min_assignment_interval_ms,
                self.group_consumer_max_assignment_interval_ms,
            ),
        }


GROUP_SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting
    for setting in (
        *SHARE_GROUP_SETTINGS,
        Setting(
            name="consumer.assignment.interval.ms",
            kind=INT,
            at_least=0,
            broker_names=(BrokerName("group.consumer.assignment.interval.ms"),),
            doc="The shortest time between two assignments of the group while it is large.",
        ),
        Setting(
            name="consumer.assignor.offload.enable",
            kind=SettingType.BOOLEAN,
            default="true",
            has_effect=False,
            doc="In Kafka, whether assignments are computed on a thread of their own. No effect here.",
        ),
        Setting(
            name="consumer.heartbeat.interval.ms",
            kind=INT,
            at_least=1,
            broker_names=(BrokerName("group.consumer.heartbeat.interval.ms"),),
            doc="The heartbeat interval of the group's members.",
        ),
        Setting(
            name="consumer.session.timeout.ms",
            kind=INT,
            at_least=1,
            broker_names=(BrokerName("group.consumer.session.timeout.ms"),),
            doc="A member of the group that sends no heartbeat for this long is removed.",
        ),
    )
}
"""The settings that a group may override, by name. The default is the broker's setting."""
