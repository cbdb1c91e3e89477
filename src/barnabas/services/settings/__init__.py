"""Settings: decided (`topic_config`, `group_config`), altered (`alter`), described (`describe`, `reference`).

The names and their meaning are in `services.catalogue`, the broker's own in `services.broker_config`, those of groups
in `group_config`. The settings of client metrics, once there, are a catalogue of their own beside those.
"""

from barnabas.services.catalogue.setting import InvalidSetting, Setting, SettingType
from barnabas.services.catalogue.topic_settings import TOPIC_SETTINGS
from barnabas.services.settings.alter import (
    Change,
    Operation,
    alter_broker,
    alter_incrementally,
    alter_topic,
    check_broker_settings,
    overlaid,
    replace_topic,
)
from barnabas.services.settings.describe import (
    DescribedSetting,
    Source,
    Synonym,
    describe_broker,
    describe_broker_defaults,
    describe_group,
    describe_topic,
)
from barnabas.services.settings.group_config import GROUP_SETTINGS, alter_group, replace_group
from barnabas.services.settings.topic_config import (
    DeliverySemantics,
    RecordValidation,
    TopicConfig,
    check_topic_settings,
    resolve_topic,
    topic_setting,
)

__all__ = [
    "GROUP_SETTINGS",
    "TOPIC_SETTINGS",
    "Change",
    "DeliverySemantics",
    "DescribedSetting",
    "InvalidSetting",
    "Operation",
    "RecordValidation",
    "Setting",
    "SettingType",
    "Source",
    "Synonym",
    "TopicConfig",
    "alter_broker",
    "alter_group",
    "alter_incrementally",
    "alter_topic",
    "check_broker_settings",
    "check_topic_settings",
    "describe_broker",
    "describe_broker_defaults",
    "describe_group",
    "describe_topic",
    "overlaid",
    "replace_group",
    "replace_topic",
    "resolve_topic",
    "topic_setting",
]
