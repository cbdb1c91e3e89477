"""Settings: the catalogue, resolution, altering, describing and documenting.

`catalogue` lists the settings: names, types, defaults and meaning. `broker_config` and `topic_config` hold the values,
`resolution` determines the effective ones for a broker, a topic or a group, and `live_config` follows changes while the
node runs. `alter` and `describe` work on the settings of one thing, `resources` finds that thing in the metadata and
records the change, and `loggers` sets levels of log lines. `reference` writes docs/configuration.md. `internal_topics`
has the rules for the broker's own topics.
"""

from barnabas.services.settings.alter import (
    AlterOperation,
    SettingChange,
    alter_broker,
    alter_group,
    alter_incrementally,
    alter_topic,
    check_broker_settings,
    check_thread_counts,
    overlaid,
    replace_group,
    replace_topic,
)
from barnabas.services.settings.catalogue.group_settings import GROUP_SETTINGS
from barnabas.services.settings.catalogue.setting import InvalidSetting, Setting, SettingType
from barnabas.services.settings.catalogue.topic_settings import TOPIC_SETTINGS
from barnabas.services.settings.describe import (
    ConfigSource,
    DescribedSetting,
    Synonym,
    describe_broker,
    describe_broker_defaults,
    describe_group,
    describe_topic,
)
from barnabas.services.settings.resolution import check_topic_settings, resolve_topic, topic_setting
from barnabas.services.settings.topic_config import DeliverySemantics, RecordValidation, TopicConfig

__all__ = [
    "GROUP_SETTINGS",
    "TOPIC_SETTINGS",
    "AlterOperation",
    "ConfigSource",
    "DeliverySemantics",
    "DescribedSetting",
    "InvalidSetting",
    "RecordValidation",
    "Setting",
    "SettingChange",
    "SettingType",
    "Synonym",
    "TopicConfig",
    "alter_broker",
    "alter_group",
    "alter_incrementally",
    "alter_topic",
    "check_broker_settings",
    "check_thread_counts",
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
