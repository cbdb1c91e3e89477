"""The same reads with `format("kafka")` and with `format("barnabas")`, on Barnabas and on Apache Kafka.

Only `make differential` runs these tests: they need JARs from Maven Central, and a Spark session that has them.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing.embedded import EmbeddedBroker
from bench.apache_kafka import apache_kafka
from bench.maven import broker_jars, kafka_jars
from tests.spark.conftest import QUICK
from tests.spark.differential.topics import Topics, make_topics

if "TEST_DIFFERENTIAL" not in os.environ:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with both connectors."""
    from barnabas.spark import session  # noqa: PLC0415 - an extra

    jars = kafka_jars()
    if not jars:
        pytest.skip("Spark's own connector cannot be had: neither Maven Central nor BENCH_KAFKA_JARS")
    settings = {
        **QUICK,
        "spark.jars": ",".join(map(str, jars)),
        "spark.log.level": "OFF",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    running = session("differential", settings=settings)
    yield running
    running.stop()


@pytest.fixture(scope="session", params=["barnabas", "apache-kafka"])
def topics(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    """The topics that are read, on one broker and then on the other."""
    if request.param == "barnabas":
        with EmbeddedBroker({"log.retention.ms": "-1"}) as broker:
            yield make_topics(broker.bootstrap)
        return
    jars: Path | None = broker_jars()
    if jars is None:
        pytest.skip("Apache Kafka cannot be had: neither Maven Central nor KAFKA_BROKER_JARS")
    with apache_kafka(jars, tmp_path_factory.mktemp("kafka")) as kafka:
        yield make_topics(kafka.bootstrap)
