"""Who may read /metrics: as Prometheus logs in, with the API on the same address and without it."""

import base64
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from barnabas.core.errors import InvalidConfig
from barnabas.node import check_protected
from barnabas.node import http as http_of_node
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.testing.embedded import EmbeddedBroker
from tests.conformance.security.users import PASSWORD, TIMEOUT_S, Admin, http_of, log_in

TOKEN = "0123456789abcdef" * 4
SECURED = {
    "listeners": "CLIENTS://127.0.0.1:0,LOCAL://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,LOCAL:PLAINTEXT",
    "inter.broker.listener.name": "LOCAL",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "connection.failed.authentication.delay.ms": "1",
    "authorizer.class.name": "acl",
    "super.users": "User:ANONYMOUS",
    "http.listener": "127.0.0.1:0",
}


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("metrics") / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture(scope="module", params=["true", "false"])
def broker(token_file: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """One with the API, and one without."""
    more = {"http.api.enable": request.param, "metrics.authentication": "required"}
    with EmbeddedBroker({**SECURED, **more, "metrics.token.file": str(token_file)}) as broker:
        admin = Admin(broker.bootstrap_of("LOCAL"))
        for user in ("scraper", "ann"):
            admin.set_password(user)
        admin.allow("scraper", AclOperation.DESCRIBE, "kafka-cluster", ResourceType.BROKER)
        yield broker


def get(broker: EmbeddedBroker, authorization: str | None, path: str = "/metrics") -> httpx.Response:
    headers = {} if authorization is None else {"Authorization": authorization}
    return httpx.get(broker.http + path, headers=headers, timeout=TIMEOUT_S)


def basic(user: str, password: str = PASSWORD) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def test_metrics_are_for_users_who_may_describe_the_cluster_and_for_the_token_of_the_file(
    broker: EmbeddedBroker,
) -> None:
    for authorization in (basic("scraper"), f"Bearer {TOKEN}", f"bearer {TOKEN}"):
        answer = get(broker, authorization)
        assert (answer.status_code, "barnabas_connections_open" in answer.text) == (200, True)
    denied = get(broker, basic("ann"))
    assert (denied.status_code, "barnabas_" in denied.text) == (403, False)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Basic",
        "Basic !",
        "Basic YQ==",
        basic("scraper", "wrong"),
        basic("nobody"),
        basic("$node-1"),
        "Bearer",
        "Bearer x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        "Bearer \xe4",
        "Digest x",
    ],
)
def test_whoever_else_asks_for_metrics_is_asked_to_log_in(broker: EmbeddedBroker, authorization: str | None) -> None:
    headers = {} if authorization is None else {b"Authorization": authorization.encode("latin-1")}
    refused = httpx.get(f"{broker.http}/metrics", headers=headers, timeout=TIMEOUT_S)
    assert (refused.status_code, "barnabas_" in refused.text) == (401, False)
    assert refused.headers["www-authenticate"].startswith("Basic")


def test_probes_need_no_login(broker: EmbeddedBroker) -> None:
    assert get(broker, None, "/healthz").status_code == 200
    assert get(broker, None, "/readyz").status_code == 200


def test_the_token_of_the_file_is_for_metrics_alone_and_one_of_the_api_for_both(token_file: Path) -> None:
    settings = {**SECURED, "metrics.authentication": "required", "metrics.token.file": str(token_file)}
    with EmbeddedBroker(settings) as broker, http_of(broker) as http:
        admin = Admin(broker.bootstrap_of("LOCAL"))
        admin.set_password("scraper")
        admin.allow("scraper", AclOperation.DESCRIBE, "kafka-cluster", ResourceType.BROKER)
        assert http.get("/topics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 401
        headers = log_in(http, "scraper")
        assert get(broker, headers["Authorization"]).status_code == 200
        admin.delete_user("scraper")
        assert get(broker, headers["Authorization"]).status_code == 401


@pytest.mark.parametrize("anonymous", ["true", "false"])
def test_beyond_this_machine_metrics_need_a_login_unless_strangers_are_allowed(
    monkeypatch: pytest.MonkeyPatch, token_file: Path, anonymous: str
) -> None:
    monkeypatch.setattr(http_of_node, "is_loopback", lambda _: False)
    settings = {**SECURED, "allow.anonymous": anonymous, "metrics.token.file": str(token_file)}
    with EmbeddedBroker(settings) as broker:
        assert get(broker, None).status_code == (200 if anonymous == "true" else 401)
        assert get(broker, f"Bearer {TOKEN}").status_code == 200
        assert get(broker, None, "/readyz").status_code == 200
        if anonymous == "false":
            refused = get(broker, basic("ann"))
            assert (refused.status_code, "TLS" in refused.text) == (403, True)


def test_on_this_machine_metrics_are_open_unless_set_otherwise() -> None:
    with EmbeddedBroker({"http.listener": "127.0.0.1:0", "http.api.enable": "false"}) as broker:
        assert get(broker, None).status_code == 200


@pytest.mark.parametrize(
    ("settings", "is_refused"),
    [
        ({"http.listener": "0.0.0.0:9644"}, True),
        ({"http.listener": ":9644"}, True),
        ({"http.listener": "127.0.0.1:9644", "metrics.authentication": "required"}, True),
        ({"http.listener": "0.0.0.0:9644", "metrics.authentication": "required", "allow.anonymous": "true"}, True),
        ({"http.listener": "0.0.0.0:9644", "listeners": "SSL://127.0.0.1:0", "ssl.client.auth": "required"}, True),
        ({"http.listener": "0.0.0.0:9644", "allow.anonymous": "true"}, False),
        ({"http.listener": "0.0.0.0:9644", "metrics.authentication": "none"}, False),
        ({"http.listener": "0.0.0.0:9644", "metrics.token.file": "/a/file"}, False),
        ({"http.listener": "0.0.0.0:9644", "listeners": "SASL_PLAINTEXT://127.0.0.1:0"}, False),
        ({"http.listener": "[::1]:9644"}, False),
        ({"http.listener": "off"}, False),
    ],
)
def test_a_node_does_not_start_where_nobody_could_log_in_to_read_metrics(
    settings: dict[str, str], is_refused: bool
) -> None:
    config = BrokerConfig.from_properties({"listeners": "PLAINTEXT://127.0.0.1:0", **settings})
    if is_refused:
        with pytest.raises(InvalidConfig, match=r"metrics\.token\.file"):
            check_protected(config)
    else:
        check_protected(config)


@pytest.mark.parametrize("text", [None, "", "too short", "a token with a line\nin it"])
def test_a_file_without_a_token_is_refused_at_the_start(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text)
    settings = {"http.listener": "127.0.0.1:0", "metrics.token.file": str(path)}
    with pytest.raises(InvalidConfig, match=r"metrics\.token\.file"), EmbeddedBroker(settings):
        pass
