"""Describing settings: values, sources and synonyms as Kafka answers them, and the reference page."""

from pathlib import Path

from barnabas.services.settings import (
    ConfigSource,
    DescribedSetting,
    Synonym,
    describe_broker,
    describe_broker_defaults,
    describe_topic,
)
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.setting import Setting, SettingType
from barnabas.services.settings.catalogue.topic_settings import TOPIC_SETTINGS
from barnabas.services.settings.describe import _described
from barnabas.services.settings.reference import render_reference


def by_name(described: list[DescribedSetting]) -> dict[str, DescribedSetting]:
    return {setting.name: setting for setting in described}


def test_an_untouched_topic_has_the_defaults() -> None:
    described = by_name(describe_topic({}, BrokerConfig()))
    assert set(described) == set(TOPIC_SETTINGS) - {"internal.segment.bytes"}
    assert {setting.source for setting in described.values()} == {ConfigSource.DEFAULT}
    segment_bytes = described["segment.bytes"]
    assert (segment_bytes.value, segment_bytes.type) == ("1073741824", SettingType.INT)
    assert segment_bytes.synonyms == [Synonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT)]
    assert not segment_bytes.is_read_only
    assert not segment_bytes.is_sensitive
    assert described["delivery.semantics"].value is None


def test_a_setting_whose_first_broker_name_is_not_set_has_no_synonym_as_in_kafka() -> None:
    retention = by_name(describe_topic({}, BrokerConfig.from_properties({"log.retention.hours": "1"})))["retention.ms"]
    assert (retention.value, retention.source, retention.synonyms) == ("3600000", ConfigSource.DEFAULT, [])


def test_synonyms_stand_in_the_order_in_which_they_count() -> None:
    broker = BrokerConfig.from_properties({"log.retention.ms": "4", "log.retention.hours": "1"})
    described = describe_topic(
        {"retention.ms": " 1 "},
        broker,
        dynamic={"log.retention.ms": "2"},
        dynamic_default={"log.retention.ms": "3"},
    )
    retention = by_name(described)["retention.ms"]
    assert (retention.value, retention.source) == ("1", ConfigSource.DYNAMIC_TOPIC)
    assert retention.synonyms == [
        Synonym("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC),
        Synonym("log.retention.ms", "2", ConfigSource.DYNAMIC_BROKER),
        Synonym("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Synonym("log.retention.ms", "4", ConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "1", ConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]


def test_an_override_of_a_setting_no_broker_sets_is_its_only_synonym() -> None:
    throttled = by_name(describe_topic({"leader.replication.throttled.replicas": "*"}, BrokerConfig()))
    setting = throttled["leader.replication.throttled.replicas"]
    assert setting.synonyms == [Synonym(setting.name, "*", ConfigSource.DYNAMIC_TOPIC)]


def test_an_internal_setting_is_shown_where_it_was_set() -> None:
    assert "internal.segment.bytes" in by_name(describe_topic({"internal.segment.bytes": "2048"}, BrokerConfig()))


def test_a_broker_shows_what_it_was_started_with_and_what_was_altered() -> None:
    broker = BrokerConfig.from_properties({"num.partitions": "3", "broker.id": "7", "log.retention.hours": "2"})
    described = by_name(describe_broker(broker, dynamic={"log.segment.bytes": "2097152"}))
    assert list(described) == sorted(described)
    partitions = described["num.partitions"]
    assert (partitions.value, partitions.source, partitions.is_read_only) == ("3", ConfigSource.STATIC_BROKER, True)
    assert partitions.synonyms == [
        Synonym("num.partitions", "3", ConfigSource.STATIC_BROKER),
        Synonym("num.partitions", "1", ConfigSource.DEFAULT),
    ]
    assert (described["node.id"].value, described["node.id"].source) == ("7", ConfigSource.STATIC_BROKER)
    segment = described["log.segment.bytes"]
    assert (segment.value, segment.source, segment.is_read_only) == ("2097152", ConfigSource.DYNAMIC_BROKER, False)
    assert described["log.retention.hours"].value == "2"
    assert (described["log.retention.ms"].value, described["log.retention.ms"].synonyms) == (None, [])
    assert described["advertised.listeners"].value is None
    assert described["listeners"].value == "PLAINTEXT://127.0.0.1:9092"


def test_the_defaults_of_all_brokers_are_only_what_was_altered() -> None:
    (described,) = describe_broker_defaults({"log.retention.ms": "5"})
    assert (described.name, described.value, described.source) == (
        "log.retention.ms",
        "5",
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
    )


def test_the_value_of_a_secret_is_never_shown() -> None:
    secret = Setting(name="key", kind=SettingType.PASSWORD, doc="A key.")
    described = _described(secret, "Pa55", [Synonym("key", "Pa55", ConfigSource.STATIC_BROKER)], is_read_only=True)
    assert (described.value, described.is_sensitive) == (None, True)
    assert described.synonyms == [Synonym("key", None, ConfigSource.STATIC_BROKER)]


def test_the_committed_reference_page_is_up_to_date() -> None:
    page = Path(__file__).parents[4] / "docs" / "configuration.md"
    assert page.read_text(encoding="utf-8") == render_reference(), "run: make docs"
