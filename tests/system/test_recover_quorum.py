"""Two of three nodes are lost with their disks: the steps of docs/operations.md, with real processes."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from barnabas.cli.main import app, run
from barnabas.client import Bus
from barnabas.testing.cluster.directory import ClusterDirectory

pytestmark = pytest.mark.xdist_group("recover_quorum")

WAIT_S: Final = 60
SETTINGS: Final = ("broker.heartbeat.interval.ms=300", "broker.session.timeout.ms=3000")
RECORDS: Final = [f"order {number}".encode() for number in range(100)]


class Commands:
    """`barnabas cluster COMMAND`, in this process."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = ClusterDirectory(directory)
        self._capsys = capsys

    def __call__(self, *arguments: str | int) -> tuple[int, str]:
        self._capsys.readouterr()
        code = 0
        try:
            run(app, ["cluster", *map(str, arguments)])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        said = self._capsys.readouterr()
        return code, said.out + said.err

    def done(self, command: str, *arguments: str | int) -> str:
        code, said = self(command, *arguments, "--dir", str(self.directory.path))
        assert code == 0, said
        return said

    def recover(self, node_id: int, *arguments: str) -> tuple[int, str]:
        return self("recover-quorum", "--data-dir", str(self.directory.data_dir(node_id)), *arguments)

    def status(self) -> Any:
        return json.loads(self.done("status", "--json"))

    def wait(self, holds: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + WAIT_S
        while not holds(status := self.status()):
            assert time.monotonic() < deadline, status
        return status


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Commands]:
    commands = Commands(tmp_path / "cluster", capsys)
    commands.done("up", "--nodes", 3, *(part for each in SETTINGS for part in ("--set", each)))
    try:
        yield commands
    finally:
        for node in commands.directory.read().nodes:
            if node.process is not None:
                node.process.kill()


def voters(status: Any) -> list[int]:
    return sorted(each["node_id"] for each in status["nodes"] if each["quorum"] in ("leader", "voter"))


def in_sync(bus: Bus) -> list[int]:
    return sorted(bus.describe_topic("orders").partitions[0].in_sync)


def read(bus: Bus) -> list[bytes | None]:
    return [each.value for each in bus.consume("orders", until_end=True)]


def test_the_survivor_of_three_leads_a_new_quorum_and_nothing_acknowledged_is_lost(commands: Commands) -> None:
    with Bus(commands.status()["bootstrap"]) as bus:
        bus.create_topic("orders", partitions=1, replication_factor=3, config={"min.insync.replicas": "2"})
        for each in RECORDS:
            bus.send("orders", each)
        bus.flush()
    # Two machines burn.
    commands.done("kill", 1, 2)
    for lost in (1, 2):
        shutil.rmtree(commands.directory.data_dir(lost))
    code, refused = commands.recover(3, "--yes")
    assert (code, "is in use by another node" in refused) == (1, True)

    # The survivor is stopped, recovered and started.
    commands.done("kill", 3)
    code, said = commands.recover(3, "--yes")
    assert code == 0, said
    assert "what comes after it was on the voters 1, 2 alone, and is lost" in said
    assert "Never start the voters 1, 2 with their old data directories again" in said
    assert "node 3 is the only voter" in said
    commands.done("start", 3)
    assert voters(commands.wait(lambda status: status["leader_id"] == 3)) == [3]
    code, again = commands.recover(3, "--yes")
    assert (code, "is in use by another node" in again) == (1, True)

    # New nodes join, vote, and take the replicas of those that are lost.
    assert "node 4: votes now" in commands.done("add")
    assert "node 5: votes now" in commands.done("add")
    for lost in (1, 2):
        commands.done("decommission", lost, "--yes")
        commands.done("remove", lost)
    status = commands.wait(lambda status: voters(status) == [3, 4, 5])
    assert [each["node_id"] for each in status["nodes"]] == [3, 4, 5]

    with Bus(status["bootstrap"]) as bus:
        deadline = time.monotonic() + WAIT_S
        while in_sync(bus) != [3, 4, 5]:
            assert time.monotonic() < deadline, in_sync(bus)
        assert read(bus) == RECORDS
        bus.send("orders", b"one more")
        bus.flush()
        bus.create_topic("later", partitions=1, replication_factor=3)
        assert read(bus) == [*RECORDS, b"one more"]

    # Any of the three can be lost again.
    commands.done("kill", 3)
    assert commands.wait(lambda status: status["leader_id"] in (4, 5))["leader_id"] != 3
