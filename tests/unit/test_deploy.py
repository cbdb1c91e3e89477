"""The files in deploy/ say what they should: every setting is one, nothing is guessed, nobody is root."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from barnabas.config import load
from barnabas.node.listening import check_advertised
from barnabas.services.settings.broker_config import BrokerConfig

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())
KUBERNETES = list(yaml.safe_load_all((DEPLOY / "kubernetes/barnabas.yaml").read_text()))
NODES = [f"node-{number}" for number in (1, 2, 3)]


def config_of(environ: dict[str, str]) -> BrokerConfig:
    config = load(None, (), environ, {"log.dirs": "/data"})
    check_advertised(config)
    return config


def compose_environment(name: str) -> dict[str, str]:
    return {key: str(value) for key, value in COMPOSE["services"][name]["environment"].items()}


def stateful_set() -> Any:
    (found,) = (each for each in KUBERNETES if each["kind"] == "StatefulSet")
    return found


def container() -> Any:
    (found,) = stateful_set()["spec"]["template"]["spec"]["containers"]
    return found


def pod_environment(number: int) -> dict[str, str]:
    """What a pod of this number has in its environment, as Kubernetes fills it in."""
    given = {"metadata.name": f"barnabas-{number}", "metadata.labels['apps.kubernetes.io/pod-index']": str(number)}
    found: dict[str, str] = {}
    for each in container()["env"]:
        text = each["value"] if "value" in each else given[each["valueFrom"]["fieldRef"]["fieldPath"]]
        for name, value in list(found.items()):
            text = text.replace(f"$({name})", value)
        found[each["name"]] = text
    return found


@pytest.mark.parametrize("name", NODES)
def test_a_node_of_the_compose_file_has_settings_that_are_valid(name: str) -> None:
    config = config_of(compose_environment(name))
    assert config.client_listeners[0].port == 9092
    advertised = config.advertised("INSIDE")
    assert advertised is not None
    assert advertised.host == name
    assert f"{config.node_id}@{name}:9093" in config.quorum.controller_quorum_voters


def test_the_nodes_of_the_compose_file_are_open_to_this_machine_alone() -> None:
    for service in COMPOSE["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    for name in NODES:
        node = COMPOSE["services"][name]
        assert node["read_only"] is True
        assert node["cap_drop"] == ["ALL"]


def test_prometheus_asks_every_node() -> None:
    scraped = yaml.safe_load((DEPLOY / "compose/prometheus.yml").read_text())
    (job,) = scraped["scrape_configs"]
    assert job["static_configs"][0]["targets"] == [f"{name}:9644" for name in NODES]


@pytest.mark.parametrize("number", range(3))
def test_a_pod_has_settings_that_are_valid_and_an_address_of_its_own(number: int) -> None:
    config = config_of(pod_environment(number))
    assert config.node_id == number
    advertised = config.advertised("PLAINTEXT")
    assert advertised is not None
    assert advertised.host == f"barnabas-{number}.barnabas-headless"
    assert f"{number}@barnabas-{number}.barnabas-headless:9093" in config.quorum.controller_quorum_voters


def test_pods_are_not_killed_while_they_recover_and_not_all_at_once() -> None:
    spec, pod = stateful_set()["spec"], container()
    assert pod["startupProbe"]["periodSeconds"] * pod["startupProbe"]["failureThreshold"] >= 1200
    assert pod["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert pod["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert spec["podManagementPolicy"] == "Parallel"
    (budget,) = (each for each in KUBERNETES if each["kind"] == "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    (headless,) = (each for each in KUBERNETES if each["metadata"]["name"] == spec["serviceName"])
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["publishNotReadyAddresses"] is True


def test_nobody_is_root_and_only_data_is_written() -> None:
    spec, pod = stateful_set()["spec"]["template"]["spec"], container()
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["readOnlyRootFilesystem"] is True
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert "USER 10001:10001" in lines
    for line in lines:
        if line.startswith(("ENTRYPOINT", "CMD")):
            assert line.partition(" ")[2].startswith("["), "a shell in between would not pass signals on"


def test_the_unit_is_one_that_systemd_understands(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (DEPLOY / "systemd/barnabas.service").read_text()
    changed = tmp_path / "barnabas.service"
    changed.write_text(unit.replace("/opt/barnabas/bin/barnabas", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(changed)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
