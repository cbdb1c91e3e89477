"""A share group on a whole node in simulation: workers fetch, acknowledge, hang and go while the node is crashed.

`run(seed)` has jobs written and worked off for some virtual seconds of faults. Some writes to the share coordinator
come once more, late, as copies do that a leader has sent again. What workers are told is checked as it comes
(`QueueHistory`). Once the faults are over every job must be done soon, and after a last power cut nothing that was
acknowledged comes back. A failure names its seed.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final
from uuid import UUID

import msgspec

from barnabas.core.errors import BarnabasError
from barnabas.core.groups.share.partition import StateWrite
from barnabas.core.groups.share.persisted import ShareKey
from barnabas.core.records.batch import iter_batches
from barnabas.core.records.record import Record, decode_batch, encode_batch
from barnabas.node import Node
from barnabas.services.settings.catalogue.group_settings import GroupSettings
from barnabas.services.settings.catalogue.share_settings import ShareSettings
from barnabas.testing import wire_client as wire
from barnabas.testing.disk import Keep
from barnabas.testing.simulation import Simulation
from barnabas.wire.apis import (
    CREATE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
)
from tests.simulation.node_clients import OK, TOPIC_EXISTS, Client
from tests.simulation.node_history import Violation
from tests.simulation.node_support import CONFIG, NodeWorld, run_world, soon

TOPIC: Final = "jobs"
GROUP: Final = "workers"
PARTITIONS: Final = 2
LOCK_MS: Final = 2000
LIMIT: Final = 10
LATE_CHANCE: Final = 0.3  # that a write comes once more after the next one
GROUP_RESOURCE: Final = 32
ACCEPT, RELEASE, REJECT = 1, 2, 3
INVALID_RECORD_STATE: Final = 121
Job = tuple[int, int]
"""A partition and an offset."""


class QueueHistory:
    """What workers were told of each job."""

    def __init__(self) -> None:
        self.written: set[Job] = set()
        self.accepted: dict[Job, float] = {}  # when the answer came
        self.counts: dict[Job, int] = {}  # the highest delivery count that anybody saw
        self.deliveries: Counter[Job] = Counter()
        self.unknown: set[Job] = set()  # acknowledged without an answer
        self.rejected: set[Job] = set()  # of those that are done

    def deliver(self, job: Job, count: int, *, sent_s: float, incarnations: int) -> None:
        """A worker got a job, with a fetch that it sent then."""
        accepted_s = self.accepted.get(job)
        if accepted_s is not None and sent_s > accepted_s:
            raise Violation(f"{job} is delivered though it was acknowledged")
        self.counts[job] = max(self.counts.get(job, 0), count)
        self.deliveries[job] += 1
        if not 0 < count <= LIMIT:
            raise Violation(f"{job} has delivery count {count}")
        if self.deliveries[job] > LIMIT + incarnations:
            raise Violation(f"{job} is delivered {self.deliveries[job]} times over {incarnations} starts")

    def accept(self, job: Job, *, now_s: float) -> None:
        """A worker was told that a job is done, by itself or, if it came too late, by another."""
        self.accepted.setdefault(job, now_s)

    def refuse(self, jobs: Iterable[Job], *, sent_s: float, now_s: float) -> None:
        """A worker was told that it does not have these, which it fetched with a request of then."""
        if now_s - sent_s < LOCK_MS / 1000:
            raise Violation(f"{sorted(jobs)} are refused within their lock")

    def open_jobs(self) -> list[Job]:
        """Those that are not acknowledged, as far as is known, and not delivered as often as allowed."""
        left = self.written - self.accepted.keys() - self.unknown
        return sorted(job for job in left if self.counts.get(job, 0) < LIMIT)


class QueueWorld(NodeWorld):
    """One node, its queue, and what goes wrong."""

    config = msgspec.structs.replace(
        CONFIG,
        groups=GroupSettings(offsets_topic_num_partitions=2),
        shares=ShareSettings(
            share_coordinator_state_topic_num_partitions=2,
            group_share_min_record_lock_duration_ms=1000,
            group_share_record_lock_duration_ms=LOCK_MS,
            group_share_delivery_count_limit=LIMIT,
        ),
    )
    faults = 6
    gap_s = 2.0
    promises = frozenset((SHARE_ACKNOWLEDGE, SHARE_FETCH))
    group: ClassVar[Mapping[str, str]] = {"share.auto.offset.reset": "earliest"}

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.history = QueueHistory()
        self.incarnations = 0
        self.topic_id = UUID(int=0)
        self.is_calm = False

    @property
    def worker(self) -> "type[Worker]":
        return Worker

    def now_s(self) -> float:
        return self.simulation.loop.time()

    def _start(self) -> None:
        self.incarnations += 1
        super()._start()

    def _note_ready(self, node: Node) -> None:
        super()._note_ready(node)
        assert node.broker is not None
        states = node.broker.shares.states
        write, held = states.write, dict[ShareKey, tuple[StateWrite, dict[str, int]]]()

        async def write_and_repeat(key: ShareKey, what: StateWrite, **epochs: int) -> None:
            await write(key, what, **epochs)
            if key in held:
                late, late_epochs = held.pop(key)
                self.counts["late write"] += 1
                with suppress(BarnabasError):
                    await write(key, late, **late_epochs)
            elif self._random.random() < LATE_CHANCE:
                held[key] = (what, epochs)

        vars(states)["write"] = write_and_repeat

    async def run(self) -> None:
        self._failure = asyncio.get_running_loop().create_future()
        self._start()
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch())
            await Owner(self, "owner").prepare()
            clients: list[Writer | Worker] = [
                Writer(self, "writer"),
                *(self.worker(self, f"worker{number}") for number in range(3)),
            ]
            working = [tasks.create_task(client.run()) for client in clients]
            await self._break_things()
            await asyncio.sleep(3 * LOCK_MS / 1000)  # what is lost now no restart brings back
            self.is_calm = True
            await self._wait_done()
            self._crash(Keep.NOTHING)
            self._start()
            await asyncio.sleep(3 * LOCK_MS / 1000)
            await self._wait_done()
            self.is_over = True
            async with soon("every client is done"):
                await asyncio.gather(*working)
            await self._stop()
            watching.cancel()

    async def _wait_done(self) -> None:
        async with soon("every job is done"):
            while self.history.open_jobs():  # noqa: ASYNC110 - workers change it
                await asyncio.sleep(0.5)
        self.counts["done"] += 1


class Owner(Client):
    """Makes the topic and the group's settings."""

    world: QueueWorld

    async def prepare(self) -> None:
        while True:
            answer = await self.ask(CREATE_TOPICS, 7, wire.create_topic_request(TOPIC, partitions=PARTITIONS))
            if answer.topics[0].error_code in (OK, TOPIC_EXISTS):
                break
        answer = await self.ask(METADATA, 12, wire.metadata_request([TOPIC]))
        self.world.topic_id = answer.topics[0].topic_id
        changes = [{"name": name, "config_operation": 0, "value": text} for name, text in self.world.group.items()]
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": GROUP, "configs": changes}
        request = {"resources": [resource], "validate_only": False}
        while (await self.ask(INCREMENTAL_ALTER_CONFIGS, 1, request)).responses[0].error_code:
            pass
        self.hang_up()


class Writer(Client):
    """Writes jobs; one that is not answered is let be: it may be there or not."""

    world: QueueWorld

    async def run(self) -> None:
        while not self.world.is_calm:
            partition, count = self.random.randrange(PARTITIONS), self.random.randrange(1, 6)
            records = [Record(number, self.world.now_ms(), b"k", b"v") for number in range(count)]
            batch = bytes(encode_batch(records))
            request = wire.produce_request({self.world.topic_id: {partition: batch}}, timeout_ms=3000)
            answer = await self.try_to_ask(PRODUCE, 13, request)
            if answer is not None:
                (found,) = answer.responses[0].partition_responses
                if found.error_code == OK:
                    first = found.base_offset
                    self.world.history.written.update((partition, first + number) for number in range(count))
            await asyncio.sleep(self.random.uniform(0.01, 0.3))
        self.hang_up()


class Worker(Client):
    """A member: works off jobs, and sometimes releases them, hangs, or goes."""

    world: QueueWorld

    async def run(self) -> None:
        while not self.world.is_over:
            if await self._join():
                await self._work()
            self.hang_up()

    async def _join(self) -> bool:
        request = {
            "group_id": GROUP,
            "member_id": self.name,
            "member_epoch": 0,
            "rack_id": None,
            "subscribed_topic_names": [TOPIC],
        }
        answer = await self.try_to_ask(SHARE_GROUP_HEARTBEAT, 1, request)
        if answer is None or answer.error_code:
            await asyncio.sleep(0.1)
            return False
        return True

    async def _work(self) -> None:
        """One session, until something goes wrong with it."""
        epoch = 0
        while not self.world.is_over:
            sent_s = self.world.now_s()
            answer = await self.try_to_ask(SHARE_FETCH, 2, self._request(epoch))
            if answer is None or answer.error_code:
                return
            epoch += 1
            jobs = self._take(answer, sent_s)
            if not jobs:
                continue
            if not self.world.is_calm and self.random.random() < 0.3:
                self.world.counts["hang"] += 1
                await asyncio.sleep(self.random.uniform(0.3, 1.5) * LOCK_MS / 1000)
            if not self.world.is_calm and self.random.random() < 0.1:
                self.world.counts["leave"] += 1
                return
            if not await self._acknowledge(jobs, epoch, sent_s):
                return
            epoch += 1

    def _request(self, epoch: int) -> dict[str, Any]:
        partitions = [{"partition_index": index, "acknowledgement_batches": []} for index in range(PARTITIONS)]
        return {
            "group_id": GROUP,
            "member_id": self.name,
            "share_session_epoch": epoch,
            "max_wait": 500,
            "min_bytes": 1,
            "max_bytes": 100_000,
            "max_records": self.random.choice((1, 3, 20)),
            "batch_size": 10,
            "share_acquire_mode": self.random.randrange(2),
            "is_renew_ack": False,
            "topics": [{"topic_id": self.world.topic_id, "partitions": partitions}],
            "forgotten_topics_data": [],
        }

    def _take(self, answer: Any, sent_s: float) -> dict[Job, int]:
        jobs: dict[Job, int] = {}
        for each in (each for topic in answer.responses for each in topic.partitions):
            data = bytes(each.records or b"")
            there = {
                record.offset
                for position, header in iter_batches(data)
                for record in decode_batch(data[position : position + header.size])
            }
            for held in each.acquired_records:
                for offset in range(held.first_offset, held.last_offset + 1):
                    if offset not in there:
                        raise Violation(f"offset {offset} is acquired and not sent")
                    jobs[each.partition_index, offset] = held.delivery_count
        for job, count in jobs.items():
            self.world.counts["again" if count > 1 else "delivered"] += 1
            self.world.history.deliver(job, count, sent_s=sent_s, incarnations=self.world.incarnations)
        return jobs

    def _say(self) -> int:
        """What becomes of a job."""
        return RELEASE if self.random.random() < 0.1 and not self.world.is_calm else ACCEPT

    async def _acknowledge(self, jobs: dict[Job, int], epoch: int, sent_s: float) -> bool:
        kinds = {job: self._say() for job in jobs}
        partitions = [
            {
                "partition_index": index,
                "acknowledgement_batches": [
                    {"first_offset": job[1], "last_offset": job[1], "acknowledge_types": [kinds[job]]}
                    for job in sorted(jobs)
                    if job[0] == index
                ],
            }
            for index in sorted({job[0] for job in jobs})
        ]
        request = {
            "group_id": GROUP,
            "member_id": self.name,
            "share_session_epoch": epoch,
            "is_renew_ack": False,
            "topics": [{"topic_id": self.world.topic_id, "partitions": partitions}],
        }
        answer = await self.try_to_ask(SHARE_ACKNOWLEDGE, 2, request)
        history = self.world.history
        if answer is None:
            history.unknown.update(jobs)
        if answer is None or answer.error_code:
            return False
        for each in (each for topic in answer.responses for each in topic.partitions):
            self.world.counts["refused" if each.error_code else "acknowledged"] += 1
            said = [job for job in jobs if job[0] == each.partition_index]
            if each.error_code == INVALID_RECORD_STATE:
                history.refuse(said, sent_s=sent_s, now_s=self.world.now_s())
            for job in said:
                # Of one that somebody else is done with, a late rejection succeeds and means nothing, as in Kafka.
                is_first = job not in history.accepted and job not in history.unknown
                if not each.error_code and kinds[job] in (ACCEPT, REJECT):
                    history.accept(job, now_s=self.world.now_s())
                if not each.error_code and kinds[job] == REJECT and is_first:
                    history.rejected.add(job)
        return True


def run(seed: int) -> tuple[Counter[str], str]:
    """One run: what happened how often, and the hash of all of it."""
    return run_world(QueueWorld, seed, max_steps=4_000_000)


if __name__ == "__main__":
    import sys

    print(*run(int(sys.argv[1])))
