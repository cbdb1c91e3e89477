"""Real processes: nodes of a cluster are restarted in turn, and killed all at once, while clients write with acks=all
to three replicas. Every record that was acknowledged is there at the end, once, and in its order.

`tests/system/chaos` has all other faults, and other clients.
"""

import threading
import time
from typing import Final

import barnabas
from barnabas.client import Bus
from barnabas.client.message import RecordPlace
from barnabas.core.errors import BarnabasError

PATIENCE_S: Final = 90
PARTITIONS: Final = 3
WRITERS: Final = 2
ACKED_BETWEEN: Final = 30
TOPIC: Final = "orders"


class Writer(threading.Thread):
    """Sends numbered records with an idempotent producer, a few at a time, and notes where each was acknowledged."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._bus = Bus(bootstrap)
        self._is_over = threading.Event()
        self.acked: dict[int, RecordPlace] = {}
        self.failed: dict[int, str] = {}
        self.longest_s = 0.0  # between two acknowledgements, or until the first

    def run(self) -> None:
        number, last = 0, time.monotonic()
        while not self._is_over.is_set():
            sent = []
            for _ in range(10):
                value = f"{self.name} {number}"
                sent.append((number, self._bus.send(TOPIC, value, partition=number % PARTITIONS)))
                number += 1
            for each, delivery in sent:
                try:
                    self.acked[each] = delivery.result(PATIENCE_S)
                except BarnabasError as error:
                    self.failed[each] = str(error)
                now = time.monotonic()
                self.longest_s, last = max(self.longest_s, now - last), now

    def stop(self) -> None:
        self._is_over.set()
        self.join(2 * PATIENCE_S)
        assert not self.is_alive()
        self._bus.close()


def wait_acked(writers: list[Writer]) -> None:
    """Return when every writer has gone on."""
    goals = [len(each.acked) + ACKED_BETWEEN for each in writers]
    deadline = time.monotonic() + PATIENCE_S
    while any(len(each.acked) < goal for each, goal in zip(writers, goals, strict=True)):
        assert time.monotonic() < deadline, [(each.name, len(each.acked), each.failed) for each in writers]
        time.sleep(0.02)


def wait_in_sync(bus: Bus) -> None:
    """Return when all replicas of all partitions are in sync."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = bus.describe_topic(TOPIC).partitions
        if all(len(each.in_sync) == 3 for each in found):
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def check_log(bus: Bus, writers: list[Writer]) -> None:
    """What was acknowledged is where it was said to be; each record is there once, and those of a writer in order."""
    found: dict[tuple[int, int], str] = {}
    for record in bus.consume(TOPIC, until_end=True):
        assert record.value is not None
        found[record.partition, record.offset] = record.value.decode()
    assert len(set(found.values())) == len(found), "something is there twice"
    for writer in writers:
        for number, place in writer.acked.items():
            assert found.get((place.partition, place.offset)) == f"{writer.name} {number}", (number, place)
        for partition in range(PARTITIONS):
            mine = [
                int(value.rpartition(" ")[2])
                for (where, _), value in sorted(found.items())
                if where == partition and value.startswith(f"{writer.name} ")
            ]
            assert mine == sorted(mine)


def test_a_rolling_restart_reaches_no_client() -> None:
    settings = {"log.flush.policy": "fsync", "min.insync.replicas": "2", "default.replication.factor": "3"}
    with barnabas.cluster(nodes=3, settings=settings) as cluster, Bus(cluster.bootstrap) as bus:
        bus.create_topic(TOPIC, partitions=PARTITIONS)
        wait_in_sync(bus)
        writers = [Writer(cluster.bootstrap, f"writer-{number}") for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        try:
            wait_acked(writers)
            for node in cluster.nodes:
                node.stop()
                wait_acked(writers)
                node.start()
                wait_in_sync(bus)
        finally:
            for writer in writers:
                writer.stop()

        check_log(bus, writers)
        for writer in writers:
            print(f"{writer.name}: {len(writer.acked)} acknowledged, longest pause {writer.longest_s:.2f} s")
            assert not writer.failed
        assert [line for node in cluster.nodes for line in node.log.splitlines() if " ERROR " in line] == []


def test_all_nodes_killed_at_once_come_back_with_everything() -> None:
    settings = {"log.flush.policy": "fsync", "min.insync.replicas": "2", "default.replication.factor": "3"}
    with barnabas.cluster(nodes=3, settings=settings) as cluster, Bus(cluster.bootstrap) as bus:
        bus.create_topic(TOPIC, partitions=PARTITIONS)
        writers = [Writer(cluster.bootstrap, f"writer-{number}") for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        try:
            wait_acked(writers)
            for node in cluster.nodes:
                node.kill()
            for node in cluster.nodes:
                node.start()
            wait_acked(writers)
        finally:
            for writer in writers:
                writer.stop()

        wait_in_sync(bus)
        check_log(bus, writers)
