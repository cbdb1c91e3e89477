import pytest

from barnabas.edge.http.hosts import HostCheck

CHECK = HostCheck(["node-1.example"], ["https://console.example"])


@pytest.mark.parametrize(
    "host", ["127.0.0.1:9644", "localhost:9644", "[::1]:9644", "node-1.example", "NODE-1.example:1"]
)
def test_addresses_and_own_names_are_good_hosts(host: str) -> None:
    assert CHECK.refuse(host, None) is None


@pytest.mark.parametrize("host", ["evil.example", "", None, "localhost.evil.example", "[", "127.0.0.1.evil.example"])
def test_a_name_that_was_pointed_here_is_refused(host: str | None) -> None:
    assert CHECK.refuse(host, None) is not None


@pytest.mark.parametrize("origin", ["http://127.0.0.1:9644", "https://console.example"])
def test_own_pages_and_allowed_ones_may_call(origin: str) -> None:
    assert CHECK.refuse("127.0.0.1:9644", origin) is None


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://["])
def test_pages_of_other_origins_may_not_call(origin: str) -> None:
    assert CHECK.refuse("127.0.0.1:9644", origin) is not None
