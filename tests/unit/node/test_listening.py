"""Which address others are told."""

import pytest

from barnabas.core.errors import InvalidConfig
from barnabas.node.listening import check_advertised, endpoint_of
from barnabas.services.settings.broker_config import BrokerConfig

CLUSTERED = {"listeners": "PLAINTEXT://10.0.0.1:9092,CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.from_properties({name.replace("_", "."): text for name, text in settings.items()})


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_a_listener_on_every_address_must_say_where_it_is_reached(host: str) -> None:
    with pytest.raises(
        InvalidConfig, match=r"set advertised\.listeners=PLAINTEXT://HOST:9092 \(barnabas serve --advertise"
    ):
        check_advertised(config(listeners=f"PLAINTEXT://{host}:9092"))


def test_what_is_advertised_is_told() -> None:
    given = config(listeners="PLAINTEXT://:9092", advertised_listeners="PLAINTEXT://bus.internal:19092")
    check_advertised(given)
    endpoint = endpoint_of(given, given.listeners[0], ("0.0.0.0", 9092))
    assert (endpoint.host, endpoint.port) == ("bus.internal", 19092)


def test_one_address_needs_nothing_more() -> None:
    given = config(listeners="PLAINTEXT://10.0.0.1:9092")
    check_advertised(given)
    assert endpoint_of(given, given.listeners[0], ("10.0.0.1", 9092)).host == "10.0.0.1"


def test_the_listener_for_controllers_must_say_it_as_well() -> None:
    with pytest.raises(InvalidConfig, match="CONTROLLER://HOST:9093"):
        check_advertised(BrokerConfig.from_properties(CLUSTERED))


def test_a_fixed_list_of_voters_has_said_it() -> None:
    given = BrokerConfig.from_properties({**CLUSTERED, "controller.quorum.voters": "1@10.0.0.1:19093"})
    check_advertised(given)
    endpoint = endpoint_of(given, given.controller_listeners[0], ("0.0.0.0", 9093))
    assert (endpoint.host, endpoint.port) == ("10.0.0.1", 19093)
