"""``barnabas serve`` as a process: how it starts, is configured, refuses and stops."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.client import Bus

SERVE = [sys.executable, "-m", "barnabas.cli.main", "serve"]


@contextmanager
def serving(*options: str, environ: Mapping[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the line it said when it was ready."""
    with subprocess.Popen(
        [*SERVE, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environ or {})},
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def refused(*options: str, environ: Mapping[str, str] | None = None, code: int = 1) -> str:
    """What it says on stderr when it does not start: one line."""
    done = subprocess.run(
        [*SERVE, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **(environ or {})},
    )
    assert done.returncode == code
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def bootstrap_of(line: str) -> str:
    return line.partition("ready on ")[2].split(maxsplit=1)[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with serving("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0") as (process, line):
        with Bus(bootstrap_of(line)) as bus:
            bus.send("t", b"v").result(60)
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0") as (process, line):
        with Bus(bootstrap_of(line)) as bus:
            bus.create_topic("t", partitions=2, config={"retention.ms": "12345678"})
            bus.send("t", b"v", partition=1).result(60)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    with (
        serving("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0") as (process, line),
        Bus(bootstrap_of(line)) as bus,
    ):
        assert bus.get("t", 1, 0).value == b"v"
        assert bus.describe_topic("t").config["retention.ms"] == "12345678"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        (said,) = process.stderr.read().splitlines()
    assert f"WARNING barnabas.node {tmp_path} was not closed cleanly when it was last used: 1 log(s) were" in said


def test_a_topic_with_the_longest_name_there_can_be_is_deleted_and_nothing_else_suffers(tmp_path: Path) -> None:
    name = "t" * 249
    with serving("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0") as (process, line):
        with Bus(bootstrap_of(line)) as bus:
            bus.send(name, b"v").result(60)
            bus.delete_topic(name)
            bus.create_topic(name)  # which waits for the files of the other to be gone
            bus.send("other", b"v").result(60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with (
        serving("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0") as (_, line),
        Bus(bootstrap_of(line)) as bus,
    ):
        assert bus.get("other", 0, 0).value == b"v"


def test_what_is_written_is_for_its_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    with serving("--data-dir", str(data), "--listen", "127.0.0.1:0") as (process, line):
        with Bus(bootstrap_of(line)) as bus:
            bus.send("t", b"v").result(60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    modes = {path: path.stat().st_mode & 0o777 for path in (data, *data.rglob("*"))}
    assert len(modes) > 8
    assert modes == {path: 0o700 if path.is_dir() else 0o600 for path in modes}


def test_a_directory_that_others_can_look_into_is_warned_of(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with serving("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0") as (process, line):
        assert "ready on" in line
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert f"can read {tmp_path}; run chmod -R go= on it" in process.stderr.read()
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_second_node_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0") as (process, _):
        said = refused("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    assert f"in use by another node (process {process.pid})" in said


def test_an_address_in_use_is_refused(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path / "one"), "--listen", "127.0.0.1:0") as (_, line):
        address = bootstrap_of(line)
        said = refused("--data-dir", str(tmp_path / "two"), "--listen", address)
    assert said == f"barnabas: cannot listen on {address} (Address already in use); name another with --listen"


def test_settings_come_from_a_file_the_environment_and_flags(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlisteners=PLAINTEXT://127.0.0.1:0\nnode.id=5\n")
    environ = {"BARNABAS_NUM_PARTITIONS": "3"}
    with (
        serving("--config", str(file), "--data-dir", str(tmp_path / "data"), "--node-id", "7", environ=environ) as (
            _,
            line,
        ),
        Bus(bootstrap_of(line)) as bus,
    ):
        assert line.startswith("barnabas node 7 is ready on 127.0.0.1:")
        assert bus.create_topic("t").partition_count == 3


def test_clients_are_told_the_advertised_address(tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    options = ("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--advertise", "localhost:5555")
    with serving(*options) as (_, line):
        brokers = AdminClient({"bootstrap.servers": bootstrap_of(line)}).list_topics(timeout=60).brokers
    assert [f"{broker.host}:{broker.port}" for broker in brokers.values()] == ["localhost:5555"]


@pytest.mark.parametrize(
    ("options", "environ", "expected"),
    [
        (["--set", "num.partition=3"], {}, "num.partitions"),
        (["--set", "num.partitions=many"], {}, "num.partitions"),
        (["--listen", "nowhere"], {}, "--listen must be HOST:PORT"),
        ([], {"BARNABAS_NUM_PARTITIONS": "0"}, "BARNABAS_NUM_PARTITIONS"),
        (["--config", "/does/not/exist.toml"], {}, "/does/not/exist.toml"),
        (["--data-dir", "/proc/a,/proc/b"], {}, "log.dirs must name one directory, not 2"),  # before one is made
    ],
)
def test_a_wrong_configuration_is_wrong_usage_and_said_in_one_line(
    tmp_path: Path, options: list[str], environ: Mapping[str, str], expected: str
) -> None:
    said = refused("--data-dir", str(tmp_path / "data"), *options, environ=environ, code=2)
    assert said.startswith("barnabas: ")
    assert expected in said
    assert not (tmp_path / "data").exists()


def test_a_data_directory_that_cannot_be_made_is_said_in_one_line() -> None:
    assert "/proc/nowhere" in refused("--data-dir", "/proc/nowhere")


def test_data_are_not_run_as_another_node_or_in_another_cluster(tmp_path: Path) -> None:
    own = ("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    with serving(*own, "--set", "cluster.id=ours") as (process, line):
        assert line.startswith("barnabas node 1 is ready")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    said = refused(*own, "--node-id", "2", code=2)
    assert said.startswith(f"barnabas: node.id is 2, but the data are those of node 1 (in {tmp_path})")
    said = refused(*own, "--set", "cluster.id=theirs", code=2)
    assert said.startswith(f"barnabas: cluster.id is theirs, but the data are those of cluster ours (in {tmp_path})")
    assert (tmp_path / ".kafka_cleanshutdown").exists()  # a start that was refused is no crash


TOLD_TO_STOP_AT = """
import os, signal, sys

class Told:
    def __del__(self):  # where Python drops what a handler raises
        os.kill(os.getpid(), signal.{number})
        for _ in range(1000):
            pass

class Telling:
    def find_spec(self, name, *_):
        if name == {name!r}:
            Told()

sys.meta_path.insert(0, Telling())
from barnabas.cli.{entry} import main
main()
"""


@pytest.mark.parametrize(
    ("entry", "name", "number"),
    [
        ("entry", "barnabas.cli.refusals", "SIGTERM"),
        ("entry", "barnabas.cli.serve", "SIGINT"),
        ("main", "barnabas.node", "SIGTERM"),
    ],
)
def test_a_node_that_is_told_to_stop_while_it_loads_stops(tmp_path: Path, entry: str, name: str, number: str) -> None:
    program = TOLD_TO_STOP_AT.format(entry=entry, name=name, number=number)
    options = ["serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    ended = subprocess.run([sys.executable, "-c", program, *options], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


TOLD_TO_STOP_WHEN_OPENING = """
import os, signal
from barnabas.storage.data_dir import DataDir

def open_logs(self, config_of, original=DataDir.open_logs):
    os.kill(os.getpid(), signal.SIGTERM)
    return original(self, config_of)

DataDir.open_logs = open_logs
from barnabas.cli.main import main
main()
"""


def test_a_node_that_is_told_to_stop_while_it_opens_its_logs_stops_cleanly(tmp_path: Path) -> None:
    options = ["serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    ended = subprocess.run(
        [sys.executable, "-c", TOLD_TO_STOP_WHEN_OPENING, *options], capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_one_of_several_nodes_must_be_formatted(tmp_path: Path) -> None:
    own = ("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    said = refused(*own, "--set", "controller.quorum.voters=1@a:9093,2@b:9093", code=2)
    assert "the data directory is not formatted" in said
    assert "run barnabas format" in said


def test_a_damaged_identity_is_refused_in_one_line(tmp_path: Path) -> None:
    own = ("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    with serving(*own) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    identity = tmp_path / "meta.properties"
    identity.write_text(identity.read_text().replace("node.id", "node"))
    said = refused(*own)
    assert "meta.properties is damaged (there is no node.id)" in said
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_data_directory_of_another_cluster_ends_the_node_and_both_are_named(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    listeners = "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    names = ("--set", "controller.listener.names=CONTROLLER")
    with serving("--data-dir", str(there), "--set", listeners, *names) as (process, line):
        controller = line.split(" and ")[1].split(maxsplit=1)[0]
        theirs = (there / "meta.properties").read_text().partition("cluster.id=")[2].split()[0]
        said = refused(
            *("--data-dir", str(here), "--node-id", "2", "--listen", "127.0.0.1:0", *names),
            *("--set", "process.roles=broker", "--set", f"controller.quorum.bootstrap.servers={controller}"),
            *("--set", "cluster.id=4qHVF7o3QWyrVyHE4-p3Ig"),
            code=2,
        )
        assert process.poll() is None
    assert "belongs to cluster 4qHVF7o3QWyrVyHE4-p3Ig" in said
    assert f"{controller} to cluster {theirs}" in said
    assert f"--cluster-id {theirs}" in said


def test_an_advertised_name_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    line = refused("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--advertise", "no-such-host.invalid:9092")
    assert "advertised.listeners has PLAINTEXT://no-such-host.invalid:9092, and there is no host of that name" in line
    assert not (tmp_path / "meta.properties").exists()


def test_an_advertised_address_that_leads_nowhere_or_elsewhere_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    options = ("--data-dir", str(tmp_path / "1"), "--listen", "127.0.0.1:0", "--advertise")
    with serving(*options, f"127.0.0.1:{port}") as (process, line):
        assert process.stderr is not None
        said = process.stderr.readline()
        assert f"WARNING barnabas.node nobody answers at 127.0.0.1:{port}" in said
        assert "correct advertised.listeners" in said
        other = bootstrap_of(line)
        with serving("--data-dir", str(tmp_path / "2"), *options[2:], other) as (misled, _):
            assert misled.stderr is not None
            assert f"ERROR barnabas.node {other}, where the listener PLAINTEXT" in misled.stderr.readline()
