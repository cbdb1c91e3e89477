"""Somebody who creates, moves and deletes topics in a simulated cluster with replicas."""

import asyncio
from typing import Any, Final

from barnabas.testing import wire_client as wire
from barnabas.wire.apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    METADATA,
)
from tests.simulation.replicas_clients import OK, Client, Topic, World
from tests.simulation.replicas_truth import Promise

TIMEOUT_MS: Final = 3000
TOPIC_EXISTS: Final = 36
TOPICS: Final[dict[str, tuple[int, Promise, dict[str, str]]]] = {
    "safe": (2, Promise(3, 2), {}),
    "small": (1, Promise(3, 2), {"internal.segment.bytes": "1024"}),
    "two": (3, Promise(2, 1), {}),
    "strict": (1, Promise(2, 2), {}),
    "one": (1, Promise(1, 1), {}),
    "unsynced": (1, Promise(3, 2, is_synced=False), {"flush.policy": "os"}),
}
CONFIGS: Final = {"message.timestamp.after.max.ms": str(2**62)}
"""Clocks jump."""
BRIEF: Final = Promise(3, 2)


class Administrator(Client):
    """Works on any node, one thing at a time."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "admin")
        self._serial = 0

    async def create_all(self) -> None:
        for name, (partitions, promise, configs) in TOPICS.items():
            while (topic := await self._create(name, partitions, promise, configs)) is None:
                await self.pause()
            self.world.topics.append(topic)

    async def create_other(self, name: str, partitions: int, promise: Promise) -> Topic:
        """A topic that is not for the producers and consumers of `replicas_clients`."""
        while (topic := await self._create(name, partitions, promise, {})) is None:
            await self.pause()
        self.world.other_topics.append(topic)
        return topic

    async def run(self) -> None:
        while not self.world.is_over:
            await asyncio.sleep(self.random.expovariate(2))
            match self.random.randrange(7):
                case 0 | 1:
                    await self._create_brief()
                case 2 | 3:
                    await self._delete_brief()
                case 4:
                    await self.elect_preferred()
                case _:
                    await self._reassign()
        self.hang_up()

    async def _create(self, name: str, partitions: int, promise: Promise, configs: dict[str, str]) -> Topic | None:
        self.world.truth.promises[name] = promise
        given = {"min.insync.replicas": str(promise.min_insync_replicas), **CONFIGS, **configs}
        request: Any = wire.create_topic_request(name, partitions=partitions, configs=given, timeout_ms=TIMEOUT_MS)
        request["topics"][0]["replication_factor"] = promise.replicas
        answer = await self.ask(self.any_node(), CREATE_TOPICS, 7, request)
        code = None if answer is None else answer.topics[0].error_code
        if code == OK:
            topic_id = answer.topics[0].topic_id
        else:  # it may exist, or come to exist
            topic_id = await self._id_of(name)
            if topic_id is None:
                return None
        self.world.counts["created"] += 1
        return Topic(name, topic_id, partitions)

    async def _id_of(self, name: str) -> Any:
        answer = await self.ask(self.any_node(), METADATA, 12, wire.metadata_request([name]))
        found = () if answer is None else [topic for topic in answer.topics if not topic.error_code]
        return found[0].topic_id if found else None

    async def _create_brief(self) -> None:
        if sum(topic.name.startswith("brief") for topic in self.world.topics) < 2:
            self._serial += 1
            topic = await self._create(f"brief{self._serial}", 1, BRIEF, {})
            self.world.topics += [] if topic is None else [topic]

    async def _delete_brief(self) -> None:
        brief = [topic for topic in self.world.topics if topic.name.startswith("brief") and not topic.may_be_gone]
        if not brief:
            return
        topic = self.random.choice(brief)
        topic.may_be_gone = True
        request = wire.delete_topic_request(topic.topic_id, timeout_ms=TIMEOUT_MS)
        answer = await self.ask(self.any_node(), DELETE_TOPICS, 6, request)
        if answer is not None and answer.responses[0].error_code == OK:
            self.world.topics.remove(topic)
            self.world.counts["deleted"] += 1

    async def elect_preferred(self) -> None:
        """Have the preferred replicas of everything lead."""
        request = {"election_type": 0, "topic_partitions": None, "timeout": TIMEOUT_MS}
        await self.ask(self.any_node(), ELECT_LEADERS, 2, request)
        self.world.counts["asked for preferred leaders"] += 1

    async def _reassign(self) -> None:
        """Move a partition to any nodes, as many as it has; or cancel that."""
        target = self.pick_target(of_all=True)
        if target is None:
            return
        nodes = [node.node_id for node in self.world.addresses()]
        replicas = self.random.sample(nodes, self.world.truth.promises[target.topic.name].replicas)
        moved = {
            "partition_index": target.partition,
            "replicas": None if self.random.random() < 0.2 else replicas,
        }
        request = {
            "timeout": TIMEOUT_MS,
            "topics": [{"name": target.topic.name, "partitions": [moved]}],
        }
        await self.ask(self.any_node(), ALTER_PARTITION_REASSIGNMENTS, 0, request)
        self.world.counts["asked to reassign"] += 1
