"""A share group in a simulated cluster: several nodes lead its partitions, and others coordinate their states.

    PYTHONPATH=. python -m tests.simulation.replicas_shares 42

Workers fetch from leaders, acknowledge, release, hang and go, while nodes lose power, are cut off and stand still. What
they are told is checked as it comes (`ClusterHistory`): nothing that was acknowledged is delivered again, whoever
leads; an acknowledgement holds only if nobody else got the record since; no record is delivered more often than the
limit and the failovers of its partition allow. Once the faults are over every record that was written is done soon.
"""

import asyncio
import sys
from collections import Counter
from typing import Any, Final, NamedTuple

from barnabas.core.records.record import Record, encode_batch
from barnabas.testing import wire_client as wire
from barnabas.wire.apis import (
    INCREMENTAL_ALTER_CONFIGS,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
)
from tests.simulation.node_history import Violation
from tests.simulation.replicas_admin import Administrator
from tests.simulation.replicas_clients import OK, Client, Target, Topic
from tests.simulation.replicas_truth import Promise
from tests.simulation.replicas_world import ReplicasWorld, ReplicaTrouble, run_scenario
from tests.simulation.share_support import ACCEPT, GROUP, GROUP_RESOURCE, LOCK_MS, RELEASE, Job, QueueHistory

JOBS: Final = "jobs"
PARTITIONS: Final = 2
WORKERS: Final = 4
LOCK_S: Final = LOCK_MS / 1000
SAME_EPOCH: Final = 3
"""Times that a leader may load a state again without another leader epoch, as after writes that failed."""


class Delivery(NamedTuple):
    """A record that a worker got."""

    worker: str
    sent_s: float  # when it asked
    got_s: float


class ClusterHistory(QueueHistory):
    """What workers were told, and who got what when."""

    def __init__(self) -> None:
        super().__init__()
        self._got: dict[Job, list[Delivery]] = {}
        self._said_by: dict[Job, set[str]] = {}  # who has said that it is done

    def note(self, job: Job, count: int, delivery: Delivery, *, failovers: int) -> None:
        """A worker got a job."""
        self.deliver(job, count, sent_s=delivery.sent_s, incarnations=failovers)
        self._got.setdefault(job, []).append(delivery)

    def say(self, job: Job, worker: str) -> None:
        """A worker is about to say that a job is done."""
        self._said_by.setdefault(job, set()).add(worker)

    def check_owner(self, job: Job, worker: str, *, said_s: float) -> None:
        """An acknowledgement was taken. What somebody else has done meanwhile may be acknowledged without a meaning."""
        if self._said_by.get(job, set()) - {worker}:
            return
        mine = max(each.got_s for each in self._got[job] if each.worker == worker)
        for other in self._got[job]:
            if other.worker != worker and mine < other.sent_s and other.got_s < said_s:
                raise Violation(f"{job} is acknowledged by {worker}, though {other.worker} got it since")


class ShareClient(Client):
    """Somebody with a topic of jobs."""

    world: ReplicasWorld

    def __init__(self, world: ReplicasWorld, name: str, topic: Topic, history: ClusterHistory) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.history = history
        self.is_calm = False

    def now_s(self) -> float:
        return self.world.simulation.loop.time()

    def pick_partition(self) -> Target:
        return Target(self.topic, self.random.randrange(PARTITIONS))


class Owner(ShareClient):
    """Has the group begin at the start of the topic, and its states made."""

    async def prepare(self) -> None:
        change = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": GROUP, "configs": [change]}
        request = {"resources": [resource], "validate_only": False}
        while True:
            answer = await self.ask(self.any_node(), INCREMENTAL_ALTER_CONFIGS, 1, request)
            if answer is not None and answer.responses[0].error_code == OK:
                break
            await self.pause()
        while not await self._join():
            await self.pause()
        self.hang_up()

    async def _join(self) -> bool:
        request = {
            "group_id": GROUP,
            "member_id": self.name,
            "member_epoch": 0,
            "rack_id": None,
            "subscribed_topic_names": [JOBS],
        }
        answer = await self.ask(self.any_node(), SHARE_GROUP_HEARTBEAT, 1, request)
        if answer is None or answer.error_code or answer.assignment is None:
            return False
        return sum(len(each.partitions) for each in answer.assignment.topic_partitions) == PARTITIONS


class Writer(ShareClient):
    """Writes jobs; one that is not answered is let be: it may be there or not."""

    async def run(self) -> None:
        while not self.is_calm:
            target = self.pick_partition()
            leader = await self.find_leader(target)
            if leader is not None:
                await self._write(target, leader)
            await asyncio.sleep(self.random.uniform(0.05, 0.4))
        self.hang_up()

    async def _write(self, target: Target, leader: int) -> None:
        count = self.random.randrange(1, 6)
        batch = bytes(encode_batch([Record(number, 1, b"k", b"v") for number in range(count)]))
        request = wire.produce_request({self.topic.topic_id: {target.partition: batch}}, timeout_ms=2500)
        answer = await self.ask(leader, PRODUCE, 13, request)
        if answer is None:
            self.hang_up()
            self.forget_leader(target)
            return
        (found,) = answer.responses[0].partition_responses
        if found.error_code == OK:
            first = found.base_offset
            self.history.written.update((target.partition, first + number) for number in range(count))
        else:
            self.forget_leader(target)


class Worker(ShareClient):
    """Works jobs off, of one partition after the other; sometimes it releases them, hangs, or goes."""

    is_over = False

    async def run(self) -> None:
        while not self.is_over:
            target = self.pick_partition()
            leader = await self.find_leader(target)
            if leader is None or not await self._work(target, leader):
                self.forget_leader(target)
                await self.pause()
            self.hang_up()

    async def _work(self, target: Target, leader: int) -> bool:
        """One session; False if something went wrong with it."""
        epoch = 0
        for _ in range(self.random.randrange(1, 12)):
            sent_s = self.now_s()
            answer = await self.ask(leader, SHARE_FETCH, 2, self._request(epoch, target.partition))
            if answer is None or answer.error_code:
                return False
            epoch += 1
            for found in (each for topic in answer.responses for each in topic.partitions):
                if found.error_code:
                    self.world.counts["not fetched"] += 1
                    return False
                jobs = self._take(target, found, sent_s)
                if jobs and await self._dawdle():
                    return True
                if jobs and not await self._acknowledge(leader, jobs, epoch):
                    return False
                epoch += bool(jobs)
        return True

    async def _dawdle(self) -> bool:
        """Whether it goes without a word."""
        if not self.is_calm and self.random.random() < 0.4:
            self.world.counts["hang"] += 1
            await asyncio.sleep(self.random.uniform(0.1, 1.3) * LOCK_S)
        is_leaving = not self.is_calm and self.random.random() < 0.1
        self.world.counts["leave"] += is_leaving
        return is_leaving

    def _request(self, epoch: int, partition: int) -> dict[str, Any]:
        partitions = [{"partition_index": partition, "acknowledgement_batches": []}]
        return {
            "group_id": GROUP,
            "member_id": self.name,
            "share_session_epoch": epoch,
            "max_wait": 300,
            "min_bytes": 1,
            "max_bytes": 100_000,
            "max_records": self.random.choice((1, 3, 20)),
            "batch_size": 10,
            "share_acquire_mode": self.random.randrange(2),
            "is_renew_ack": False,
            "topics": [{"topic_id": self.topic.topic_id, "partitions": partitions}],
            "forgotten_topics_data": [],
        }

    def _take(self, target: Target, found: Any, sent_s: float) -> list[Job]:
        failovers = self.world.truth.states[target.key].leader_epoch + SAME_EPOCH
        delivery = Delivery(self.name, sent_s, self.now_s())
        jobs: list[Job] = []
        for held in found.acquired_records:
            for offset in range(held.first_offset, held.last_offset + 1):
                job = (target.partition, offset)
                self.world.counts["again" if held.delivery_count > 1 else "delivered"] += 1
                self.history.note(job, held.delivery_count, delivery, failovers=failovers)
                jobs.append(job)
        return jobs

    async def _acknowledge(self, leader: int, jobs: list[Job], epoch: int) -> bool:
        kind = RELEASE if self.random.random() < 0.1 and not self.is_calm else ACCEPT
        batches = [{"first_offset": job[1], "last_offset": job[1], "acknowledge_types": [kind]} for job in jobs]
        partitions = [{"partition_index": jobs[0][0], "acknowledgement_batches": batches}]
        request = {
            "group_id": GROUP,
            "member_id": self.name,
            "share_session_epoch": epoch,
            "is_renew_ack": False,
            "topics": [{"topic_id": self.topic.topic_id, "partitions": partitions}],
        }
        said_s = self.now_s()
        for job in jobs if kind == ACCEPT else ():
            self.history.say(job, self.name)
        answer = await self.ask(leader, SHARE_ACKNOWLEDGE, 2, request, timeout_s=20.0)
        if answer is None:
            self.history.unknown.update(jobs if kind == ACCEPT else ())
            return False
        if answer.error_code:
            return False
        ((found,),) = [topic.partitions for topic in answer.responses]
        self.world.counts["refused" if found.error_code else "acked"] += 1
        if found.error_code:
            # Whatever the refusal, the write may have been made, but for one of what is not held.
            self.history.unknown.update(jobs if kind == ACCEPT and found.error_code != 121 else ())
            return False
        for job in jobs:
            self.history.check_owner(job, self.name, said_s=said_s)
            if kind == ACCEPT:
                self.history.accept(job, now_s=self.now_s())
        return True


async def work_off(world: ReplicasWorld, trouble: ReplicaTrouble) -> None:
    """The scenario."""
    trouble.loads = ()
    await trouble.begin()
    topic = await Administrator(world).create_other(JOBS, PARTITIONS, Promise(3, 2, has_values=False))
    history = ClusterHistory()
    await Owner(world, "owner", topic, history).prepare()
    writer = Writer(world, "writer", topic, history)
    workers = [Worker(world, f"worker{number}", topic, history) for number in range(WORKERS)]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(writer.run())
        for worker in workers:
            tasks.create_task(worker.run())
        await trouble.suffer()
        await trouble.until_whole("healing")
        for client in (writer, *workers):
            client.is_calm = True
        async with trouble.soon("every job is done"):
            while history.open_jobs():  # noqa: ASYNC110 - workers change it
                await asyncio.sleep(0.5)
        world.counts["done"] += 1
        world.counts["written"] += len(history.written)
        for worker in workers:
            worker.is_over = True
    await trouble.end()


def run_shares(seed: int, *faults: str) -> tuple[Counter[str], str]:
    """One run, with everything that goes wrong or these faults only."""

    async def scenario(world: ReplicasWorld, trouble: ReplicaTrouble) -> None:
        if faults:
            trouble.suffer_only(*faults)
        await work_off(world, trouble)

    return run_scenario(seed, scenario, voters=3)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(*run_shares(int(argument)))
