"""``barnabas serve --processes``: several nodes that start, serve and stop as one."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.client import Bus
from barnabas.client.cluster_admin import ClusterAdmin
from barnabas.client.settings import Settings
from barnabas.testing.cluster.ports import find_free, is_free
from barnabas.testing.cluster.processes import ProcessKey

SERVE = [sys.executable, "-m", "barnabas.cli.main", "serve"]
ANY_PORT = ("--listen", "127.0.0.1:0")
TIMEOUT_S = 60


class Serving:
    """A supervisor that said that all its processes are ready."""

    def __init__(self, process: "subprocess.Popen[str]", directory: Path) -> None:
        assert process.stdout is not None
        self.process = process
        self.directory = directory
        self.line = process.stdout.readline().strip()
        self.bootstrap = self.line.partition(" ready on ")[2].split(maxsplit=1)[0]

    def pid(self, number: int) -> int:
        """The process id of a process, by its number."""
        lock = self.directory / ".lock" if number == 1 else self.directory / "processes" / str(number) / ".lock"
        return int(lock.read_text())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> str:
        """Have all of them stop cleanly; what was said on stderr."""
        self.process.send_signal(number)
        assert self.process.wait(TIMEOUT_S) == 0
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def read_line(self) -> str:
        """The next line of the log."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()


@contextmanager
def serving(directory: Path, processes: int = 2, *options: str) -> Iterator[Serving]:
    command = [*SERVE, "--data-dir", str(directory), "--processes", str(processes), *(options or ANY_PORT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Serving(process, directory)
        finally:
            process.kill()


def refused(*options: str, code: int = 2) -> str:
    """What it says on stderr when it does not start: one line."""
    done = subprocess.run([*SERVE, *options], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    return line


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def leaders(bootstrap: str, topic: str) -> set[int | None]:
    with Bus(bootstrap) as bus:
        return {part.leader for part in bus.describe_topic(topic).partitions}


def test_stock_clients_use_all_processes_as_one_cluster(data: Path) -> None:
    with serving(data) as served:
        with Bus(served.bootstrap) as bus:
            bus.create_topic("t", partitions=6)
        assert leaders(served.bootstrap, "t") == {1, 2}
        producer = Producer({"bootstrap.servers": served.bootstrap.split(",")[1]})
        for number in range(60):
            producer.produce("t", str(number), partition=number % 6)
        assert producer.flush(TIMEOUT_S) == 0
        consumer = Consumer({"bootstrap.servers": served.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("t", partition, 0) for partition in range(6)])
        values = {int(message.value() or b"-1") for message in consumer.consume(60, TIMEOUT_S)}
        consumer.close()
        assert values == set(range(60))
        described = ClusterAdmin(Settings(served.bootstrap)).describe()
        assert {each.rack for each in described.brokers} == {socket.gethostname()}
        assert [each.node_id for each in ClusterAdmin(Settings(served.bootstrap)).quorum().voters] == [1]
        assert served.stop() == ""
        assert (data / ".kafka_cleanshutdown").exists()
        assert (data / "processes" / "2" / ".kafka_cleanshutdown").exists()


def test_ports_are_in_a_row_and_data_is_for_its_owner_alone(data: Path) -> None:
    port = next(port for port in find_free(50) if is_free(port + 1))
    with serving(data, 2, "--listen", f"127.0.0.1:{port}", "--node-id", "10", "--rack", "east") as served:
        assert served.line == (
            f"barnabas nodes 10 to 11 are ready on 127.0.0.1:{port},127.0.0.1:{port + 1} (data in {data})"
        )
        brokers = ClusterAdmin(Settings(served.bootstrap)).describe().brokers
        assert {(each.node_id, each.rack) for each in brokers} == {(10, "east"), (11, "east")}
        served.stop(signal.SIGINT)
    modes = {path: path.stat().st_mode & 0o777 for path in (data, *data.rglob("*"))}
    assert modes == {path: 0o700 if path.is_dir() else 0o600 for path in modes}


@pytest.mark.parametrize("number", [1, 2])
def test_a_process_that_is_killed_is_started_again_with_all_it_had(data: Path, number: int) -> None:
    with serving(data) as served:
        with Bus(served.bootstrap) as bus:
            bus.create_topic("t", partitions=4)
            for partition in range(4):
                bus.send("t", b"before", partition=partition).result(TIMEOUT_S)
        os.kill(served.pid(number), signal.SIGKILL)
        said = [served.read_line()]
        while "is ready again" not in said[-1]:
            said.append(served.read_line())
            assert said[-1]
        (first, last) = [line for line in said if "barnabas.processes" in line]
        assert f"process {number} (node {number}) was ended by SIGKILL; it is started again in 0.5 s" in first
        assert f"process {number} (node {number}) is ready again" in last
        with Bus(served.bootstrap) as bus:
            for partition in range(4):
                assert bus.get("t", partition, 0).value == b"before"
                bus.send("t", b"after", partition=partition).result(TIMEOUT_S)
        served.stop()


def test_all_processes_end_with_their_supervisor_however_it_ends(data: Path) -> None:
    with serving(data) as served:
        keys = [ProcessKey.of(served.pid(number)) for number in (1, 2)]
        served.process.kill()
        for key in keys:
            assert key is not None
            assert key.wait_gone(TIMEOUT_S)
    with serving(data) as served:
        assert "are ready on" in served.line


def test_data_of_one_process_is_served_by_the_first_of_several(data: Path) -> None:
    with serving(data, 1) as served:
        assert served.line.startswith("barnabas node 1 is ready on ")
        with Bus(served.bootstrap) as bus:
            bus.create_topic("t", partitions=2)
            bus.send("t", b"v", partition=1).result(TIMEOUT_S)
        served.stop()
    with serving(data) as served:
        with Bus(served.bootstrap) as bus:
            assert bus.get("t", 1, 0).value == b"v"
            assert leaders(served.bootstrap, "t") == {1}
        served.stop()
    said = refused("--data-dir", str(data), *ANY_PORT)
    assert said.startswith(f"barnabas: {data} is that of 2 processes: start it with --processes 2; to have fewer, ")
    shutil.rmtree(data / "processes" / "2")  # whose node holds nothing
    with serving(data, 1) as served:
        with Bus(served.bootstrap) as bus:
            assert bus.get("t", 1, 0).value == b"v"
        served.stop()


def test_a_port_in_use_is_named_before_anything_is_started(data: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as those who looked whether it is free
        taken.bind(("127.0.0.1", next(port for port in find_free(50) if is_free(port - 1))))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused("--data-dir", str(data), "--processes", "2", "--listen", f"127.0.0.1:{port - 1}", code=1)
    assert said == (
        f"barnabas: process 2 cannot listen on 127.0.0.1:{port} (Address already in use): --processes 2 takes so many "
        "ports in a row; name others with --listen"
    )
    assert not (data / "meta.properties").exists()


def test_a_second_supervisor_on_the_same_data_is_refused(data: Path) -> None:
    with serving(data) as served:
        pid = served.pid(1)
        said = refused("--data-dir", str(data), "--processes", "2", *ANY_PORT, code=1)
        assert said.startswith(f"barnabas: {data} is in use by another node (process {pid})")
        served.stop()


def test_a_first_process_that_refuses_to_start_ends_all_with_its_code(data: Path) -> None:
    with serving(data) as served:
        served.stop()
    said = refused("--data-dir", str(data), "--processes", "2", "--node-id", "7", *ANY_PORT)
    assert said.startswith("barnabas: node.id is 7, but the data are those of node 1")


def test_a_data_directory_that_is_lost_ends_all_with_the_code_for_that(data: Path) -> None:
    with serving(data) as served:
        (data / "processes" / "2").rename(data / "processes" / "lost")
        assert served.process.wait(TIMEOUT_S) == 74
        assert served.process.stderr is not None
        assert "process 2 (node 2) has ended with exit code 74, which starting it again does not help" in (
            served.process.stderr.read()
        )
    assert (data / ".kafka_cleanshutdown").exists()


def test_a_signal_during_the_start_stops_what_was_started(data: Path) -> None:
    command = [*SERVE, "--data-dir", str(data), "--processes", "2", *ANY_PORT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lock = data / ".lock"
        while not lock.exists() or lock.read_text().strip() in ("", str(process.pid)):
            assert process.poll() is None
        key = ProcessKey.of(int(lock.read_text()))
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        assert key is None or key.wait_gone(TIMEOUT_S)
