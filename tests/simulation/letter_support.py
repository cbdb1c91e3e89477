"""A share group with dead letters and backoff on a whole node in simulation, while the node is crashed.

As `share_support`; workers also reject jobs. In the end every job is done, and each one that was rejected has a letter:
at least one, since a crash may come between a letter and the state that says so. No other job has one, unless it was
delivered as often as it may be, or its acknowledgement was not answered.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec

from barnabas.core.records.batch import iter_batches
from barnabas.core.records.dead_letters import read_letter
from barnabas.core.records.record import decode_batch
from barnabas.testing import wire_client as wire
from barnabas.wire.apis import FETCH, METADATA
from tests.simulation.node_clients import OK, Client
from tests.simulation.node_history import Violation
from tests.simulation.node_support import run_world, soon
from tests.simulation.share_support import LIMIT, PARTITIONS, REJECT, Job, QueueWorld, Worker

LETTERS: Final = "dlq.jobs"


class RejectingWorker(Worker):
    """Rejects some of its jobs."""

    def _say(self) -> int:
        return REJECT if self.random.random() < 0.15 else super()._say()


class LetterWorld(QueueWorld):
    """The queue, with letters."""

    config = msgspec.structs.replace(
        QueueWorld.config,
        num_partitions=PARTITIONS,
        shares=msgspec.structs.replace(QueueWorld.config.shares, errors_deadletterqueue_auto_create_topics_enable=True),
    )
    group: ClassVar[Mapping[str, str]] = {
        **QueueWorld.group,
        "errors.deadletterqueue.topic.name": LETTERS,
        "errors.deadletterqueue.copy.record.enable": "true",
        "share.retry.backoff.ms": "200",
        "share.retry.backoff.max.ms": "1000",
    }

    @property
    def worker(self) -> type[Worker]:
        return RejectingWorker

    async def _wait_done(self) -> None:
        await super()._wait_done()
        reader = Reader(self, f"reader{self.counts['done']}")
        async with soon("every rejected job has its letter"):
            while not self.history.rejected <= (found := await reader.read()).keys():
                self.counts["letters late"] += 1
        self.counts["letter"] += len(found)
        self.counts["letter twice"] += sum(count > 1 for count in found.values())
        reader.hang_up()
        history = self.history
        for job in found.keys() - history.rejected - history.unknown:
            if history.counts.get(job, 0) < LIMIT and job in history.accepted:
                raise Violation(f"{job} has a letter, and was accepted")


class Reader(Client):
    """Reads the letters."""

    world: LetterWorld

    async def read(self) -> Counter[Job]:
        """How many letters each job has."""
        found: Counter[Job] = Counter()
        answer = await self.ask(METADATA, 12, wire.metadata_request([LETTERS]))
        (topic,) = answer.topics
        if topic.error_code != OK:
            return found
        for partition in range(len(topic.partitions)):
            found += await self._read(topic.topic_id, partition)
        return found

    async def _read(self, topic_id: Any, partition: int) -> Counter[Job]:
        found: Counter[Job] = Counter()
        at = 0
        while True:
            request = wire.fetch_request({topic_id: {partition: at}})
            answer = await self.ask(FETCH, 13, request)
            (each,) = answer.responses[0].partitions
            data = bytes(each.records or b"")
            if not data:
                return found
            for position, header in iter_batches(data):
                at = header.next_offset
                for record in decode_batch(data[position : position + header.size]):
                    letter = read_letter(record.headers, has_content=True)
                    if letter is None or record.value != b"v":
                        raise Violation(f"{record} is not a letter")
                    found[letter.source.partition, letter.source.offset] += 1


def run(seed: int) -> tuple[Counter[str], str]:
    """One run: what happened how often, and the hash of all of it."""
    return run_world(LetterWorld, seed, max_steps=6_000_000)


if __name__ == "__main__":
    import sys

    print(*run(int(sys.argv[1])))
