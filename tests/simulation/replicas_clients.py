"""Producers and consumers of a simulated cluster with replicas: each finds the leader, and does what real ones do when
it is gone.

What they are told is checked at the moment they are told it, against the true logs (`replicas_truth`).
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Sequence
from random import Random
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from barnabas.core.records.batch import iter_batches
from barnabas.core.records.record import Record, encode_batch
from barnabas.testing import wire_client as wire
from barnabas.testing.wire_client import ACKS_ALL, WireClient
from barnabas.wire.apis import FETCH, INIT_PRODUCER_ID, LIST_OFFSETS, METADATA, PRODUCE, Api
from barnabas.wire.writing import Values
from tests.simulation.cluster_clients import PORT
from tests.simulation.node_clients import whole_batches
from tests.simulation.replicas_logs import Written
from tests.simulation.replicas_truth import Truth

CONNECT_S: Final = 1.0
ANSWER_S: Final = 4.0
PRODUCE_TIMEOUT_MS: Final = 2500
MAX_IN_FLIGHT: Final = 5

OK: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC: Final = 3
NOT_LEADER: Final = 6
REQUEST_TIMED_OUT: Final = 7
NOT_ENOUGH_REPLICAS: Final = 19
OUT_OF_ORDER: Final = 45
UNKNOWN_TOPIC_ID: Final = 100
TRY_AGAIN: Final = {
    5,  # LEADER_NOT_AVAILABLE
    NOT_LEADER,
    REQUEST_TIMED_OUT,
    NOT_ENOUGH_REPLICAS,
    20,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
    56,  # KAFKA_STORAGE_ERROR
    74,  # FENCED_LEADER_EPOCH
    75,  # UNKNOWN_LEADER_EPOCH
    78,  # OFFSET_NOT_AVAILABLE
}
GONE: Final = {UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID}


class Addressed(Protocol):
    """A node as clients find it."""

    name: str
    node_id: int


class Topic:
    """A topic that somebody created, from then on until somebody deletes it."""

    def __init__(self, name: str, topic_id: UUID, partitions: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions
        self.may_be_gone = False

    def __repr__(self) -> str:
        return self.name


class Target(NamedTuple):
    """A partition to write to or to read from."""

    topic: Topic
    partition: int

    @property
    def key(self) -> tuple[UUID, int]:
        return self.topic.topic_id, self.partition


class World(Protocol):
    """What clients ask of the simulation."""

    truth: Truth
    counts: Counter[str]
    topics: list[Topic]  # that producers and consumers use
    other_topics: list[Topic]  # that only an administrator meddles with
    is_over: bool

    def addresses(self) -> Sequence[Addressed]: ...
    def random_for(self, name: str) -> Random: ...


class Client:
    """Somebody with a connection to each node, and an idea of who leads what."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.random = world.random_for(name)
        self._wires: dict[int, WireClient] = {}
        self._leaders: dict[Target, tuple[int, int]] = {}  # leader epoch and node

    def hang_up(self) -> None:
        for each in self._wires.values():
            each.close()
        self._wires.clear()

    async def connect(self, node_id: int) -> WireClient | None:
        """The connection to a node; None if there is none to be had."""
        found = self._wires.get(node_id)
        if found is None or not found.is_open:
            node = next(each for each in self.world.addresses() if each.node_id == node_id)
            try:
                async with asyncio.timeout(CONNECT_S):
                    found = await WireClient.connect(node.name, PORT, client_id=self.name)
            except (OSError, TimeoutError):
                return None
            self._wires[node_id] = found
        return found

    async def ask(self, node_id: int, api: Api, version: int, values: Values, *, timeout_s: float = ANSWER_S) -> Any:
        """The answer of a node; None if it is not known what became of the request."""
        client = await self.connect(node_id)
        if client is None:
            return None
        try:
            return await client.ask(api, version, values, timeout_s=timeout_s)
        except (OSError, TimeoutError):
            self.world.counts["unanswered"] += 1
            return None

    def any_node(self) -> int:
        return self.random.choice(self.world.addresses()).node_id

    def pick_target(self, *, of_all: bool = False) -> Target | None:
        every = [*self.world.topics, *(self.world.other_topics if of_all else ())]
        topics = [topic for topic in every if not topic.may_be_gone]
        if not topics:
            return None
        topic = self.random.choice(topics)
        return Target(topic, self.random.randrange(topic.partitions))

    async def find_leader(self, target: Target) -> int | None:
        """The node that leads a partition, as far as is known; asks some node if that is not known."""
        known = self._leaders.get(target)
        if known is None or known[1] < 0:
            await self._refresh(target)
            known = self._leaders.get(target)
        return None if known is None or known[1] < 0 else known[1]

    def epoch_of(self, target: Target) -> int:
        return self._leaders[target][0]

    def forget_leader(self, target: Target) -> None:
        """What is known of the leader may be wrong; of its epoch it is not."""
        epoch, _ = self._leaders.get(target, (-1, -1))
        self._leaders[target] = (epoch, -1)

    async def _refresh(self, target: Target) -> None:
        answer = await self.ask(self.any_node(), METADATA, 12, wire.metadata_request([target.topic.name]))
        for topic in () if answer is None else answer.topics:
            for each in topic.partitions:
                if each.partition_index == target.partition and topic.topic_id == target.topic.topic_id:
                    found = (each.leader_epoch, each.leader_id)
                    if found[0] >= self._leaders.get(target, (-1, -1))[0]:  # a node may be behind
                        self._leaders[target] = found

    async def pause(self) -> None:
        await asyncio.sleep(self.random.uniform(0.05, 0.3))


class Batch(NamedTuple):
    """A batch on its way."""

    values: list[bytes]
    data: bytes


class Producer(Client):
    """Writes batches of unlike values, several in flight; an idempotent one sends again, in order, what it was not told
    to be written.
    """

    def __init__(self, world: World, name: str, *, acks: int, is_idempotent: bool) -> None:
        super().__init__(world, name)
        self.acks = acks
        self.is_idempotent = is_idempotent
        self._id = wire.NO_PRODUCER
        self._sequences: Counter[Target] = Counter()
        self._serial = 0

    async def run(self) -> None:
        while not self.world.is_over:
            target = self.pick_target()
            if target is not None and await self._has_id():
                await self._write_some(target)
            await asyncio.sleep(self.random.expovariate(5))
        self.hang_up()

    async def _has_id(self) -> bool:
        if self.is_idempotent and self._id == wire.NO_PRODUCER:
            answer = await self.ask(self.any_node(), INIT_PRODUCER_ID, 4, wire.init_producer_id_request())
            if answer is None or answer.error_code:
                return False
            self._id = answer.producer_id
            self._sequences.clear()
        return True

    async def write(self, target: Target, count: int = 1) -> None:
        """Write some batches, and return when they are acknowledged."""
        while not await self._has_id():
            await self.pause()
        await self._send_all(target, deque(self._make(target) for _ in range(count)))

    async def _write_some(self, target: Target) -> None:
        await self._send_all(target, deque(self._make(target) for _ in range(self.random.randrange(1, 8))))

    async def _send_all(self, target: Target, pending: deque[Batch]) -> None:
        while pending:
            leader = await self.find_leader(target)
            client = None if leader is None else await self.connect(leader)
            if client is None:
                self.forget_leader(target)
                if target.topic.may_be_gone:
                    return
                await self.pause()
                continue
            sent = [(batch, self._send(client, target, batch)) for batch in list(pending)[:MAX_IN_FLIGHT]]
            if not self.is_idempotent:
                pending.clear()  # a second time could make a second record of it
            if self.acks == 0:
                return
            if not await self._take_answers(target, sent, pending):
                return

    async def _take_answers(
        self, target: Target, sent: list[tuple[Batch, Awaitable[Any]]], pending: deque[Batch]
    ) -> bool:
        """Whether to go on; what is left in `pending` is to be sent again."""
        for number, (batch, answer) in enumerate(sent):
            try:
                async with asyncio.timeout(ANSWER_S):
                    answered = await answer
            except (OSError, TimeoutError):
                self.world.counts["unacknowledged"] += 1
                self.hang_up()
                self.forget_leader(target)
                return True
            (topic,) = answered.responses
            (partition,) = topic.partition_responses
            if partition.error_code == OK:
                if self.acks == ACKS_ALL:
                    self.world.truth.note_acked(target.key, partition.base_offset, batch.values)
                    self.world.counts["acknowledged"] += 1
                if pending:
                    assert pending.popleft() is batch
            elif not self._forgives(target, partition.error_code, is_first=number == 0):
                return False
            else:
                self.forget_leader(target)
                await self.pause()
                self._drop(sent[number + 1 :])
                return True
        return True

    def _drop(self, sent: Sequence[tuple[Batch, Awaitable[Any]]]) -> None:
        """What was sent after something that was refused is not waited for, and is sent again."""
        if sent:
            self.hang_up()

    def _forgives(self, target: Target, code: int, *, is_first: bool) -> bool:
        """Whether to send again after a refusal that is one that may come."""
        counts = self.world.counts
        if code in GONE:
            return not target.topic.may_be_gone  # a node may not have heard of it yet
        if code in TRY_AGAIN:
            counts["not enough replicas"] += code == NOT_ENOUGH_REPLICAS
            counts["not enough replicas after the append"] += code == 20
            counts["not the leader"] += code == NOT_LEADER
            return True
        is_promised = self.acks == ACKS_ALL and self.world.truth.promises[target.topic.name].is_synced
        if code == OUT_OF_ORDER and not (is_promised and is_first):
            if is_first:
                counts["began anew"] += 1
                self._id = wire.NO_PRODUCER  # what it was told to be written is gone: nobody promised anything else
            return not is_first
        self.world.truth.require(False, f"{self.name}: a batch for {target} is refused with {code!r}")
        return False

    def _make(self, target: Target) -> Batch:
        values, records = [], []
        for number in range(self.random.choice((1, 1, 2, 4))):
            self._serial += 1
            value = b"%s-%d " % (self.name.encode(), self._serial) + b"x" * self.random.choice((0, 10, 100))
            values.append(value)
            records.append(Record(number, 1_750_000_000_000, b"key", value))
        options: dict[str, Any] = {}
        if self.is_idempotent:
            options = {"producer_id": self._id, "producer_epoch": 0, "base_sequence": self._sequences[target]}
            self._sequences[target] += len(records)
        return Batch(values, bytes(encode_batch(records, **options)))

    def _send(self, client: WireClient, target: Target, batch: Batch) -> Awaitable[Any]:
        request = wire.produce_request(
            {target.topic.topic_id: {target.partition: batch.data}}, acks=self.acks, timeout_ms=PRODUCE_TIMEOUT_MS
        )
        return client.send(PRODUCE, 13, request, is_answered=self.acks != 0)


class Consumer(Client):
    """Reads all partitions, each on from where it was; what it is told of their ends never goes back."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.positions: dict[Target, int] = {}
        self._ends: dict[Target, int] = {}

    async def run(self) -> None:
        while not self.world.is_over:
            target = self.pick_target()
            if target is not None:
                if self.random.random() < 0.05:
                    self.positions.pop(target, None)
                await (self.read(target) if self.random.random() < 0.8 else self.find_end(target))
            await asyncio.sleep(self.random.expovariate(6))
        self.hang_up()

    async def read(self, target: Target) -> bool:
        """Fetch once; False if that was refused, or is not known."""
        leader = await self.find_leader(target)
        if leader is None:
            return False
        position = self.positions.get(target, 0)
        request: Any = wire.fetch_request(
            {target.topic.topic_id: {target.partition: position}},
            max_wait_ms=self.random.choice((0, 50, 500)),
            partition_max_bytes=self.random.choice((300, 5_000, 100_000)),
        )
        request["topics"][0]["partitions"][0]["current_leader_epoch"] = self.epoch_of(target)
        answer = await self.ask(leader, FETCH, 13, request)
        if answer is None:
            self.forget_leader(target)
            return False
        (topic,) = answer.responses
        (found,) = topic.partitions
        if found.error_code:
            self._note_refusal(target, found.error_code, position)
            return False
        data = whole_batches(bytes(found.records or b""))
        batches = [
            Written(
                header.base_offset, header.next_offset, header.leader_epoch, data[position : position + header.size]
            )
            for position, header in iter_batches(data)
        ]
        self._take(target, batches, found.high_watermark)
        return True

    def _take(self, target: Target, batches: Sequence[Written], high_watermark: int) -> None:
        truth = self.world.truth
        truth.note_fetched(target.key, batches)
        position = self.positions.get(target, 0)
        for batch in batches:
            follows = batch.base_offset == position or (batch is batches[0] and batch.base_offset < position)
            truth.require(follows, f"{self.name}: {batch} of {target} comes at {position}")
            truth.require(batch.end_offset <= high_watermark, f"{self.name}: {batch} is not below {high_watermark}")
            position = batch.end_offset
        self.positions[target] = position
        self.world.counts["fetched"] += bool(batches)

    async def find_end(self, target: Target) -> None:
        """Ask for the end of what may be read."""
        leader = await self.find_leader(target)
        if leader is None:
            return
        request: Any = wire.list_offsets_request(target.topic.name, {target.partition: wire.LATEST})
        request["topics"][0]["partitions"][0]["current_leader_epoch"] = self.epoch_of(target)
        answer = await self.ask(leader, LIST_OFFSETS, 7, request)
        if answer is None:
            self.forget_leader(target)
            return
        (found,) = answer.topics[0].partitions
        if found.error_code:
            self._note_refusal(target, found.error_code, -1)
            return
        truth = self.world.truth
        if truth.promises[target.topic.name].is_synced:
            before = self._ends.get(target, 0)
            truth.require(found.offset >= before, f"{self.name}: the end of {target} was {before}, is {found.offset}")
            self._ends[target] = found.offset
            self.world.counts["ends found"] += 1

    def _note_refusal(self, target: Target, code: int, position: int) -> None:
        self.forget_leader(target)
        truth = self.world.truth
        if code == OFFSET_OUT_OF_RANGE and not truth.promises[target.topic.name].is_synced:
            self.positions.pop(target, None)
            return
        is_known = code in TRY_AGAIN or code in GONE
        truth.require(is_known, f"{self.name}: {target} cannot be read at {position}: {code!r}")
