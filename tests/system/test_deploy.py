"""The three nodes of the compose file, as processes of this machine, and the health check against them."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import yaml

from barnabas.client import Bus
from barnabas.testing.cluster.ports import find_free

DEPLOY = Path(__file__).parents[2] / "deploy"


def environments(tmp_path: Path) -> tuple[list[dict[str, str]], list[int]]:
    """The environments of the nodes, with ports and directories of this machine in place of those of containers."""
    services = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())["services"]
    ports = find_free(9)
    made = []
    for number in (1, 2, 3):
        own = {name: str(text) for name, text in services[f"node-{number}"]["environment"].items()}
        own["BARNABAS_HTTP_LISTENER"] = "127.0.0.1:0"
        inside, outside, _ = ports[3 * number - 3 : 3 * number]
        for each in (1, 2, 3):
            controller = ports[3 * each - 1]
            own = {name: text.replace(f"node-{each}:9093", f"127.0.0.1:{controller}") for name, text in own.items()}
        own["BARNABAS_LISTENERS"] = (
            f"INSIDE://:{inside},OUTSIDE://:{outside},CONTROLLER://127.0.0.1:{ports[3 * number - 1]}"
        ).replace("//:", "//127.0.0.1:")
        own["BARNABAS_ADVERTISED_LISTENERS"] = f"INSIDE://127.0.0.1:{inside},OUTSIDE://localhost:{outside}"
        made.append({**os.environ, **own, "BARNABAS_LOG_DIRS": str(tmp_path / f"node-{number}")})
    return made, ports[1::3]


def check_health(port: int) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(DEPLOY / "healthcheck.py"), f"127.0.0.1:{port}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_nodes_of_the_compose_file_form_a_cluster(tmp_path: Path) -> None:
    environs, outside = environments(tmp_path)
    refused = check_health(outside[0])
    assert (refused.returncode, refused.stderr.startswith("no answer at")) == (1, True)
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "barnabas.cli.main", "serve"], env=each, stdout=subprocess.PIPE, text=True
                )
            )
            for each in environs
        ]
        for node in nodes:
            stack.callback(node.terminate)
        for node in nodes:
            assert node.stdout is not None
            assert "is ready on" in node.stdout.readline()
        assert [check_health(port).returncode for port in outside] == [0, 0, 0]
        with Bus(f"127.0.0.1:{outside[0]}") as bus:
            bus.create_topic("orders", partitions=3)
            bus.send("orders", b"first").result(20)
            assert [message.value for message in bus.consume("orders", until_end=True)] == [b"first"]
            assert len(bus.describe_topic("orders").partitions[0].replicas) == 3
