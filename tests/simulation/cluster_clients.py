"""Clients of a simulated cluster, and what they were told: the history that the last image is checked against.

Each client has topics of its own, so that what it was told is all there is to know of them. A change whose outcome is
unknown may have happened, may yet happen or never: its topic may be either from then on, and is not touched again.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, Final, Protocol
from uuid import UUID

from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import TOPIC_RESOURCE
from barnabas.testing import wire_client as wire
from barnabas.testing.wire_client import WireClient
from barnabas.wire.apis import (
    ALLOCATE_PRODUCER_IDS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    METADATA,
    Api,
)
from barnabas.wire.writing import Values
from tests.simulation.cluster_checks import Checks

PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
CONNECT_S: Final = 1.0
ANSWER_S: Final = 4.0
TIMEOUT_MS: Final = 3000
RETENTION: Final = "retention.ms"

OK: Final = 0
REQUEST_TIMED_OUT: Final = 7
TOPIC_EXISTS: Final = 36
NOTHING_HAPPENED: Final = {
    14,  # COORDINATOR_LOAD_IN_PROGRESS: no producer ids now
    38,  # INVALID_REPLICATION_FACTOR: no broker is unfenced
    41,  # NOT_CONTROLLER
    89,  # THROTTLING_QUOTA_EXCEEDED: too many changes wait
}
UNKNOWN: Final = {
    -1,  # UNKNOWN_SERVER_ERROR
    REQUEST_TIMED_OUT,
    56,  # KAFKA_STORAGE_ERROR
}


class Addressed(Protocol):
    """A node as clients find it."""

    name: str
    node_id: int

    @property
    def image(self) -> Image | None: ...


class KnownTopic:
    """What a client knows of a topic of its own: each value is one of those that it may have."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.topic_id: UUID | None = None
        self.may_exist: set[bool] = {False}
        self.partitions: set[int] = set()
        self.retention: set[str | None] = {None}

    def check(self, node_id: int, image: Image, checks: Checks) -> None:
        """Whether an image that has everything has it as it was told."""
        found = image.topics.get(self.name)
        what = f"node {node_id}: topic {self.name}"
        checks.require((found is not None) in self.may_exist, f"{what} should exist: {self.may_exist}, found {found}")
        if found is None:
            return
        is_same = self.topic_id in (None, found.topic_id)
        checks.require(is_same, f"{what} has id {found.topic_id}, it was created with {self.topic_id}")
        count, retention = len(found.partitions), image.config_of(TOPIC_RESOURCE, self.name).get(RETENTION)
        checks.require(count in self.partitions, f"{what} has {count} partitions, not {self.partitions}")
        checks.require(retention in self.retention, f"{what} has {RETENTION}={retention}, not {self.retention}")


class Given:
    """The producer ids that were given to anybody: none twice."""

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._ids: set[int] = set()
        self._blocks: list[range] = []

    def note_id(self, producer_id: int) -> None:
        self._checks.require(producer_id not in self._ids, f"the producer id {producer_id} was given twice")
        self._ids.add(producer_id)
        self._check_apart()

    def note_block(self, block: range) -> None:
        overlapping = [other for other in self._blocks if other.start < block.stop and block.start < other.stop]
        self._checks.require(not overlapping, f"the producer ids {block} were given before: {overlapping}")
        self._blocks.append(block)
        self._check_apart()

    def _check_apart(self) -> None:
        """A block that was asked for here belongs to nobody else: no broker gives ids of it."""
        for block in self._blocks:
            for producer_id in self._ids:
                self._checks.require(producer_id not in block, f"{producer_id} is of {block}, which another has")

    def check(self, node_id: int, image: Image) -> None:
        last = max([*self._ids, *(block.stop - 1 for block in self._blocks)], default=-1)
        is_above = image.next_producer_id > last
        self._checks.require(is_above, f"node {node_id} would give ids from {image.next_producer_id} on, {last} is")


class Client:
    """Changes topics through one node after another, one change at a time."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[Addressed],
        *,
        random: Random,
        checks: Checks,
        given: Given,
        counts: Counter[str],
    ) -> None:
        self.name = name
        self.topics: list[KnownTopic] = []
        self.is_over = False
        self._nodes = nodes
        self._random = random
        self._checks = checks
        self._given = given
        self._counts = counts
        self._usable: list[KnownTopic] = []
        self._node: Addressed = random.choice(nodes)
        self._wire: WireClient | None = None

    async def run(self) -> None:
        while not self.is_over:
            await asyncio.sleep(self._random.expovariate(3))
            await self.work_once()
        self.hang_up()

    async def work_once(self) -> None:
        if self._random.random() < 0.1:
            self.go_to(self._random.choice(self._nodes))
        if not await self.is_connected():
            self.go_to(self._random.choice(self._nodes))
            return
        work = self._random.choices(
            (self.create, self._delete, self._add_partitions, self._alter, self._take_id, self._take_block, self._look),
            weights=(4, 2, 2, 2, 1, 1, 1),
        )[0]
        await work()

    def go_to(self, node: Addressed) -> None:
        """Use another node from now on."""
        self.hang_up()
        self._node = node

    # What it does

    async def create(self) -> bool:
        """Create one more topic; whether it is known to be there."""
        topic = KnownTopic(f"{self.name}-{len(self.topics)}")
        self.topics.append(topic)
        count = self._random.choice((1, 2, 12))
        topic.partitions = {count}
        request = wire.create_topic_request(topic.name, partitions=count, timeout_ms=TIMEOUT_MS)
        answer = await self._ask(CREATE_TOPICS, 7, request)
        code = None if answer is None else answer.topics[0].error_code
        if code == OK:
            topic.topic_id = answer.topics[0].topic_id
        if code == TOPIC_EXISTS:
            # Nobody else creates it: the node, or the way to the controller, has asked twice.
            self._checks.require(False, f"{topic.name} is refused since it exists, and this was the first request")
        if self._is_done(code, topic, "create"):
            topic.may_exist = {True}
            self._usable.append(topic)
            await self._check_seen(topic)
        elif self._is_unknown(code):
            topic.may_exist = {True, False}
        return code == OK

    async def _delete(self) -> None:
        topic = self._pick()
        if topic is None or topic.topic_id is None:
            return
        answer = await self._ask(DELETE_TOPICS, 6, wire.delete_topic_request(topic.topic_id, timeout_ms=TIMEOUT_MS))
        code = None if answer is None else answer.responses[0].error_code
        if self._is_done(code, topic, "delete"):
            topic.may_exist = {False}
            self._usable.remove(topic)
            await self._check_seen(topic)
        elif self._is_unknown(code):
            topic.may_exist = {True, False}

    async def _add_partitions(self) -> None:
        topic = self._pick()
        if topic is None:
            return
        (before,) = topic.partitions
        count = before + self._random.choice((1, 3))
        changes = [{"name": topic.name, "count": count, "assignments": None}]
        values = {"topics": changes, "timeout": TIMEOUT_MS, "validate_only": False}
        answer = await self._ask(CREATE_PARTITIONS, 3, values)
        code = None if answer is None else answer.results[0].error_code
        if self._is_done(code, topic, "add partitions"):
            topic.partitions = {count}
            await self._check_seen(topic)
        elif self._is_unknown(code):
            topic.partitions = {before, count}

    async def _alter(self) -> None:
        topic = self._pick()
        if topic is None:
            return
        value = str(self._random.randrange(10**6, 10**9))
        answer = await self._ask(INCREMENTAL_ALTER_CONFIGS, 1, wire.set_config_request(topic.name, RETENTION, value))
        code = None if answer is None else answer.responses[0].error_code
        if self._is_done(code, topic, "alter"):
            topic.retention = {value}
        elif self._is_unknown(code):
            topic.retention = {*topic.retention, value}

    async def _take_id(self) -> None:
        answer = await self._ask(INIT_PRODUCER_ID, 4, wire.init_producer_id_request())
        if answer is not None and answer.error_code == OK:
            self._given.note_id(answer.producer_id)
            self._counts["producer id"] += 1

    async def _take_block(self) -> None:
        """As a broker would: of the controller, if the node asked is that."""
        image = self._node.image
        own = None if image is None else image.nodes.get(self._node.node_id)
        if own is None:
            return
        values = {"broker_id": own.node_id, "broker_epoch": own.epoch}
        try:
            client = await self._connect(CONTROLLER_PORT)
            answer = await client.ask(ALLOCATE_PRODUCER_IDS, 0, values, timeout_s=ANSWER_S)
        except (OSError, TimeoutError):
            return
        client.close()
        if answer.error_code == OK:
            block = range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)
            self._given.note_block(block)
            self._counts["producer ids"] += 1

    async def _look(self) -> None:
        topic = self._pick()
        if topic is not None:
            await self._ask(METADATA, 12, wire.metadata_request([topic.name]))

    async def _check_seen(self, topic: KnownTopic) -> None:
        """The node that answered a change has applied it."""
        node, connection = self._node, self._wire
        answer = await self._ask(METADATA, 12, wire.metadata_request([topic.name]))
        if answer is None or self._node is not node or self._wire is not connection:
            return
        (found,) = answer.topics
        exists = found.error_code != 3
        what = f"node {node.node_id} answered a change, and does not show it: {topic.name} is there: {exists}"
        self._checks.require(exists in topic.may_exist, what)
        if exists:
            self._checks.require(len(found.partitions) in topic.partitions, f"{what}, {len(found.partitions)}")

    # Answers

    def _pick(self) -> KnownTopic | None:
        return self._random.choice(self._usable) if self._usable else None

    def _is_done(self, code: int | None, topic: KnownTopic, what: str) -> bool:
        if code == OK:
            self._counts["acknowledged"] += 1
            return True
        if self._is_unknown(code):
            self._counts["unknown"] += 1
            if topic in self._usable:
                self._usable.remove(topic)
        else:
            self._counts["refused"] += 1
            self._checks.require(code in NOTHING_HAPPENED, f"{self.name}: {what} {topic.name} is refused with {code!r}")
            self.go_to(self._random.choice(self._nodes))
        return False

    @staticmethod
    def _is_unknown(code: int | None) -> bool:
        return code is None or code in UNKNOWN

    async def _ask(self, api: Api, version: int, values: Values) -> Any:
        """The answer; None if it is not known what became of the request. Sent once, to the node of this client."""
        if self._wire is None:
            return None
        try:
            return await self._wire.ask(api, version, values, timeout_s=ANSWER_S)
        except (OSError, TimeoutError):
            self._counts["unanswered"] += 1
            self.go_to(self._random.choice(self._nodes))
            return None

    async def is_connected(self) -> bool:
        if self._wire is None or not self._wire.is_open:
            try:
                self._wire = await self._connect(PORT)
            except (OSError, TimeoutError):
                return False
        return True

    async def _connect(self, port: int) -> WireClient:
        async with asyncio.timeout(CONNECT_S):
            return await WireClient.connect(self._node.name, port, client_id=self.name)

    def hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
