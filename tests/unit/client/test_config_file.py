"""The client file: its names, what counts more, and what is refused."""

from pathlib import Path

import pytest

from barnabas.client.config_file import VARIABLE, completed, read_client_file, secured
from barnabas.client.settings import Settings, default_bootstrap
from barnabas.core.errors import InvalidConfig


def written(path: Path, text: str) -> str:
    file = path / "client.properties"
    file.write_text(text)
    return str(file)


def test_names_of_kafka_become_those_of_librdkafka(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        r"""
        # a comment
        bootstrap.servers = a:1,\
            b:2
        security.protocol: SASL_SSL
        ssl.truststore.type=PEM
        ssl.truststore.location=/ca.pem
        ssl.keystore.location=/me.pem
        sasl.mechanism=PLAIN
        sasl.jaas.config=org.apache.X required username="ann" password="a\\"b c";
        """,
    )
    assert read_client_file(file) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": 'a"b c',
    }


@pytest.mark.parametrize(
    ("text", "problem"), [("=x", "no name before its value"), ("ssl.truststore.type=JKS", "only PEM")]
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        read_client_file(written(tmp_path, text))


def test_a_file_that_is_missing_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="cannot read the client file /nowhere"):
        read_client_file("/nowhere")


def test_what_a_caller_sets_counts_more_and_its_protocol_replaces_all_of_the_security(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, "security.protocol=SASL_SSL\nsasl.password=geheim\nlinger.ms=5\nbootstrap.servers=a:1\n")
    monkeypatch.setenv(VARIABLE, file)
    monkeypatch.delenv("BARNABAS_BOOTSTRAP", raising=False)
    assert completed({"linger.ms": "7"}) == {
        "security.protocol": "SASL_SSL",
        "sasl.password": "geheim",
        "linger.ms": "7",
    }
    assert completed({"security.protocol": "plaintext"}) == {"security.protocol": "plaintext", "linger.ms": "5"}
    assert secured({}) == {"security.protocol": "SASL_SSL", "sasl.password": "geheim"}
    assert default_bootstrap() == "a:1"
    settings = Settings("a:1")
    assert settings.config["sasl.password"] == "geheim"
    assert "geheim" not in repr(settings)
    assert settings.reading("committed").config["linger.ms"] == "5"
