"""The verbs on topics of their own: no node, no edge, no protocol. Syncs are done when a test says so."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from uuid import UUID

from barnabas.core.access.resources import Operation, Resource, ResourceType
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import TOPIC_RESOURCE, ConfigRecord, PartitionRecord, TopicRecord
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.logs import Logs
from barnabas.runtime.partition import Partition
from barnabas.services.access import Access
from barnabas.services.fetch import Fetch
from barnabas.services.fetch_round import FetchRounds
from barnabas.services.fetch_sessions import FetchSessions
from barnabas.services.produce import Produce
from barnabas.services.produce_round import ProduceRounds
from barnabas.services.served import ServedTopics
from barnabas.services.session import Session
from barnabas.services.settings import TopicConfig
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.dice import SimulatedDice, derive_random
from barnabas.testing.disk import SimulatedDisk
from barnabas.testing.loop import SimulatedLoop
from tests.support.admission import FakeAdmission
from tests.support.ports import NOW_MS, FixedClock, InPlace

NODE_ID = 1
REPLICAS = (NODE_ID, 2)
SYNCED = TopicConfig(log=LogConfig(flush_policy=FlushPolicy.FSYNC))
LEFT_TO_THE_OS = TopicConfig(log=LogConfig(flush_policy=FlushPolicy.OS))
CLIENT = Session(listener="ANY", peer=("127.0.0.1", 1), local=("127.0.0.1", 2))


class NothingOn:
    """Rules that allow nothing to be done with one topic."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        del session, operation
        return resource.name != self._topic

    def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        del session, operation, kind
        return True


class EnoughRoom:
    """Memory for answers that is not shared with anybody."""

    def __init__(self, max_read_bytes: int = 2**31) -> None:
        self.max_read_bytes = max_read_bytes

    def reading(self) -> AbstractContextManager[int]:
        return nullcontext(self.max_read_bytes)


class RoundWorld:
    """Topics, and the verbs on them."""

    def __init__(self) -> None:
        logs = Logs(DataDir(SimulatedDisk(1), "/data"))
        logs.flusher = Flusher(InPlace(), listener=logs)
        self._configs: dict[str, TopicConfig] = {}
        self.access = Access()
        self.admission = FakeAdmission()
        self.served = ServedTopics(Image(), logs, InPlace(), self._configs.__getitem__, node_id=NODE_ID)
        self.sessions = FetchSessions(SimulatedDice(derive_random(1, "dice")), max_sessions=2)
        self.fetches = FetchRounds(Fetch(InPlace()), self.sessions, self.served, self.access, max_bytes=50_000_000)
        produce = Produce(FixedClock(), InPlace(), logs.data_dir.health, self.admission)
        self.produces = ProduceRounds(produce, self.served, self.access)

    def create(self, name: str, partitions: int = 1, config: TopicConfig = LEFT_TO_THE_OS) -> UUID:
        """A topic; gives its id."""
        self._configs[name] = config
        topic_id = UUID(int=len(self._configs))
        self.served.apply([TopicRecord(name, topic_id)])
        self.lead(name, partitions)
        return topic_id

    def lead(self, name: str, partitions: int = 1, *, leader_epoch: int = 0) -> None:
        """Lead all partitions of a topic."""
        topic_id = self.served.get(name).topic_id
        alone = (NODE_ID,)
        self.served.apply(
            [PartitionRecord(topic_id, each, alone, alone, NODE_ID, leader_epoch, 0) for each in range(partitions)]
        )

    def replicate(
        self,
        name: str,
        partitions: int = 1,
        *,
        isr: tuple[int, ...] = REPLICAS,
        replicas: tuple[int, ...] = REPLICAS,
        partition_epoch: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        """Lead all partitions of a topic, with other replicas."""
        topic_id = self.served.get(name).topic_id
        self.served.apply(
            [
                PartitionRecord(topic_id, each, replicas, isr, NODE_ID, leader_epoch, partition_epoch)
                for each in range(partitions)
            ]
        )

    def alter(self, name: str, config: TopicConfig) -> None:
        """The settings of a topic are altered."""
        self._configs[name] = config
        self.served.apply([ConfigRecord(TOPIC_RESOURCE, name, "any", "")])

    def partition(self, name: str, number: int = 0) -> Partition:
        return self.served.get_partition(name, number)

    def write(self, name: str, *values: bytes, partition: int = 0) -> int:
        """Append a batch for each value, past every check; gives how many bytes they are."""
        batches = [encode_batch([Record(0, NOW_MS, None, value)]) for value in values]
        for batch in batches:
            self.partition(name, partition).append(batch, now_ms=NOW_MS)
        return sum(map(len, batches))

    def sync(self, name: str, partition: int = 0) -> None:
        """What is in a partition is on disk."""
        self.partition(name, partition).log.flush()
        self.partition(name, partition).note_flushed()


def run(scenario: Callable[[RoundWorld], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario in virtual time."""

    async def main() -> None:
        await scenario(RoundWorld())

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(main())
