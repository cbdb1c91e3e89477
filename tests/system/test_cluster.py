"""`barnabas cluster` at work: real processes, started by one command and managed by others. The tests share a cluster,
and each leaves all of its nodes running.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from barnabas.cli.main import app, run
from barnabas.client import Bus
from barnabas.testing.cluster.directory import ClusterDirectory
from barnabas.testing.cluster.forming import one_more
from barnabas.testing.cluster.processes import Condition, ProcessKey

pytestmark = pytest.mark.xdist_group("cluster")

PATIENCE_S: Final = 60
SETTINGS: Final = ("broker.heartbeat.interval.ms=300", "broker.session.timeout.ms=3000")


@dataclass
class Said:
    code: int
    out: str
    err: str


class Commands:
    """`barnabas cluster COMMAND --dir ...`; in this process, which spares the time that Python takes to start."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys

    def __call__(self, *arguments: str | int) -> Said:
        self._capsys.readouterr()
        code = 0
        try:
            run(app, ["cluster", *map(str, arguments), "--dir", str(self.directory)])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)

    def done(self, *arguments: str | int) -> str:
        said = self(*arguments)
        assert said.code == 0, said
        return said.out

    def refused(self, *arguments: str | int) -> str:
        """The one line that a refused command prints."""
        said = self(*arguments)
        assert said.code == 1, said
        assert said.err.count("\n") == 1, said.err
        return said.err

    def status(self) -> Any:
        return json.loads(self.done("status", "--json"))

    def node(self, node_id: int) -> Any:
        return next(each for each in self.status()["nodes"] if each["node_id"] == node_id)

    def wait(self, holds: Callable[[Any], bool]) -> Any:
        """The status, once something holds of it."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(status := self.status()):
            assert time.monotonic() < deadline, status
        return status


def all_active(status: Any) -> bool:
    return all(each["process"] == "running" and each["is_fenced"] is False for each in status["nodes"])


def roles(status: Any) -> dict[int, str]:
    return {each["node_id"]: each["quorum"] for each in status["nodes"]}


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "barnabas.cli.main", "cluster", *arguments]


@pytest.fixture(scope="module")
def cluster_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("cluster")
    sets = [part for setting in SETTINGS for part in ("--set", setting)]
    up = command_line("up", "--nodes", "3", "--racks", "a,b", "--dir", str(directory), *sets)
    done = subprocess.run(up, capture_output=True, text=True, check=False)
    try:
        assert (done.returncode, done.stderr) == (0, "")
        assert [line.partition(" on ")[0] for line in done.stdout.splitlines()[:3]] == [
            "node 1: ready",
            "node 2: ready",
            "node 3: ready",
        ]
        yield directory
    finally:
        left = ClusterDirectory(directory)
        state = left.read() if left.is_there else None
        for each in () if state is None else (*state.nodes, state.console):
            if each is not None and each.process is not None:
                each.process.kill()


@pytest.fixture
def barnabas_cluster(cluster_dir: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(cluster_dir, capsys)


def test_up_starts_nodes_that_outlive_the_command(barnabas_cluster: Commands) -> None:
    status = barnabas_cluster.status()

    assert all_active(status)
    assert [each["rack"] for each in status["nodes"]] == ["a", "b", "a"]
    assert sorted(roles(status).values()) == ["leader", "voter", "voter"]
    assert status["leader_id"] in (1, 2, 3)
    with Bus(status["bootstrap"]) as bus:
        bus.create_topic("orders", partitions=6)
        assert [topic.name for topic in bus.list_topics()] == ["orders"]


def test_status_is_a_table_for_people(barnabas_cluster: Commands) -> None:
    head, *rows = [line.split("\t") for line in barnabas_cluster.done("status").splitlines()]

    assert head[:4] == ["node", "address", "rack", "roles"]
    assert [(row[0], row[3], row[4], row[5]) for row in rows[:3]] == [
        (number, "broker,controller", "running", "active") for number in "123"
    ]
    assert sum(int(row[8]) for row in rows[:3]) == 6
    assert re.fullmatch(r"quorum: node \d leads in epoch \d+", rows[4][0])


def test_every_node_serves_http_where_status_says(barnabas_cluster: Commands) -> None:
    status = barnabas_cluster.status()

    urls = [each["http"] for each in status["nodes"]]

    ports = [int(url.rpartition(":")[2]) for url in urls]
    assert ports == list(range(ports[0], ports[0] + 3))
    assert [httpx.get(f"{url}/readyz", trust_env=False).status_code for url in urls] == [200] * 3
    assert f"HTTP: {' '.join(urls)}" in barnabas_cluster.done("status").splitlines()


def test_the_console_of_a_cluster_outlives_its_node_and_ends_with_the_cluster(barnabas_cluster: Commands) -> None:
    # Not in this process: NiceGUI takes whoever is started by pytest for one of its own tests.
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("NICEGUI", "PYTEST"))}
    up = command_line("up", "--console", "--dir", str(barnabas_cluster.directory))
    said = subprocess.run(up, capture_output=True, text=True, check=True, env=environment).stdout

    url = barnabas_cluster.status()["console"]
    assert f"console: ready on {url}" in said.splitlines()
    assert "Under-replicated" in httpx.get(url, trust_env=False, timeout=30).text
    assert f"console: running already on {url}" in barnabas_cluster.done("up", "--console")
    barnabas_cluster.done("stop", 1)
    assert "Under-replicated" in httpx.get(url, trust_env=False, timeout=30).text
    barnabas_cluster.done("start", 1)
    console = ClusterDirectory(barnabas_cluster.directory).read().console
    assert console is not None
    assert console.process is not None
    console.process.end(30)
    assert barnabas_cluster.status()["console"] is None


def test_a_cluster_elsewhere_is_described_by_its_address(
    barnabas_cluster: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    local = barnabas_cluster.status()

    remote = json.loads(barnabas_cluster.done("status", "--json", "--bootstrap", local["bootstrap"]))

    assert remote["cluster_id"] == local["cluster_id"]
    assert roles(remote) == roles(local)
    assert [each["process"] for each in remote["nodes"]] == [None, None, None]


def test_a_killed_node_is_fenced_and_comes_back(barnabas_cluster: Commands) -> None:
    victim = barnabas_cluster.status()["leader_id"]

    barnabas_cluster.done("kill", victim)

    status = barnabas_cluster.wait(lambda now: _of(now, victim)["is_fenced"])
    assert _of(status, victim)["process"] == "stopped"
    assert status["leader_id"] != victim
    assert f"node {victim} is not running" in barnabas_cluster.refused("kill", victim)
    assert f"node {victim}: ready" in barnabas_cluster.done("start", victim)
    assert all_active(barnabas_cluster.status())


def test_a_paused_node_is_replaced_as_controller_and_goes_on(barnabas_cluster: Commands) -> None:
    victim = barnabas_cluster.status()["leader_id"]

    barnabas_cluster.done("pause", victim)

    status = barnabas_cluster.wait(lambda now: _of(now, victim)["is_fenced"] and now["leader_id"] is not None)
    assert _of(status, victim)["process"] == "paused"
    assert status["leader_id"] != victim
    barnabas_cluster.done("resume", victim)
    barnabas_cluster.wait(all_active)


def test_a_stopped_node_is_fenced_at_once_and_others_can_no_longer_be_removed(barnabas_cluster: Commands) -> None:
    barnabas_cluster.done("stop", 1)

    status = barnabas_cluster.status()
    assert (_of(status, 1)["process"], _of(status, 1)["is_fenced"], _of(status, 1)["pid"]) == ("stopped", True, None)
    assert "no majority: 2 of its 2 other voters must run, and 1 do" in barnabas_cluster.refused("remove", 2)
    barnabas_cluster.done("start", 1)
    assert all_active(barnabas_cluster.status())


def test_a_node_that_does_not_start_is_named_with_the_last_line_of_its_log(barnabas_cluster: Commands) -> None:
    host, _, port = barnabas_cluster.node(3)["address"].rpartition(":")
    barnabas_cluster.done("stop", 3)

    with socket.create_server((host, int(port))):
        refusal = barnabas_cluster.refused("start", 3)

    assert f"node 3 did not start: barnabas: cannot listen on {host}:{port}" in refusal
    barnabas_cluster.done("start", 3)


def test_a_node_with_the_only_replica_of_a_partition_is_not_removed(barnabas_cluster: Commands) -> None:
    status = barnabas_cluster.status()
    fullest = max(status["nodes"], key=lambda node: int(node["partitions_led"]))["node_id"]

    refusal = barnabas_cluster.refused("remove", fullest)

    assert f"node {fullest} has the only replica in sync of" in refusal
    assert "(orders-" in refusal
    assert all_active(barnabas_cluster.status())


def test_a_node_is_added_as_a_voter_and_removed_again(barnabas_cluster: Commands) -> None:
    added = barnabas_cluster.done("add", "--rack", "c")

    assert added.endswith("node 4: votes now\nnode 4: added\n")
    status = barnabas_cluster.status()
    assert all_active(status)
    assert (_of(status, 4)["rack"], _of(status, 4)["quorum"]) == ("c", "voter")

    removed = barnabas_cluster.done("remove", 4)

    assert "node 4: removed" in removed
    assert sorted(roles(barnabas_cluster.status())) == [1, 2, 3]
    assert "has no node 4" in barnabas_cluster.refused("start", 4)


def test_preferred_leaders_lead_again_when_that_is_asked_for(barnabas_cluster: Commands) -> None:
    with Bus(barnabas_cluster.status()["bootstrap"]) as bus:
        bus.create_topic("led", partitions=3, replication_factor=3)

        def misled() -> list[int]:
            return [each.leader for each in bus.describe_topic("led").partitions if each.leader != each.replicas[0]]

        for ask in (("elect-leaders", "led"), ("rebalance", "--yes")):
            victim = bus.describe_topic("led").partitions[0].leader
            barnabas_cluster.done("stop", victim)
            barnabas_cluster.done("start", victim)
            barnabas_cluster.wait(lambda _: bool(misled()) and all_in_sync(bus, "led"))
            assert "leaders elected: " in barnabas_cluster.done(*ask)
            barnabas_cluster.wait(lambda _: not misled())
        assert "led by its preferred leader" in barnabas_cluster.done("elect-leaders", "led")
        assert "every partition has a leader" in barnabas_cluster.done("elect-leaders", "--unclean")

        refusal = barnabas_cluster.refused("remove", 1)
        assert "node 1 has the only replica" in refusal or "node 1 holds replicas of" in refusal
        bus.delete_topic("led")


def all_in_sync(bus: Bus, topic: str) -> bool:
    return all(len(each.in_sync) == len(each.replicas) for each in bus.describe_topic(topic).partitions)


def test_a_node_that_was_never_registered_is_removed(barnabas_cluster: Commands) -> None:
    directory = ClusterDirectory(barnabas_cluster.directory)
    with directory.changing() as state:
        node_id = one_more(state, rack=None).node_id  # what an `add` leaves behind that was interrupted at once

    assert f"node {node_id}: removed" in barnabas_cluster.done("remove", node_id)

    assert sorted(roles(barnabas_cluster.status())) == [1, 2, 3]


def test_what_a_new_cluster_alone_can_be_given_is_refused_for_an_old_one(barnabas_cluster: Commands) -> None:
    assert "--nodes is 5, but the cluster" in barnabas_cluster.refused("up", "--nodes", 5)
    assert "are for a new one" in barnabas_cluster.refused("up", "--port", 9092)


def test_a_reused_process_id_is_not_signalled(barnabas_cluster: Commands) -> None:
    directory = ClusterDirectory(barnabas_cluster.directory)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        with directory.changing() as state:
            real, state.node(1).process = state.node(1).process, ProcessKey(stranger.pid, "another time")

        refusal = barnabas_cluster.refused("kill", 1)

        with directory.changing() as state:
            state.node(1).process = real
        assert "node 1 is not running" in refusal
        assert stranger.poll() is None
        stranger.communicate(b"\n")
    assert all_active(barnabas_cluster.status())


def test_down_stops_all_nodes_and_up_brings_them_back_with_their_data(barnabas_cluster: Commands) -> None:
    down = subprocess.run(
        command_line("down", "--dir", str(barnabas_cluster.directory)), capture_output=True, text=True, check=False
    )

    assert (down.returncode, down.stdout, down.stderr) == (0, "3 nodes stopped\n", "")
    status = barnabas_cluster.status()
    assert [each["process"] for each in status["nodes"]] == ["stopped"] * 3
    assert status["leader_id"] is None
    assert "no node is running" in barnabas_cluster.done("status")

    barnabas_cluster.done("up")

    with Bus(barnabas_cluster.status()["bootstrap"]) as bus:
        assert len(bus.describe_topic("orders").partitions) == 6


def test_down_deletes_only_when_told_so(barnabas_cluster: Commands) -> None:
    said = barnabas_cluster("down", "--delete")
    assert (said.code, "Nothing was done" in said.err) == (2, True)
    assert all_active(barnabas_cluster.status())
    processes = [each.process for each in ClusterDirectory(barnabas_cluster.directory).read().nodes]

    barnabas_cluster.done("down", "--delete", "--yes")

    assert [each.condition for each in processes if each is not None] == [Condition.STOPPED] * 3
    assert not barnabas_cluster.directory.exists()
    assert "there is no cluster in" in barnabas_cluster.refused("status")


def test_a_setting_that_no_node_can_start_with_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = Commands(tmp_path / "new", capsys)

    assert "num.partitions" in commands.refused("up", "--set", "num.partitions=many")
    assert not commands.directory.exists()


def test_a_cluster_in_the_foreground_ends_with_ctrl_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = Commands(tmp_path / "new", capsys)
    up = command_line("up", "--nodes", "1", "--foreground", "--dir", str(commands.directory))
    with subprocess.Popen(up, stdout=subprocess.PIPE, text=True) as staying:
        try:
            assert staying.stdout is not None
            lines = [staying.stdout.readline() for _ in range(4)]
            assert [line.split()[0] for line in lines[1:3]] == ["HTTP:", "cluster"]
            assert lines[3] == "press Ctrl-C to stop the nodes\n"
            assert all_active(commands.status())

            staying.send_signal(signal.SIGINT)

            assert staying.wait(PATIENCE_S) == 0
        finally:
            staying.kill()  # the nodes end with it; nothing, if it has ended
    assert commands.node(1)["process"] == "stopped"


def _of(status: Any, node_id: int) -> Any:
    return next(each for each in status["nodes"] if each["node_id"] == node_id)
