"""Three nodes as `barnabas security init` makes them: TLS and logins between them, and for their clients."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client import Bus
from barnabas.client.config_file import read_client_file

TIMEOUT_S = 90


def barnabas(*arguments: str, environ: dict[str, str] | None = None, text: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas.cli.main", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, **(environ or {})},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory with the files of three nodes, which run."""
    directory = tmp_path / "secured"
    nodes = [option for port in _free_pairs(3) for option in ("--node", f"127.0.0.1:{port}")]
    said = barnabas("security", "init", str(directory), *nodes)
    assert "barnabas format" in said
    assert "--command-config" in said
    running: list[subprocess.Popen[bytes]] = []
    for number in (1, 2, 3):
        config = directory / f"node-{number}" / "server.properties"
        barnabas("format", "--config", str(config), "--add-scram-file", str(directory / "users"))
        command = [sys.executable, "-m", "barnabas.cli.main", "serve", "--config", str(config)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    logs = [_read_until_ready(process) for process in running]
    try:
        yield directory
    finally:
        for process in running:
            process.terminate()
        logs = [
            log + process.communicate(timeout=TIMEOUT_S)[0].decode() for log, process in zip(logs, running, strict=True)
        ]
    password = read_client_file(str(directory / "client.properties"))["sasl.password"]
    secret = (directory / "cluster.secret").read_text().strip()
    for log in logs:
        assert "Traceback" not in log
        assert password not in log
        assert secret not in log


def _read_until_ready(process: "subprocess.Popen[bytes]") -> str:
    """What a node says until it serves clients."""
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line.decode()
        if "is ready" in said:
            return said
    raise AssertionError(f"a node did not start: {said}")


def _free_pairs(count: int) -> list[int]:
    """Ports that are free, and so is the one after each."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        while len(found) < count:
            first = held.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = first.getsockname()[1]
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port + 1)))
                found.append(port)
    return found


def test_three_nodes_over_tls_and_sasl_replicate_and_serve_those_who_log_in(directory: Path) -> None:
    client = {"BARNABAS_CLIENT_CONFIG": str(directory / "client.properties")}
    config = read_client_file(client["BARNABAS_CLIENT_CONFIG"])
    bootstrap = config.pop("bootstrap.servers")
    with Bus(bootstrap, config=config, connect_timeout=TIMEOUT_S, timeout=TIMEOUT_S) as bus:
        bus.create_topic("orders", partitions=1, replication_factor=3)
        bus.send("orders", "first").result(TIMEOUT_S)
        assert [message.value for message in bus.consume("orders", until_end=True)] == [b"first"]
    barnabas("user", "create", "ann", "--password-file", "-", environ=client, text="a secret\n")
    assert "ann" in barnabas("user", "list", environ=client)
    assert oct((directory / "ca.key").stat().st_mode)[-3:] == "600"
