"""The settings that a consumer group may have of its own, and what they come to over the broker's.

A value is held to the broker's bounds when it is set. The bounds may be others when a broker starts again: then what
was set before counts as far as they allow.

Differs from Kafka: groups of other kinds (share, streams) have no settings here, so theirs are unknown names.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.core.errors import InvalidConfig, InvalidRequest
from barnabas.services.catalogue.setting import BrokerName, InvalidSetting, Setting, SettingType, unknown_setting
from barnabas.services.group_settings import Bounds, GroupSettings, bounds_of
from barnabas.services.settings.alter import Change, alter_incrementally, overlaid

_PREFIX: Final = "consumer."
_SESSION: Final = "consumer.session.timeout.ms"
_HEARTBEAT: Final = "consumer.heartbeat.interval.ms"

GROUP_SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting(
            name="consumer.assignment.interval.ms",
            kind=SettingType.INT,
            at_least=0,
            broker_names=(BrokerName("group.consumer.assignment.interval.ms"),),
            doc="The group, while it is large, gets a new assignment at most this often.",
        ),
        Setting(
            name="consumer.assignor.offload.enable",
            kind=SettingType.BOOLEAN,
            default="true",
            has_effect=False,
            doc="Whether assignments are worked out beside the coordinator's own thread. No effect here.",
        ),
        Setting(
            name=_HEARTBEAT,
            kind=SettingType.INT,
            at_least=1,
            broker_names=(BrokerName("group.consumer.heartbeat.interval.ms"),),
            doc="How often members of the group are told to heartbeat.",
        ),
        Setting(
            name=_SESSION,
            kind=SettingType.INT,
            at_least=1,
            broker_names=(BrokerName("group.consumer.session.timeout.ms"),),
            doc="A member of the group that is silent this long is out.",
        ),
    )
}


def resolve_group(overrides: Mapping[str, str], bounds: Bounds) -> dict[str, int]:
    """The values that a group has for those it sets itself, by the field of `ConsumerConfig` that each is."""
    return {
        field_of(name): min(max(int(overrides[name]), least), most)
        for name, (least, most) in bounds.items()
        if name in overrides
    }


def field_of(name: str) -> str:
    """The field of `ConsumerConfig` that a setting of a group is."""
    return name.removeprefix(_PREFIX).replace(".", "_")


def alter_group(current: Mapping[str, str], changes: Iterable[Change], broker: GroupSettings) -> dict[str, str | None]:
    """What changes of a group's own settings, if it may have the outcome."""
    changed = alter_incrementally(current, changes, settings=GROUP_SETTINGS)
    check_group(overlaid(current, changed), broker)
    return changed


def replace_group(
    current: Mapping[str, str], wanted: Mapping[str, str | None], broker: GroupSettings
) -> dict[str, str | None]:
    """What changes of a group's own settings if these are to be all of them (AlterConfigs)."""
    nulls = sorted(name for name, text in wanted.items() if text is None)
    if nulls:
        raise InvalidRequest(f"settings cannot be null: {', '.join(nulls)}; leave out what the broker shall decide")
    check_group({name: text for name, text in wanted.items() if text is not None}, broker)
    return {**dict.fromkeys(current), **wanted}


def check_group(overrides: Mapping[str, str], broker: GroupSettings) -> None:
    """Refuse settings that a group may not have: unknown, out of bounds, or not fitting together."""
    bounds = bounds_of(broker)
    for name, text in overrides.items():
        if name not in GROUP_SETTINGS:
            raise unknown_setting(name, GROUP_SETTINGS, what="group")
        GROUP_SETTINGS[name].parse(text)
        if name in bounds and not bounds[name][0] <= int(text) <= bounds[name][1]:
            raise InvalidSetting(name, "{} cannot be {}; this broker allows {} to {}".format(name, text, *bounds[name]))
    session_timeout_ms = int(overrides.get(_SESSION, broker.group_consumer_session_timeout_ms))
    heartbeat_interval_ms = int(overrides.get(_HEARTBEAT, broker.group_consumer_heartbeat_interval_ms))
    if session_timeout_ms <= heartbeat_interval_ms:
        raise InvalidConfig(
            f"{_SESSION} must be above {_HEARTBEAT}: {session_timeout_ms} is not above {heartbeat_interval_ms}"
        )
