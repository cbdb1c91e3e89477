"""Batch reads and streams over TLS with a login, and what a user hears who is not let in."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from barnabas.testing.embedded import EmbeddedBroker
from tests.spark.conftest import MakeTopic
from tests.spark.source.streams import batch, numbered, produce, run_available, stream
from tests.support.secured import Certificates, SecuredFront, Wanted, login


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def front(spark_broker: EmbeddedBroker, certificates: Certificates) -> Iterator[SecuredFront]:
    wanted = Wanted(certificates.server("127.0.0.1"), ("PLAIN", "SCRAM-SHA-512"))
    with SecuredFront(spark_broker.bootstrap, wanted) as front:
        yield front


@pytest.fixture(scope="module")
def config(certificates: Certificates) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": certificates.root_file,
        **login("SCRAM-SHA-512"),
    }


def options(config: dict[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in config.items()}


def test_what_was_written_is_read_over_tls_with_a_login(
    spark: Any, front: SecuredFront, config: dict[str, str], make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=3)
    produce(front.bootstrap, topic, numbered(300), config=config)

    rows = batch(spark, front.bootstrap, topic, **options(config)).collect()
    streamed = run_available(stream(spark, front.bootstrap, topic, **options(config)), tmp_path)

    assert sorted((bytes(row.key), bytes(row.value)) for row in rows) == sorted(numbered(300))
    assert streamed.places == sorted((row.topic, row.partition, row.offset) for row in rows)
    assert set(front.wanted.logins) == {"SCRAM-SHA-512"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"sasl.password": "wrong"}, "refused the login of 'ann,e=x' by SCRAM-SHA-512"),
        ({"sasl.mechanism": "GSSAPI"}, "'GSSAPI' is not supported here"),
        ({"security.protocol": "plaintext"}, "uses TLS: security.protocol should be ssl or sasl_ssl"),
        ({"ssl.ca.location": ""}, "is not trusted"),
    ],
)
def test_who_is_not_let_in_hears_why_in_one_line(
    spark: Any, front: SecuredFront, config: dict[str, str], changed: dict[str, str], expected: str
) -> None:
    started = time.monotonic()

    with pytest.raises(PySparkException) as refusal:
        batch(spark, front.bootstrap, "t", **options({**config, **changed})).collect()

    assert expected in str(refusal.value).splitlines()[0]
    assert "Traceback" not in str(refusal.value)
    assert time.monotonic() - started < 45
