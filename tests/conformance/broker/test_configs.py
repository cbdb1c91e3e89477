"""Settings by the SDK: of topics, groups, brokers and their loggers."""

from collections.abc import Iterator

import pytest

import barnabas
from barnabas.client.config_admin import ALL_BROKERS, ConfigAdmin, ConfigKind
from barnabas.core.errors import BarnabasError, InvalidConfig, InvalidRequest, UnknownTopicOrPartition
from barnabas.testing.embedded import EmbeddedBroker

BROKER = ConfigKind.BROKER


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with barnabas.embedded() as running:
        yield running


@pytest.fixture
def configs(broker: EmbeddedBroker) -> ConfigAdmin:
    return broker.bus.configs


def value_of(configs: ConfigAdmin, kind: ConfigKind, name: str, setting: str) -> tuple[str | None, str]:
    [found] = configs.describe(kind, name, names=[setting])
    assert found.name == setting
    return found.value, found.source


def test_the_settings_of_a_topic_are_set_and_unset(broker: EmbeddedBroker, configs: ConfigAdmin) -> None:
    broker.bus.create_topic("orders", config={"retention.ms": "1000"})
    assert value_of(configs, ConfigKind.TOPIC, "orders", "retention.ms") == ("1000", "topic")
    configs.alter(ConfigKind.TOPIC, "orders", set_={"cleanup.policy": "compact"}, unset=["retention.ms"])
    assert value_of(configs, ConfigKind.TOPIC, "orders", "cleanup.policy") == ("compact", "topic")
    assert value_of(configs, ConfigKind.TOPIC, "orders", "retention.ms")[1] == "default"
    configs.alter(ConfigKind.TOPIC, "orders", set_={"retention.ms": "5"}, dry_run=True)
    assert value_of(configs, ConfigKind.TOPIC, "orders", "retention.ms")[1] == "default"


def test_one_wrong_setting_changes_none(broker: EmbeddedBroker, configs: ConfigAdmin) -> None:
    broker.bus.create_topic("whole")
    with pytest.raises(InvalidConfig):
        configs.alter(ConfigKind.TOPIC, "whole", set_={"retention.ms": "7", "segment.bytes": "none"})
    assert value_of(configs, ConfigKind.TOPIC, "whole", "retention.ms")[1] == "default"
    with pytest.raises(UnknownTopicOrPartition):
        configs.describe(ConfigKind.TOPIC, "is-not-there")
    with pytest.raises(InvalidRequest, match="nothing to alter"):
        configs.alter(ConfigKind.TOPIC, "whole")


def test_a_group_has_settings_before_it_has_members(configs: ConfigAdmin) -> None:
    configs.alter(ConfigKind.GROUP, "workers", set_={"share.auto.offset.reset": "earliest"})
    assert value_of(configs, ConfigKind.GROUP, "workers", "share.auto.offset.reset") == ("earliest", "group")


def test_a_broker_and_all_brokers(configs: ConfigAdmin) -> None:
    node = "1"
    configs.alter(BROKER, ALL_BROKERS, set_={"max.connections.per.ip": "77"})
    assert value_of(configs, BROKER, node, "max.connections.per.ip") == ("77", "all brokers")
    configs.alter(BROKER, node, set_={"max.connections.per.ip": "78"})
    assert value_of(configs, BROKER, node, "max.connections.per.ip") == ("78", "broker")
    configs.alter(BROKER, node, unset=["max.connections.per.ip"])
    configs.alter(BROKER, ALL_BROKERS, unset=["max.connections.per.ip"])
    assert value_of(configs, BROKER, node, "max.connections.per.ip")[1] == "default"
    with pytest.raises(BarnabasError):
        configs.alter(BROKER, node, set_={"log.dirs": "elsewhere"})
    with pytest.raises(InvalidRequest, match="no broker '99'"):
        configs.describe(BROKER, "99")


def test_the_levels_of_loggers_change_until_the_broker_restarts(configs: ConfigAdmin) -> None:
    before = value_of(configs, ConfigKind.LOGGER, "1", "barnabas.connections")
    configs.alter(ConfigKind.LOGGER, "1", set_={"barnabas.connections": "DEBUG"})
    assert value_of(configs, ConfigKind.LOGGER, "1", "barnabas.connections") == ("DEBUG", "logger")
    configs.alter(ConfigKind.LOGGER, "1", unset=["barnabas.connections"])
    assert value_of(configs, ConfigKind.LOGGER, "1", "barnabas.connections") == before
