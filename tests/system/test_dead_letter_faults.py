"""Real processes: the node with the dead-letter topic is killed while jobs are rejected. No job is lost or archived
without its letter, and all letters are written once the node is back, by leaders on all nodes.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

import barnabas
from barnabas.client import Bus, Job, LockLost, Unreachable
from barnabas.core.records.dead_letters import read_letter

JOBS: Final = 60
PATIENCE_S: Final = 120
LETTERS: Final = "dlq.jobs"
SETTINGS: Final = {
    "share.auto.offset.reset": "earliest",
    "errors.deadletterqueue.topic.name": LETTERS,
    "errors.deadletterqueue.copy.record.enable": "true",
}


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        threading.Event().wait(0.1)


def prepare(bus: Bus) -> None:
    bus.create_topic("jobs", partitions=3, replication_factor=3)
    bus.create_topic(
        LETTERS, partitions=1, replication_factor=1, config={"errors.deadletterqueue.group.enable": "true"}
    )
    admin = AdminClient({"log_level": 0, "bootstrap.servers": bus.bootstrap})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in SETTINGS.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, "workers", incremental_configs=entries)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(30)


def archiving(bus: Bus) -> int:
    """How many jobs wait for their letters, as the share coordinators have it."""
    return sum(each.archiving or 0 for each in bus.queues.stats("workers"))


def letters(bus: Bus) -> set[tuple[int, int]]:
    """The partitions and offsets that have letters."""
    found = (read_letter(each.headers, has_content=True) for each in bus.consume(LETTERS, until_end=True))
    return {(each.source.partition, each.source.offset) for each in found if each is not None}


def test_no_job_is_archived_without_its_letter_while_the_topic_of_the_letters_is_away() -> None:
    settings = {"share.coordinator.state.topic.num.partitions": "3", "offsets.topic.num.partitions": "3"}
    with barnabas.cluster(nodes=3, settings=settings) as cluster:
        bus = cluster.bus
        prepare(bus)
        for job in range(JOBS):
            bus.send("jobs", str(job), partition=job % 3)
        bus.flush()
        (place,) = bus.describe_topic(LETTERS).partitions
        home = next(node for node in cluster.nodes if node.node_id == place.leader)
        tried: set[tuple[int, int]] = set()
        queue = bus.queue("jobs", group="workers", ack="sync")

        def handle(job: Job) -> None:
            if len(tried) == JOBS // 3:
                home.kill()
            tried.add((job.partition, job.offset))
            with suppress(LockLost, Unreachable):  # then it is delivered again, unless only the answer was lost
                job.reject()

        working = threading.Thread(target=lambda: queue.run(handle), daemon=True)
        working.start()
        wait_for("all jobs", lambda: len(tried) == JOBS)
        others = [node for node in cluster.nodes if node is not home]
        wait_for("letters that cannot be written", lambda: any("the dead letter of" in node.log for node in others))
        home.start()
        wait_for("all letters", lambda: letters(bus) == tried)
        wait_for("all states", lambda: archiving(bus) == 0)
        queue.close()
        working.join(PATIENCE_S)
