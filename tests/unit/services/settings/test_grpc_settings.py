"""Where gRPC may be served."""

import pytest

from barnabas.services.settings import InvalidSetting
from barnabas.services.settings.broker_config import BrokerConfig

TLS = {"grpc.tls.certificate.file": "c", "grpc.tls.key.file": "k", "grpc.tls.client.ca.file": "a"}


def test_it_is_off_unless_it_is_set() -> None:
    assert BrokerConfig().grpc.address is None


@pytest.mark.parametrize("text", ["127.0.0.1:9095", "localhost:9095", "[::1]:9095"])
def test_an_address_of_this_machine_needs_nothing_else(text: str) -> None:
    address = BrokerConfig.from_properties({"grpc.listener": text}).grpc.address
    assert address is not None
    assert address[1] == 9095


def test_any_other_needs_tls() -> None:
    with pytest.raises(InvalidSetting, match=r"grpc\.tls\.certificate\.file"):
        BrokerConfig.from_properties({"grpc.listener": "0.0.0.0:9095"})
    assert BrokerConfig.from_properties({"grpc.listener": "0.0.0.0:9095", **TLS}).grpc.address == ("0.0.0.0", 9095)


@pytest.mark.parametrize(
    "settings",
    [
        {"grpc.listener": "9095"},
        {"grpc.listener": "127.0.0.1:99999"},
        {"grpc.tls.key.file": "k"},
        {"grpc.tls.client.ca.file": "a"},
        {"grpc.max.streams": "0"},
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting):
        BrokerConfig.from_properties(settings)
