"""The catalogue: names, defaults and limits are Kafka's, texts are read as Kafka reads them."""

import pytest

from barnabas.core.errors import InvalidConfig
from barnabas.services.settings import TopicConfig, resolve_topic
from barnabas.services.settings.broker_config import BROKER_SETTINGS, BrokerConfig, known_broker_names
from barnabas.services.settings.broker_names import rivals
from barnabas.services.settings.catalogue.not_ours import IGNORED_NAMES, known_names
from barnabas.services.settings.catalogue.setting import InvalidSetting, Setting, SettingType
from barnabas.services.settings.catalogue.topic_defaults import TOPIC_DEFAULT_SETTINGS
from barnabas.services.settings.catalogue.topic_settings import TOPIC_SETTINGS
from barnabas.storage.config import LogConfig

KAFKA_TOPIC_SETTINGS = [
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "errors.deadletterqueue.group.enable",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "internal.segment.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
]


def test_the_topic_settings_are_those_of_kafka_and_three_of_our_own() -> None:
    assert list(TOPIC_SETTINGS) == sorted(
        [*KAFKA_TOPIC_SETTINGS, "delivery.semantics", "flush.policy", "record.validation"]
    )


def test_every_setting_a_log_reads_is_in_the_catalogue() -> None:
    assert set(LogConfig.names()) <= set(TOPIC_SETTINGS)


def test_the_defaults_of_the_catalogue_come_to_the_defaults_of_a_topic() -> None:
    defaults = {name: setting.default for name, setting in TOPIC_SETTINGS.items() if setting.default is not None}
    assert resolve_topic(defaults, BrokerConfig()) == TopicConfig() == resolve_topic({}, BrokerConfig())


def test_every_default_is_a_value_its_setting_takes() -> None:
    for setting in [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values(), *TOPIC_DEFAULT_SETTINGS.values()]:
        if setting.default is not None:
            setting.parse(setting.default)


def test_every_setting_says_what_it_is_for_and_whether_it_does_anything() -> None:
    for setting in [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()]:
        assert setting.doc.endswith("."), setting.name
    for setting in TOPIC_SETTINGS.values():
        assert setting.has_effect != ("No effect" in setting.doc or "Only false" in setting.doc), setting.name


def test_types_have_the_numbers_of_a_describe_configs_response() -> None:
    assert {kind.name: kind.value for kind in SettingType} == {
        "UNKNOWN": 0, "BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4,
        "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8, "PASSWORD": 9,
    }  # fmt: skip


def test_broker_names_have_the_units_and_priorities_of_kafka() -> None:
    assert TOPIC_SETTINGS["retention.ms"].broker_name == "log.retention.ms"
    assert rivals("log.retention.hours") == ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert rivals("log.dir") == ("log.dirs", "log.dir")
    assert rivals("num.partitions") == ("num.partitions",)
    assert TOPIC_DEFAULT_SETTINGS["log.retention.hours"].default == "168"
    assert TOPIC_DEFAULT_SETTINGS["log.retention.ms"].default is None
    assert TOPIC_DEFAULT_SETTINGS["message.max.bytes"].default == "1048588"


def test_no_name_is_both_ignored_and_used_and_no_two_share_a_variable() -> None:
    assert not IGNORED_NAMES & {*BROKER_SETTINGS, *TOPIC_DEFAULT_SETTINGS}
    assert known_names() == sorted(set(known_names()))
    variables = [name.upper().replace(".", "_") for name in known_broker_names()]
    assert len(set(variables)) == len(variables)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " +5 ", 5),
        ("retention.ms", "-1", -1),
        ("preallocate", "TRUE", True),
        ("min.cleanable.dirty.ratio", "1e-1", 0.1),
        ("cleanup.policy", "compact , delete", ("compact", "delete")),
        ("cleanup.policy", "", ()),
        ("compression.gzip.level", "-1", -1),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
    ],
)
def test_a_text_is_read_as_kafka_reads_it(name: str, text: str, value: object) -> None:
    assert TOPIC_SETTINGS[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("retention.ms", "soon", "at least -1"),
        ("retention.ms", "1_000", "at least -1"),
        ("retention.ms", "1.5", "at least -1"),
        ("retention.ms", "", "at least -1"),
        ("retention.ms", "-2", "at least -1"),
        ("retention.bytes", str(2**63), "64 bits"),
        ("max.message.bytes", str(2**31), "at least 0"),
        ("segment.bytes", "1024", "at least 1048576"),
        ("preallocate", "yes", "true or false"),
        ("remote.storage.enable", "true", "allowed: false"),
        ("min.cleanable.dirty.ratio", "1.1", "from 0 to 1"),
        ("min.cleanable.dirty.ratio", "NaN", "from 0 to 1"),
        ("cleanup.policy", "shred", "any of compact, delete"),
        ("cleanup.policy", "delete,delete", "any of compact, delete"),
        ("cleanup.policy", "delete,", "any of compact, delete"),
        ("compression.type", "zip", "uncompressed, zstd"),
        ("compression.gzip.level", "0", "from 1 to 9, or -1"),
        ("message.timestamp.type", "createtime", "CreateTime, LogAppendTime"),
        ("delivery.semantics", "always", "at-most-once, at-least-once, exactly-once"),
        ("flush.policy", "never", "fsync, os"),
        ("leader.replication.throttled.replicas", "*,0:1", "partition:broker"),
        ("leader.replication.throttled.replicas", "9" * 5000 + ":1", "partition:broker"),
        ("retention.ms", "9" * 5000, "at least -1"),
    ],
)
def test_a_text_that_is_no_value_is_refused_with_what_is_allowed(name: str, text: str, allowed: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        TOPIC_SETTINGS[name].parse(text)
    assert str(refusal.value).startswith(f"{name} cannot be {text!r}; allowed: ")
    assert allowed in str(refusal.value)
    assert refusal.value.kafka_code == 40


def test_a_value_longer_than_kafka_takes_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="longer than 32767"):
        TOPIC_SETTINGS["leader.replication.throttled.replicas"].parse(",".join(["0:1"] * 10_000))


def test_a_refused_secret_is_not_repeated() -> None:
    secret = Setting(name="key", kind=SettingType.PASSWORD, pattern="[a-z]+", pattern_says="letters", doc="A key.")
    with pytest.raises(InvalidSetting) as refusal:
        secret.parse("Pa55")
    assert "Pa55" not in str(refusal.value)
