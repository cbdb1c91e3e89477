"""`Bus.queue` on a broker with locks of one second: workers that share, fail, are slow, stop, and see it restart."""

import itertools
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from barnabas.client import Bus, Job, LockLost, UnknownTopicOrPartition
from barnabas.client.queues.queue import AckMode
from barnabas.core.errors import BarnabasError, GroupIdNotFound, InvalidRequest
from tests.conformance.broker.clients import QUIET
from tests.conformance.broker.conftest import TIMEOUT_S
from tests.conformance.broker.served import ServedBroker

LOCK_S = 1.0
QUEUES = Path(__file__).parents[3] / "docs" / "queues.md"
_numbers = itertools.count()

MakeQueue = Callable[..., str]


@pytest.fixture(scope="module")
def queue_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("queues"), "group.share.min.record.lock.duration.ms=1000") as served:
        yield served
    assert "Traceback" not in served.log, served.log


@pytest.fixture
def bus(queue_broker: ServedBroker) -> Iterator[Bus]:
    with Bus(queue_broker.bootstrap) as opened:
        yield opened


@pytest.fixture
def make_queue(queue_broker: ServedBroker, bus: Bus) -> MakeQueue:
    """Create a topic with so many jobs, and a group of the same name with short locks that begins at the start."""
    admin = AdminClient({**QUIET, "bootstrap.servers": queue_broker.bootstrap})

    def make(count: int, *, partitions: int = 1, **settings: str) -> str:
        name = f"jobs-{next(_numbers)}"
        bus.create_topic(name, partitions=partitions)
        wanted = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(int(LOCK_S * 1000))}
        wanted |= {each.replace("_", "."): value for each, value in settings.items()}
        entries = [
            ConfigEntry(each, value, incremental_operation=AlterConfigOpType.SET) for each, value in wanted.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=entries)
        for altered in admin.incremental_alter_configs([resource]).values():
            altered.result(TIMEOUT_S)
        send(bus, name, count)
        return name

    return make


def send(bus: Bus, topic: str, count: int) -> None:
    for number in range(count):
        bus.send(topic, str(number), key=f"k{number}", headers={"n": str(number)}, partition=None)
    bus.flush()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, what
        threading.Event().wait(0.02)


def depth(bus: Bus, group: str) -> int:
    """How much a queue has left; more than nothing while that is unknown."""
    try:
        stats = bus.queues.stats(group)
    except GroupIdNotFound:
        return 1
    return sum(1 if each.depth is None else each.depth for each in stats) if stats else 1


def test_a_job_is_a_record_and_is_done_when_its_block_ends(bus: Bus, make_queue: MakeQueue) -> None:
    name = make_queue(1)
    for job in bus.queue(name, group=name, timeout=TIMEOUT_S):
        with job:
            assert (job.topic, job.partition, job.offset) == (name, 0, 0)
            assert (job.key, job.value, job.headers) == (b"k0", b"0", (("n", b"0"),))
            assert job.delivery_count == 1
        break
    assert depth(bus, name) == 0


def test_many_workers_do_every_job_once(bus: Bus, make_queue: MakeQueue) -> None:
    name = make_queue(500, partitions=3)
    done: list[int] = []
    queue = bus.queue(name, group=name, timeout=TIMEOUT_S)

    def handle(job: Job) -> None:
        done.append(int(job.value or b""))
        if len(done) == 500:
            queue.close()

    assert queue.run(handle, workers=8) == 500
    assert sorted(done) == list(range(500))
    assert (queue.lost_count, depth(bus, name)) == (0, 0)


def test_a_job_whose_block_raises_comes_again_up_to_the_limit(bus: Bus, make_queue: MakeQueue) -> None:
    name = make_queue(3, share_delivery_count_limit="2")
    seen: Counter[bytes | None] = Counter()
    errors: list[tuple[int, str]] = []

    def handle(job: Job) -> None:
        seen[job.value] += 1
        assert job.delivery_count == seen[job.value]
        if job.value == b"1":
            raise ValueError("no")

    def note(job: Job, error: Exception) -> None:
        errors.append((job.offset, str(error)))

    queue = bus.queue(name, group=name)
    running = threading.Thread(target=lambda: queue.run(handle, workers=2, on_error=note))
    running.start()
    wait_until(lambda: depth(bus, name) == 0, "the queue was not empty")
    queue.close()
    running.join(TIMEOUT_S)
    assert seen == {b"0": 1, b"1": 2, b"2": 1}
    assert errors == [(1, "no"), (1, "no")]


def test_the_error_of_a_block_is_the_callers_and_the_job_is_released(bus: Bus, make_queue: MakeQueue) -> None:
    name = make_queue(1)
    with bus.queue(name, group=name, timeout=TIMEOUT_S) as queue:
        job = queue.take()
        assert job is not None
        with pytest.raises(ValueError, match="mine"), job:
            raise ValueError("mine")
        again = queue.take()
        assert again is not None
        assert again.delivery_count == 2
        again.accept()


def test_a_rejected_job_does_not_come_again(bus: Bus, make_queue: MakeQueue) -> None:
    name = make_queue(2)
    with bus.queue(name, group=name, ack="sync", timeout=TIMEOUT_S) as queue:
        for job in queue:
            with job:
                if job.offset == 0:
                    job.reject()
            if job.offset == 1:
                break
        assert depth(bus, name) == 0
        assert queue.take(timeout=0.3) is None


@pytest.mark.parametrize("ack", ["batched", "sync"])
def test_a_lock_is_renewed_while_its_job_is_worked_on(bus: Bus, make_queue: MakeQueue, ack: AckMode) -> None:
    name = make_queue(1)
    queue = bus.queue(name, group=name, ack=ack, timeout=TIMEOUT_S)
    other = bus.queue(name, group=name)
    with queue, other:
        job = queue.take()
        assert job is not None
        with job:
            assert other.take(timeout=2.2 * LOCK_S) is None
            assert not job.is_lost
        assert other.take(timeout=0.3) is None
    assert depth(bus, name) == 0


def test_a_job_that_is_held_too_long_goes_to_somebody_else(bus: Bus, make_queue: MakeQueue) -> None:
    name = make_queue(1)
    with bus.queue(name, group=name, ack="sync", max_hold=0.1) as queue, bus.queue(name, group=name) as other:
        job = queue.take()
        assert job is not None
        taken = other.take(timeout=TIMEOUT_S)
        assert taken is not None
        assert taken.delivery_count == 2
        wait_until(lambda: job.is_lost, "the lock was not lost")
        with pytest.raises(LockLost, match="delivered again"):
            job.accept()
        taken.accept()
        assert queue.lost_count == 1


def test_two_members_share_one_partition(bus: Bus, make_queue: MakeQueue, queue_broker: ServedBroker) -> None:
    name = make_queue(0)
    by_member: dict[int, list[bytes | None]] = {0: [], 1: []}
    met = threading.Barrier(2)
    queues = [bus.queue(name, group=name) for _ in by_member]

    def work(member: int) -> None:
        for job in queues[member]:
            with job:
                if not by_member[member]:
                    met.wait(TIMEOUT_S)  # both have one: nobody holds jobs that another could do
                by_member[member].append(job.value)

    threads = [threading.Thread(target=work, args=[member]) for member in by_member]
    for thread in threads:
        thread.start()
    send(bus, name, 40)
    wait_until(lambda: sum(map(len, by_member.values())) >= 40 and depth(bus, name) == 0, "jobs were left")
    for queue, thread in zip(queues, threads, strict=True):
        queue.close()
        thread.join(TIMEOUT_S)
    assert all(by_member.values())
    assert sorted(int(each or b"") for part in by_member.values() for each in part) == list(range(40))


def test_what_is_not_finished_at_the_end_is_released_at_once(bus: Bus, make_queue: MakeQueue) -> None:
    name = make_queue(3, share_record_lock_duration_ms="60000")
    queue = bus.queue(name, group=name, timeout=TIMEOUT_S)
    first, second = queue.take(), queue.take()
    assert first is not None
    assert second is not None
    first.accept()
    queue.close()
    second.accept()  # too late, which changes nothing
    assert queue.take() is None
    with bus.queue(name, group=name, timeout=TIMEOUT_S) as later:
        jobs = [later.take(), later.take()]
        assert sorted(job.offset for job in jobs if job is not None) == [1, 2]


def test_a_queue_that_is_left_has_no_member_and_can_be_purged(bus: Bus, make_queue: MakeQueue) -> None:
    name = make_queue(2)
    for job in bus.queue(name, group=name, timeout=TIMEOUT_S):
        with job:
            break
    with bus.queue(name, group=name) as member:
        assert member.take(timeout=TIMEOUT_S) is not None
        with pytest.raises(BarnabasError, match="non empty group"):
            bus.queues.purge(name, name)
    assert bus.queues.purge(name, name) == {0: 2}
    assert depth(bus, name) == 0


def test_a_queue_goes_on_when_its_broker_restarts(bus: Bus, make_queue: MakeQueue, queue_broker: ServedBroker) -> None:
    name = make_queue(20)
    done: Counter[int] = Counter()
    queue = bus.queue(name, group=name)
    is_restarted = threading.Event()

    def handle(job: Job) -> None:
        if job.offset == 10 and not is_restarted.is_set():
            queue_broker.kill()
            queue_broker.start()
            is_restarted.set()
        done[job.offset] += 1

    running = threading.Thread(target=lambda: queue.run(handle))
    running.start()
    assert is_restarted.wait(TIMEOUT_S)
    wait_until(lambda: len(done) == 20, "jobs were left")
    send(bus, name, 5)
    wait_until(lambda: len(done) == 25, "jobs after the restart were left")
    queue.close()
    running.join(TIMEOUT_S)
    assert depth(bus, name) == 0


def test_a_close_waits_for_the_handlers_that_are_at_work(bus: Bus, make_queue: MakeQueue) -> None:
    name = make_queue(1)
    begun, may_end = threading.Event(), threading.Event()

    def handle(job: Job) -> None:
        begun.set()
        assert may_end.wait(TIMEOUT_S)

    queue = bus.queue(name, group=name)
    running = threading.Thread(target=lambda: queue.run(handle, workers=2))
    running.start()
    assert begun.wait(TIMEOUT_S)
    closing = threading.Thread(target=queue.close)
    closing.start()
    may_end.set()
    closing.join(TIMEOUT_S)
    running.join(TIMEOUT_S)
    assert depth(bus, name) == 0


def test_ctrl_c_ends_workers_after_their_jobs(queue_broker: ServedBroker, bus: Bus, make_queue: MakeQueue) -> None:
    name = make_queue(2, share_record_lock_duration_ms="30000")  # not lost, however slowly the process starts
    code = f"""
import sys
from barnabas.client import Bus

def handle(job):
    print(job.offset, flush=True)
    sys.stdin.readline()

def stop():
    type(queue).stop(queue)
    print("stopping", flush=True)

queue = Bus({queue_broker.bootstrap!r}).queue({name!r}, group={name!r})
queue.stop = stop
try:
    queue.run(handle)
except KeyboardInterrupt:
    print("interrupted")
"""
    with (
        bus.queue(name, group=name) as other,
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as worker,
    ):
        assert worker.stdout is not None
        assert worker.stdout.readline() == "0\n"
        worker.send_signal(signal.SIGINT)
        assert worker.stdout.readline() == "stopping\n"
        job = other.take(TIMEOUT_S)
        assert job is not None
        assert (job.offset, other.take(0.5)) == (1, None)  # the worker has its job until that is done
        job.accept()
        said, _ = worker.communicate("\n", timeout=TIMEOUT_S)
    assert (worker.returncode, said.splitlines()[-1]) == (0, "interrupted")
    assert depth(bus, name) == 0
    bus.queues.purge(name, name)  # both have left


def test_decorated_handlers_are_run(bus: Bus, make_queue: MakeQueue) -> None:
    name = make_queue(4)
    seen: set[bytes | None] = set()

    @bus.queue_worker(name, group=name, workers=2, timeout=1.0)
    def work(job: Job) -> None:
        seen.add(job.value)

    assert work() == 4
    assert seen == {b"0", b"1", b"2", b"3"}


def test_what_makes_no_sense_is_refused(bus: Bus, make_queue: MakeQueue) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        bus.queue("no-such-topic", group="g")
    name = make_queue(0)
    wrong: list[dict[str, Any]] = [{"ack": "never"}, {"prefetch": -1}, {"linger_ms": 5000}, {"max_hold": 0}]
    for options in wrong:
        with pytest.raises(InvalidRequest, match=next(iter(options))):
            bus.queue(name, group="g", **options)
    with pytest.raises(InvalidRequest, match="workers"):
        bus.queue(name, group="g").run(print, workers=0)
    with pytest.raises(BarnabasError):
        bus.queue(name, group="").take(timeout=TIMEOUT_S)


def test_the_examples_of_the_documentation_run(
    bus: Bus, make_queue: MakeQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    section = QUEUES.read_text().split("## `Bus.queue`\n", 1)[1].split("\n## ", 1)[0]
    examples = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(examples) == 2
    for example, said in zip(examples, ("doing {} for the 1 time", "done {}"), strict=True):
        name = make_queue(3)
        exec(example.replace('"jobs"', repr(name)).replace('"workers"', repr(name)), {"bus": bus})
        assert sorted(capsys.readouterr().out.splitlines()) == [said.format(number) for number in range(3)]
        assert depth(bus, name) == 0
