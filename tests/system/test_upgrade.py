"""Data of the time before replicas: the directory of a single node becomes node 1 of three, and its topics are grown to
three replicas by reassignment.

`tests/support/old_data_directory` was written by a version that knew neither replicas nor a quorum, and was killed.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

import pytest
from typer.testing import CliRunner

from barnabas.cli.main import app
from barnabas.client import Bus
from barnabas.core.errors import BarnabasError
from barnabas.core.records.batch import iter_whole_batches
from barnabas.core.records.record import Record, decode_records
from barnabas.testing.cluster.forming import new_state
from barnabas.testing.cluster.local import LocalCluster
from barnabas.testing.cluster.starting import Kept

OLD: Final = Path("tests/support/old_data_directory")
TOPICS: Final = ("t", "__consumer_offsets", "__transaction_state")
NODES: Final = (1, 2, 3)
WAIT_S: Final = 60
Isolation = Literal["read_committed", "read_uncommitted"]
LEVELS: Final[tuple[Isolation, ...]] = ("read_committed", "read_uncommitted")
SETTINGS: Final = {
    "log.flush.policy": "os",
    "min.insync.replicas": "2",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
}


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Node 1, running on the old data."""
    path = Path(tempfile.mkdtemp(prefix="barnabas-upgrade-"))
    kept = Kept(remove=path)
    try:
        made = LocalCluster(path, kept)
        made.directory.create(new_state(1, settings=SETTINGS))
        shutil.copytree(OLD, made.directory.data_dir(1))
        made.start()
        with made.directory.changing() as state:
            state.cluster_id = cluster_id_of(made.directory.data_dir(1))  # the old data are those of a cluster
        yield made
    finally:
        kept.close()


def cluster_id_of(data_dir: Path) -> str:
    lines = (data_dir / "meta.properties").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def run(cluster: LocalCluster, *arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--bootstrap", cluster.bootstrap])
    assert done.exit_code == 0, done.output
    return done.output


def values(bus: Bus, topic: str, isolation: Isolation) -> list[tuple[int, int, bytes | None]]:
    found = bus.consume(topic, until_end=True, isolation=isolation)
    return sorted((each.partition, each.offset, each.value) for each in found)


def is_everywhere(bus: Bus, topic: str) -> bool:
    try:
        partitions = bus.describe_topic(topic).partitions
    except BarnabasError:
        return False
    return all(sorted(each.in_sync) == list(NODES) for each in partitions)


def log_of(cluster: LocalCluster, node_id: int, topic: str, partition: int) -> bytes:
    directory = cluster.directory.data_dir(node_id) / f"{topic}-{partition}"
    return b"".join(each.read_bytes() for each in sorted(directory.glob("*.log")))


def check_same(logs: list[bytes]) -> None:
    """Replicas of a compacted log: no offset has two meanings, and the last value of each key is the same.

    Each node compacts on its own, so the bytes may differ.
    """
    by_offset: dict[int, tuple[bytes | None, bytes | None]] = {}
    states = []
    for log in logs:
        state: dict[bytes, bytes] = {}
        for record in records_of(log):
            key, value = bytes(record.key or b""), None if record.value is None else bytes(record.value)
            assert by_offset.setdefault(record.offset, (key, value)) == (key, value)
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
        states.append(state)
    assert states[0]
    assert all(each == states[0] for each in states)


def records_of(log: bytes) -> Iterator[Record]:
    data = memoryview(log)
    for position, header in iter_whole_batches(data):
        if not header.is_control:
            yield from decode_records(data, position, header)


def test_an_old_directory_becomes_node_1_of_three_and_its_topics_get_three_replicas(cluster: LocalCluster) -> None:
    with Bus(cluster.bootstrap) as bus:
        seen = {level: values(bus, "t", level) for level in LEVELS}
        assert seen["read_committed"]
        partitions = {topic: len(bus.describe_topic(topic).partitions) for topic in TOPICS}
        assert all(each.replicas == (1,) for topic in TOPICS for each in bus.describe_topic(topic).partitions)

    assert [cluster.add(), cluster.add()] == [2, 3]
    for topic in TOPICS:
        run(cluster, "cluster", "reassign", topic, "--replicas", "3", "--yes")

    with Bus(cluster.bootstrap) as bus:
        for topic in TOPICS:
            wait_for(lambda topic=topic: is_everywhere(bus, topic))  # type: ignore[misc]
        bus.send("t", "written to three").result(WAIT_S)
        for level, before in seen.items():
            after = values(bus, "t", level)
            assert after[: len(before)] == before
            assert after[-1][2] == b"written to three"
        cluster.kill(1)
        wait_for(lambda: all(each.leader in (2, 3) for each in bus.describe_topic("t").partitions))
        assert values(bus, "t", "read_committed")[-1][2] == b"written to three", "without the node that had all of it"
        cluster.start(1)
        for topic in TOPICS:
            wait_for(lambda topic=topic: is_everywhere(bus, topic))  # type: ignore[misc]
    cluster.stop_all()

    for topic in TOPICS:
        for partition in range(partitions[topic]):
            logs = [log_of(cluster, node_id, topic, partition) for node_id in NODES]
            if topic == "t":
                assert logs[1:] == logs[:1] * 2, f"the replicas of t-{partition} differ"
            else:
                check_same(logs)
    lines = [line for each in NODES for line in cluster.directory.log(each).read_text().splitlines()]
    assert [line for line in lines if "ERROR" in line] == []
