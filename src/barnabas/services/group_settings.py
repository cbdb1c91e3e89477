"""The broker's settings of groups and committed offsets, under Kafka's names: a part of `BrokerConfig`.

Values are checked when a configuration is made; `groups.GroupConfig` is what groups read.
"""

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

import msgspec

from barnabas.core.groups.assignors import ASSIGNORS
from barnabas.services.catalogue.field import About
from barnabas.services.catalogue.setting import InvalidSetting, SettingType

INT, LIST, LONG, SHORT, STRING = (
    SettingType.INT,
    SettingType.LIST,
    SettingType.LONG,
    SettingType.SHORT,
    SettingType.STRING,
)
UNLIMITED: Final = 2**31 - 1
MIGRATION_POLICIES: Final = ("bidirectional", "upgrade", "downgrade", "disabled")


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of groups, classic and consumer, and of the topic they are kept in."""

    offsets_topic_num_partitions: Annotated[
        int, About(INT, "Partitions of the topic of groups and committed offsets, when it is made.", at_least=1)
    ] = 50
    offsets_topic_replication_factor: Annotated[
        int, About(SHORT, "Replicas of the topic of groups and committed offsets, when it is made.", at_least=1)
    ] = 1
    offsets_topic_segment_bytes: Annotated[
        int,
        About(INT, "Segment size of the topic of groups and committed offsets, when it is made.", at_least=1024 * 1024),
    ] = 104_857_600
    offsets_retention_minutes: Annotated[
        int, About(INT, "How long committed offsets are kept that nobody uses any more.", at_least=1)
    ] = 10_080
    offsets_retention_check_interval_ms: Annotated[
        int, About(LONG, "How often committed offsets are looked over for expired ones.", at_least=1)
    ] = 600_000
    offset_metadata_max_bytes: Annotated[
        int, About(INT, "The most characters that a client may keep beside a committed offset.", at_least=0)
    ] = 4096

    group_initial_rebalance_delay_ms: Annotated[
        int, About(INT, "How long a new group waits for more members before its first rebalance.", at_least=0)
    ] = 3_000
    group_min_session_timeout_ms: Annotated[
        int, About(INT, "The shortest session timeout that a member of a classic group may ask for.", at_least=1)
    ] = 6_000
    group_max_session_timeout_ms: Annotated[
        int, About(INT, "The longest session timeout that a member of a classic group may ask for.", at_least=1)
    ] = 1_800_000
    group_max_size: Annotated[int, About(INT, "How many members a classic group may have.", at_least=1)] = UNLIMITED

    group_consumer_heartbeat_interval_ms: Annotated[
        int, About(INT, "How often members of a consumer group (KIP-848) are told to heartbeat.", at_least=1)
    ] = 5_000
    group_consumer_session_timeout_ms: Annotated[
        int, About(INT, "A member of a consumer group that is silent this long is out.", at_least=1)
    ] = 45_000
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
    group_consumer_max_size: Annotated[int, About(INT, "How many members a consumer group may have.", at_least=1)] = (
        UNLIMITED
    )
    group_consumer_assignors: Annotated[
        tuple[str, ...],
        About(
            LIST,
            "The assignors that members of consumer groups may ask for. The first is the default.",
            choices=ASSIGNORS,
        ),
    ] = ASSIGNORS
    group_consumer_assignment_interval_ms: Annotated[
        int,
        About(INT, "A large consumer group gets a new assignment at most this often.", at_least=0, is_dynamic=True),
    ] = 1_000
    group_consumer_min_assignment_interval_ms: Annotated[
        int, About(INT, "The shortest assignment interval that a group may set for itself.", at_least=0)
    ] = 0
    group_consumer_max_assignment_interval_ms: Annotated[
        int, About(INT, "The longest assignment interval that a group may set for itself.", at_least=0)
    ] = 15_000
    group_consumer_migration_policy: Annotated[
        str,
        About(STRING, "Which groups are converted while members use them.", choices=MIGRATION_POLICIES),
    ] = "bidirectional"


Bounds: TypeAlias = Mapping[str, tuple[int, int]]


def bounds_of(settings: GroupSettings) -> dict[str, tuple[int, int]]:
    """The least and the most of what a group may set for itself. The broker's own value may lie outside, here."""
    return {
        "consumer.heartbeat.interval.ms": (
            settings.group_consumer_min_heartbeat_interval_ms,
            settings.group_consumer_max_heartbeat_interval_ms,
        ),
        "consumer.session.timeout.ms": (
            settings.group_consumer_min_session_timeout_ms,
            settings.group_consumer_max_session_timeout_ms,
        ),
        "consumer.assignment.interval.ms": (
            settings.group_consumer_min_assignment_interval_ms,
            settings.group_consumer_max_assignment_interval_ms,
        ),
    }


def check_group_settings(settings: GroupSettings) -> None:
    """Refuse settings that do not fit together."""
    if settings.group_max_session_timeout_ms < settings.group_min_session_timeout_ms:
        raise InvalidSetting(
            "group.max.session.timeout.ms",
            "group.max.session.timeout.ms must not be below group.min.session.timeout.ms",
        )
    if settings.group_consumer_session_timeout_ms <= settings.group_consumer_heartbeat_interval_ms:
        raise InvalidSetting(
            "group.consumer.session.timeout.ms",
            "group.consumer.session.timeout.ms must be above group.consumer.heartbeat.interval.ms",
        )
    for name, (least, most) in bounds_of(settings).items():
        if most < least:
            high, low = (f"group.{name.replace('consumer.', f'consumer.{end}.', 1)}" for end in ("max", "min"))
            raise InvalidSetting(high, f"{high} must not be below {low}")
    if not settings.group_consumer_assignors:
        raise InvalidSetting("group.consumer.assignors", "group.consumer.assignors must name at least one")
