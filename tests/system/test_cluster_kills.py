"""Real processes: the active controller is killed or paused again and again while topics are created and deleted over
every node. Each change that was answered is there at the end, on all nodes alike.

`make kills` runs the long form: CLUSTER_KILLS says how often.
"""

import os
import threading
import time
from collections import Counter
from typing import Any, Final

import barnabas
from barnabas.client.connection import BrokerConnection
from barnabas.core.errors import BarnabasError
from barnabas.testing.cluster.fixture import TestCluster, TestNode
from barnabas.wire.apis import CREATE_TOPICS, DELETE_TOPICS, METADATA

KILLS: Final = int(os.environ.get("CLUSTER_KILLS", "3"))
PATIENCE_S: Final = 90
ANSWERS_BETWEEN: Final = 5
"""How many changes every node must have answered before the next controller goes."""
PAUSE_S: Final = 0.02
"""Between two changes over one node: the machine has other things to do."""


class Changer(threading.Thread):
    """Creates topics over one node, and deletes every second one; notes what was answered."""

    def __init__(self, node: TestNode) -> None:
        super().__init__(name=f"changes over node {node.node_id}", daemon=True)
        self.node_id = node.node_id
        host, _, port = node.bootstrap.rpartition(":")
        self._address = host, int(port)
        self._is_over = threading.Event()
        self.created: set[str] = set()
        self.deleted: set[str] = set()
        self.unknown: set[str] = set()
        self.refusals: Counter[str] = Counter()
        self.answers = 0

    def run(self) -> None:
        number = 0
        while not self._is_over.wait(PAUSE_S):
            try:
                connection = BrokerConnection(*self._address, "changer")
            except BarnabasError:
                continue
            try:
                while not self._is_over.wait(PAUSE_S):
                    number += 1
                    self._change(connection, f"topic-{self.node_id}-{number}", is_deleted=number % 2 == 0)
            except BarnabasError:
                pass  # the connection is lost, and with it the answer
            finally:
                connection.close()

    def stop(self) -> None:
        self._is_over.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()

    def _change(self, connection: BrokerConnection, name: str, *, is_deleted: bool) -> None:
        self.unknown.add(name)
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        if not self._is_done(connection.call(CREATE_TOPICS.key, {"topics": [topic], "timeout": 10_000}).topics[0]):
            return
        if is_deleted:
            values = {"topics": [{"name": name, "topic_id": None}], "topic_names": [name], "timeout": 10_000}
            if not self._is_done(connection.call(DELETE_TOPICS.key, values).responses[0]):
                return
        self.unknown.remove(name)
        (self.deleted if is_deleted else self.created).add(name)
        self.answers += 1

    def _is_done(self, answer: Any) -> bool:
        """Whether a change was done. Any other answer leaves open whether it was, or will be."""
        code = int(answer.error_code)
        if code:
            self.refusals[f"{code}: {getattr(answer, 'error_message', None)}"] += 1
        return code == 0


def wait_answers(changers: list[Changer], nodes: list[TestNode]) -> None:
    """Return when changes over each of these nodes go on."""
    by_id = {changer.node_id: changer for changer in changers}
    goals = {node.node_id: by_id[node.node_id].answers + ANSWERS_BETWEEN for node in nodes}
    deadline = time.monotonic() + PATIENCE_S
    while any(by_id[node_id].answers < goal for node_id, goal in goals.items()):
        assert time.monotonic() < deadline, [(each.name, each.answers, each.refusals) for each in changers]
        time.sleep(PAUSE_S)


def topics_of(node: TestNode) -> dict[str, Any]:
    """The topics that a node knows, with their ids and places."""
    host, _, port = node.bootstrap.rpartition(":")
    connection = BrokerConnection(host, int(port), "checker")
    try:
        answer = connection.call(METADATA.key, {"topics": None, "allow_auto_topic_creation": False})
    finally:
        connection.close()
    return {
        topic.name: (topic.topic_id, [tuple(each.replica_nodes) for each in topic.partitions])
        for topic in answer.topics
    }


def wait_agreed(nodes: list[TestNode]) -> dict[str, Any]:
    """The topics, once all nodes know the same."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        first, *others = [topics_of(node) for node in nodes]
        if all(each == first for each in others):
            return first
        assert time.monotonic() < deadline, [len(each) for each in (first, *others)]
        time.sleep(PAUSE_S)


def strike(cluster: TestCluster, changers: list[Changer], number: int) -> None:
    """Take the active controller away, killed or paused by turns; bring it back when changes go on without it."""
    victim = cluster.controller
    others = [node for node in cluster.nodes if node is not victim]
    if number % 2:
        victim.pause()
    else:
        victim.kill()
    try:
        wait_answers(changers, others)
        assert cluster.controller is not victim
    finally:
        if number % 2:
            victim.resume()
        else:
            victim.start()
    wait_answers(changers, cluster.nodes)


def test_no_answered_change_is_lost_when_controllers_are_killed_and_paused() -> None:
    with barnabas.cluster(nodes=3) as cluster:
        changers = [Changer(node) for node in cluster.nodes]
        for changer in changers:
            changer.start()
        try:
            for number in range(KILLS):
                strike(cluster, changers, number)
        finally:
            for changer in changers:
                changer.stop()

        topics = wait_agreed(cluster.nodes)

        for changer in changers:
            print(f"{changer.name}: {changer.answers} answered, {len(changer.unknown)} not, {dict(changer.refusals)}")
        created = {name for changer in changers for name in changer.created}
        deleted = {name for changer in changers for name in changer.deleted}
        unknown = {name for changer in changers for name in changer.unknown}
        assert created - topics.keys() == set()
        assert deleted & topics.keys() == set()
        assert topics.keys() - created - unknown == set()
        assert min(changer.answers for changer in changers) >= ANSWERS_BETWEEN * (KILLS // 3 + 1)
        assert all(" ERROR " not in node.log for node in cluster.nodes)
