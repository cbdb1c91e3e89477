"""Settings of topics and brokers: decided (`topic_config`), altered (`alter`), described (`describe`, `reference`).

The names and their meaning are in `services.catalogue`, the broker's own in `services.broker_config`. The settings of
groups and of client metrics, once there, are catalogues of their own beside those.
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
    describe_topic,
)
from barnabas.services.settings.topic_config import (
    DeliverySemantics,
    TopicConfig,
    check_topic_settings,
    resolve_topic,
    topic_setting,
)

__all__ = [
    "TOPIC_SETTINGS",
    "Change",
    "DeliverySemantics",
    "DescribedSetting",
    "InvalidSetting",
    "Operation",
    "Setting",
    "SettingType",
    "Source",
    "Synonym",
    "TopicConfig",
    "alter_broker",
    "alter_incrementally",
    "alter_topic",
    "check_broker_settings",
    "check_topic_settings",
    "describe_broker",
    "describe_broker_defaults",
    "describe_topic",
    "overlaid",
    "replace_topic",
    "resolve_topic",
    "topic_setting",
]
