"""/metrics, /healthz and /readyz of a real node, as probes and Prometheus ask for them."""

import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from barnabas.testing.embedded import EmbeddedBroker
from barnabas.testing.metrics_page import current_page

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"http.listener": "127.0.0.1:0", "http.api.enable": "false"}) as running:
        yield running


def get(broker: EmbeddedBroker, path: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(broker.http + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_node_that_serves_is_alive_and_ready(broker: EmbeddedBroker) -> None:
    assert get(broker, "/healthz") == (200, '{"alive":true}')
    assert get(broker, "/readyz") == (200, '{"ready":true,"reasons":[]}')


def test_what_clients_do_shows_in_the_metrics_of_their_topic(broker: EmbeddedBroker) -> None:
    broker.bus.create_topic("orders", partitions=2)
    for number in range(5):
        broker.bus.send("orders", f"order {number}").result(10)
    assert len(list(broker.bus.consume("orders", until_end=True))) == 5
    status, text = get(broker, "/metrics")
    assert status == 200
    found = {
        (sample.name, sample.labels.get("topic") or sample.labels.get("request", "")): sample.value
        for family in parse(text)
        for sample in family.samples
    }
    assert found["kafka_server_brokertopicmetrics_messagesin_total", "orders"] == 5
    assert found["kafka_server_brokertopicmetrics_bytesin_total", "orders"] > 0
    assert found["kafka_server_brokertopicmetrics_bytesout_total", "orders"] > 0
    assert found["kafka_network_requestmetrics_requests_total", "Produce"] >= 1
    assert found["kafka_controller_kafkacontroller_activecontrollercount", ""] == 1
    assert found["barnabas_topic_partitions", "orders"] == 2


def test_partitions_have_their_own_numbers_for_who_asks(broker: EmbeddedBroker) -> None:
    broker.bus.create_topic("parts")
    broker.bus.send("parts", "one").result(10)
    assert "kafka_log_log_logendoffset" not in get(broker, "/metrics")[1]
    assert 'kafka_log_log_logendoffset{topic="parts",partition="0"} 1' in get(broker, "/metrics?partitions=1")[1]


def test_a_name_that_is_not_ours_is_refused(broker: EmbeddedBroker) -> None:
    assert get(broker, "/metrics", Host="evil.example")[0] == 403
    assert get(broker, "/healthz", Origin="http://evil.example")[0] == 403


def test_anything_else_is_not_found(broker: EmbeddedBroker) -> None:
    assert get(broker, "/")[0] == 404
    assert get(broker, "/api/v1/topics")[0] == 404


def test_the_page_of_the_metrics_is_current() -> None:
    assert (ROOT / "docs/metrics.md").read_text() == current_page(), "run make docs"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_prometheus_accepts_the_alerts() -> None:
    alerts = ROOT / "deploy/prometheus/alerts.yml"
    done = subprocess.run(["promtool", "check", "rules", str(alerts)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
