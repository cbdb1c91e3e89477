"""Real processes: members of a share group work off jobs while the nodes of the cluster are killed.

What a member was told is acknowledged is never delivered again, and every job is delivered and finished. Members are
librdkafka's and our own, `Bus.queue`. An acknowledgement whose answer was lost counts for nothing: its job may be done,
and then nobody hears of it again, or it comes once more. So the end is when the group has nothing left.

SHARE_KILLS and SHARE_JOBS make it longer.
"""

import os
import threading
import time
from typing import Any, Final

from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

import barnabas
from barnabas.client import Bus, Job, LockLost
from barnabas.core.errors import BarnabasError

KILLS: Final = int(os.environ.get("SHARE_KILLS", "1"))
JOBS: Final = int(os.environ.get("SHARE_JOBS", "600"))
MORE_JOBS: Final = 30
WORKERS: Final = 2
PATIENCE_S: Final = 120
QUIET: Final = {"log_level": 0}
LOCK_S: Final = 3


class History:
    """Which jobs were delivered, and which a member knows to be acknowledged."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.delivered: dict[int, int] = {}
        self.acknowledged: set[int] = set()
        self.again: list[int] = []  # delivered though they were acknowledged

    def deliver(self, job: int) -> None:
        with self._lock:
            self.delivered[job] = self.delivered.get(job, 0) + 1
            if job in self.acknowledged:
                self.again.append(job)

    def acknowledge(self, jobs: list[int]) -> None:
        with self._lock:
            self.acknowledged.update(jobs)


class Worker(threading.Thread):
    """A member: it acknowledges what it gets, and notes what became of that."""

    def __init__(self, bootstrap: str, history: History, is_over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._servers = bootstrap
        self._history = history
        self._is_over = is_over

    def run(self) -> None:
        consumer = ShareConsumer(
            {
                **QUIET,
                "bootstrap.servers": self._servers,
                "group.id": "workers",
                "share.acknowledgement.mode": "explicit",
            }
        )
        consumer.subscribe(["jobs"])
        while not self._is_over.is_set():
            messages = [each for each in consumer.poll(0.5) or () if each.error() is None]
            by_partition: dict[int, list[int]] = {}
            for message in messages:
                job, partition = int(message.value() or b""), message.partition()
                assert partition is not None
                self._history.deliver(job)
                by_partition.setdefault(partition, []).append(job)
                consumer.acknowledge(message)
            if messages:
                self._commit(consumer, by_partition)
        consumer.close()

    def _commit(self, consumer: Any, by_partition: dict[int, list[int]]) -> None:
        for place, error in (consumer.commit_sync(15.0) or {}).items():
            if error is None:
                self._history.acknowledge(by_partition.pop(place.partition, []))


class QueueWorker(threading.Thread):
    """A member by `Bus.queue`, which knows of each job what became of it."""

    def __init__(self, bootstrap: str, history: History) -> None:
        super().__init__(daemon=True)
        self._history = history
        self._queue = Bus(bootstrap).queue("jobs", group="workers", ack="sync")
        self.failure: BaseException | None = None
        self.count = 0

    def run(self) -> None:
        try:
            self._queue.run(self._handle, workers=2)
        except BaseException as failure:
            self.failure = failure

    def _handle(self, job: Job) -> None:
        number = int(job.value or b"")
        self._history.deliver(number)
        try:
            job.accept()
        except LockLost:  # it comes again, or is in doubt
            return
        self._history.acknowledge([number])
        self.count += 1

    def close(self) -> None:
        self._queue.close()
        self.join(PATIENCE_S)


def depth(bus: Bus) -> int:
    """How much the group has left; more than nothing while that is unknown."""
    try:
        return sum(1 if each.depth is None else each.depth for each in bus.queues.stats("workers"))
    except BarnabasError:  # coordinators move
        return 1


def wait_for(what: str, condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)


def prepare(bootstrap: str) -> None:
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("jobs", 3, 3)]).values():
        made.result(30)
    settings = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(LOCK_S * 1000)}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, "workers", incremental_configs=entries)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(30)


def test_no_job_is_lost_and_none_that_was_acknowledged_comes_back_when_nodes_are_killed() -> None:
    settings = {
        "group.share.min.record.lock.duration.ms": "1000",
        "share.coordinator.state.topic.num.partitions": "3",
        "offsets.topic.num.partitions": "3",
    }
    with barnabas.cluster(nodes=3, settings=settings) as cluster, Bus(cluster.bootstrap) as bus:
        prepare(cluster.bootstrap)
        history, is_over = History(), threading.Event()
        workers = [Worker(cluster.bootstrap, history, is_over) for _ in range(WORKERS)]
        own = QueueWorker(cluster.bootstrap, history)
        for worker in (*workers, own):
            worker.start()
        producer = Producer({**QUIET, "bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
        for job in range(JOBS):
            producer.produce("jobs", str(job).encode(), partition=job % 3)
            producer.poll(0)
            if job % (JOBS // (KILLS + 1)) == JOBS // (2 * KILLS + 2):
                producer.flush(30)
                victim = cluster.nodes[job % 3]
                wait_for("some work", lambda: history.acknowledged)
                victim.kill()
                victim.start()
        assert producer.flush(60) == 0
        wait_for("every job", lambda: len(history.delivered) >= JOBS and depth(bus) == 0)
        is_over.set()
        for worker in workers:
            worker.join(PATIENCE_S)
        finish_alone(own, producer, history, bus)
        assert sorted(history.delivered) == list(range(JOBS + MORE_JOBS))
        assert history.again == []
        assert all(" ERROR " not in node.log for node in cluster.nodes)


def finish_alone(own: QueueWorker, producer: Producer, history: History, bus: Bus) -> None:
    """Our own member goes on after the kills, also where nobody else does its work."""
    for job in range(JOBS, JOBS + MORE_JOBS):
        producer.produce("jobs", str(job).encode(), partition=job % 3)
    assert producer.flush(60) == 0
    wait_for("jobs of our own member", lambda: len(history.delivered) == JOBS + MORE_JOBS and depth(bus) == 0)
    own.close()
    assert own.failure is None
    assert own.count > 0
