"""The settings of replicas: Kafka's names and defaults, and what cannot be together."""

import pytest

from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.replica_settings import RACK_AWARE, ReplicaSettings
from barnabas.services.settings.catalogue.setting import InvalidSetting


def test_a_broker_that_is_told_nothing_has_the_defaults_of_kafka() -> None:
    assert BrokerConfig.from_properties({}).replicas == ReplicaSettings()


def test_a_broker_takes_them_by_the_names_of_kafka() -> None:
    config = BrokerConfig.from_properties({"replica.lag.time.max.ms": "1000", "num.replica.fetchers": "4"})
    assert (config.replicas.replica_lag_time_max_ms, config.replicas.num_replica_fetchers) == (1000, 4)


def test_the_only_selector_of_replicas_is_that_by_racks() -> None:
    assert BrokerConfig.from_properties({"replica.selector.class": RACK_AWARE}).replicas.replica_selector_class
    assert BrokerConfig.from_properties({"replica.selector.class": ""}).replicas.replica_selector_class is None
    with pytest.raises(InvalidSetting, match=r"replica\.selector\.class cannot be 'com\.example\.Mine'"):
        BrokerConfig.from_properties({"replica.selector.class": "com.example.Mine"})


@pytest.mark.parametrize("limit", ["replica.socket.timeout.ms", "replica.lag.time.max.ms"])
def test_a_follower_that_waits_longer_than_it_may_is_refused(limit: str) -> None:
    with pytest.raises(InvalidSetting, match=f"must not be above {limit}"):
        BrokerConfig.from_properties({limit: "400"})
