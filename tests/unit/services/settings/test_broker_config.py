"""The broker's own settings: read by Kafka's names, checked, the names that mean nothing here passed over."""

import pytest

from barnabas.core.errors import InvalidConfig
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.listener import Listener


def test_settings_are_read_by_their_kafka_names() -> None:
    config = BrokerConfig.from_properties(
        {
            "node.id": "3",
            "broker.rack": "a",
            "log.dirs": "/a, /b",
            "auto.create.topics.enable": "false",
            "listeners": "PLAINTEXT://:0",
            "advertised.listeners": "plaintext://broker.example:9092",
            "message.max.bytes": "2000",
        }
    )
    assert (config.node_id, config.broker_rack, config.log_dirs) == (3, "a", ("/a", "/b"))
    assert not config.auto_create_topics_enable
    assert config.listeners == (Listener("PLAINTEXT", "", 0),)
    assert config.advertised("PLAINTEXT") == Listener("PLAINTEXT", "broker.example", 9092)
    assert config.advertised("OTHER") is None
    assert config.message_max_bytes == 2000
    assert config.given["node.id"] == "3"
    assert config.ignored == ()


def test_an_untouched_broker_has_kafkas_defaults() -> None:
    config = BrokerConfig.from_properties({})
    assert config == BrokerConfig()
    assert (config.num_partitions, config.fetch_max_bytes, config.message_max_bytes) == (1, 57671680, 1048588)
    assert str(config.listeners[0]) == "PLAINTEXT://127.0.0.1:9092"


def test_an_ipv6_listener_is_written_as_it_is_read() -> None:
    (listener,) = BrokerConfig.from_properties({"listeners": "PLAINTEXT://[::1]:9092"}).listeners
    assert (listener.host, str(listener)) == ("::1", "PLAINTEXT://[::1]:9092")


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, "7200000"),
        ({"log.retention.minutes": "3", "log.retention.hours": "2"}, "180000"),
        ({"log.retention.ms": "4", "log.retention.minutes": "3", "log.retention.hours": "2"}, "4"),
        ({"log.retention.hours": "-1"}, "-1"),
        ({"log.retention.ms": "-7"}, "-1"),
    ],
)
def test_the_finest_unit_of_retention_counts(properties: dict[str, str], retention_ms: str) -> None:
    assert BrokerConfig.from_properties(properties).topic_defaults == {"retention.ms": retention_ms}


def test_older_names_are_taken_and_the_newer_one_counts() -> None:
    assert BrokerConfig.from_properties({"broker.id": "5"}).node_id == 5
    assert BrokerConfig.from_properties({"log.dir": "/a"}).log_dirs == ("/a",)
    assert BrokerConfig.from_properties({"log.dir": "/a", "log.dirs": "/b"}).log_dirs == ("/b",)


def test_names_without_a_meaning_here_are_passed_over_and_reported() -> None:
    config = BrokerConfig.from_properties(
        {
            "zookeeper.connect": "localhost:2181",
            "num.network.threads": "3",
            "client.quota.callback.class": "",
        }
    )
    assert config.ignored == ("client.quota.callback.class", "num.network.threads", "zookeeper.connect")


def test_listeners_are_for_clients_or_for_controllers() -> None:
    config = BrokerConfig.from_properties(
        {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "controller.listener.names": "controller"}
    )
    assert config.client_listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.controller_listeners == (Listener("CONTROLLER", "", 9093),)
    assert config.quorum.is_broker
    assert config.quorum.is_controller


def test_a_controller_has_no_listener_for_clients() -> None:
    config = BrokerConfig.from_properties(
        {"process.roles": "controller", "listeners": "C://:9093", "controller.listener.names": "C"}
    )
    assert config.client_listeners == ()
    assert not config.quorum.is_broker


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"num.partition": "1"}, "unknown broker setting 'num.partition'; did you mean num.partitions"),
        ({"retention.ms": "1"}, "did you mean log.retention.ms"),
        ({"num.partitions": "0"}, "num.partitions cannot be '0'; allowed: at least 1"),
        ({"num.partitions": ""}, "num.partitions cannot be ''"),
        ({"node.id": "1", "broker.id": "2"}, "node.id is 1 and broker.id is 2"),
        ({"log.roll.hours": "0"}, "log.roll.hours cannot be '0': segment.ms"),
        ({"log.retention.ms": "0"}, "log.retention.ms cannot be 0"),
        ({"log.retention.hours": "x"}, "log.retention.hours cannot be 'x'"),
        ({"log.flush.policy": "never"}, "allowed: fsync, os"),
        ({"authorizer.class.name": "X"}, "authorizer.class.name cannot be 'X'; allowed: acl, org.apache.kafka"),
        ({"super.users": "User:a"}, "super.users has no effect without an authorizer"),
        ({"super.users": "admin", "authorizer.class.name": "acl"}, "super.users has 'admin', which is no principal"),
        ({"allow.everyone.if.no.acl.found": "false"}, "has no effect without an authorizer"),
        ({"sasl.jaas.config": "x"}, "sasl.jaas.config is not supported"),
        ({"ssl.keystore.location": "/node.jks"}, "keytool -importkeystore"),
        ({"ssl.truststore.type": "JKS"}, "keytool -importkeystore"),
        ({"listener.name.inside.ssl.client.auth": "required", "listeners": "SSL://:1"}, "not in listeners"),
        ({"listener.name.ssl.num.partitions": "3", "listeners": "SSL://:1"}, "unknown broker setting"),
        ({"listener.name.ssl.ssl.client.auth": "always", "listeners": "SSL://:1"}, "listener.name.ssl.ssl.client.auth"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms cannot be"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols cannot be"),
        ({"ssl.principal.mapping.rules": "RULE:("}, "a mapping rule cannot be"),
        ({"listeners": "INSIDE://:9093"}, "listener.security.protocol.map has no entry"),
        ({"listener.security.protocol.map": "A:B", "listeners": "A://:1"}, "listener.security.protocol.map cannot be"),
        ({"listeners": "9092"}, "allowed: NAME://host:port"),
        ({"listeners": "PLAINTEXT://:70000"}, "allowed: NAME://host:port"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "two listeners of one name"),
        ({"listeners": "C://:1", "controller.listener.names": "C"}, "at least one address"),
        ({"process.roles": "controller"}, "has only the listeners that controller.listener.names names"),
        ({"process.roles": "voter"}, "allowed: any of broker, controller"),
        ({"controller.quorum.voters": "1@a:1,1@b:2"}, "id@host:port, each id once"),
        ({"controller.quorum.bootstrap.servers": "a"}, "is no host:port"),
        ({"inter.broker.listener.name": "X"}, "is no listener for clients"),
        ({"broker.session.timeout.ms": "2000"}, "must be above broker.heartbeat.interval.ms"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "no client can connect"),
        ({"advertised.listeners": "OTHER://a:1", "listener.security.protocol.map": "OTHER:PLAINTEXT"}, "does not"),
        ({"queued.max.request.bytes": "10"}, "must not be below socket.request.max.bytes"),
    ],
)
def test_what_a_broker_may_not_have_is_refused(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        BrokerConfig.from_properties(properties)
    assert problem in str(refusal.value)


def test_a_listener_may_have_a_name_of_its_own() -> None:
    config = BrokerConfig.from_properties(
        {
            "listeners": "INSIDE://:1,OUTSIDE://:2",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        }
    )
    assert [listener.name for listener in config.listeners] == ["INSIDE", "OUTSIDE"]


def test_a_config_is_checked_however_it_is_made() -> None:
    with pytest.raises(InvalidConfig, match=r"num\.partitions cannot be '0'"):
        BrokerConfig(num_partitions=0)
    with pytest.raises(InvalidConfig, match="unknown topic setting"):
        BrokerConfig(topic_defaults={"log.retention.ms": "1"})
    with pytest.raises(InvalidConfig, match=r"retention\.ms cannot be"):
        BrokerConfig(topic_defaults={"retention.ms": "soon"})
