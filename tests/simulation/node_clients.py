"""Clients of a simulated node: producers, consumers and an administrator, each with a wire of its own.

They do what real ones do when the node is gone: connect again, and send again what was not acknowledged, in order.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from barnabas.core.records.batch import Codec
from barnabas.core.records.record import Record, encode_batch
from barnabas.testing import wire_client as wire
from barnabas.testing.wire_client import WireClient
from barnabas.wire.apis import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    FETCH,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    Api,
)
from barnabas.wire.writing import Values
from tests.simulation.node_history import Kind, PartitionHistory, State, TopicLife, Violation

HOST: Final = "node"
PORT: Final = 9092
ANSWER_S: Final = 6.0
MAX_IN_FLIGHT: Final = 5

OK: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC: Final = 3
REQUEST_TIMED_OUT: Final = 7
TOPIC_EXISTS: Final = 36
OUT_OF_ORDER: Final = 45
SESSION_ERRORS: Final = (70, 71)
UNKNOWN_TOPIC_ID: Final = 100

TOPICS: Final[dict[str, tuple[Kind, int, dict[str, str]]]] = {
    "stable": (Kind.PLAIN, 2, {}),
    "short": (Kind.SHORT, 1, {"internal.segment.bytes": "1024", "retention.bytes": "3000"}),
    "compacted": (
        Kind.COMPACTED,
        1,
        {"internal.segment.bytes": "1024", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"},
    ),
    "brief0": (Kind.PLAIN, 2, {"internal.segment.bytes": "1024"}),
    "brief1": (Kind.PLAIN, 1, {"internal.segment.bytes": "2048"}),
}
BRIEF: Final = ("brief0", "brief1")


class World(Protocol):
    """What clients ask of the simulation."""

    lives: dict[str, TopicLife]  # of every topic that is there, by name
    producer_ids: dict[int, None]
    counts: Counter[str]
    is_over: bool

    def random(self, name: str) -> Random: ...

    def now_ms(self) -> int: ...

    def note_answer(self, api: Api) -> None: ...


class Target(NamedTuple):
    """A partition to write to or to read from."""

    life: TopicLife
    partition: int

    @property
    def history(self) -> PartitionHistory:
        return self.life.partitions[self.partition]


class Client:
    """Somebody with a connection that may break."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.random = world.random(name)
        self._wire: WireClient | None = None

    async def connect(self) -> WireClient:
        """The connection, made as often as it takes."""
        while self._wire is None or not self._wire.is_open:
            try:
                async with asyncio.timeout(ANSWER_S):
                    self._wire = await WireClient.connect(HOST, PORT, client_id=self.name)
            except (OSError, TimeoutError):
                await asyncio.sleep(self.random.uniform(0.02, 0.2))
        return self._wire

    def hang_up(self) -> None:
        """The connection is of no more use."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    async def try_to_ask(self, api: Api, version: int, values: Values) -> Any:
        """The answer, or None when it is not known what became of the request."""
        client = await self.connect()
        try:
            answer = await client.ask(api, version, values, timeout_s=ANSWER_S)
        except (OSError, TimeoutError):
            self.world.counts["unanswered"] += 1
            self.hang_up()
            return None
        self.world.note_answer(api)
        return answer

    async def ask(self, api: Api, version: int, values: Values) -> Any:
        """The answer, asked for as often as it takes."""
        while (answer := await self.try_to_ask(api, version, values)) is None:
            pass
        return answer

    def pick_target(self) -> Target | None:
        lives = list(self.world.lives.values())
        if not lives:
            return None
        life = self.random.choice(lives)
        return Target(life, self.random.randrange(len(life.partitions)))


# Producers


class Batch(NamedTuple):
    """A batch on its way."""

    values: list[bytes]
    data: bytes


class Producer(Client):
    """Writes batches of unlike values, several in flight; what is not acknowledged is sent again, in order."""

    def __init__(self, world: World, name: str, *, acks: int, is_idempotent: bool) -> None:
        super().__init__(world, name)
        self.acks = acks
        self.is_idempotent = is_idempotent
        self._id = wire.NO_PRODUCER
        self._sequences: Counter[PartitionHistory] = Counter()
        self._serial = 0

    async def run(self) -> None:
        while not self.world.is_over:
            target = self.pick_target()
            if target is not None:
                if self.is_idempotent and self._id == wire.NO_PRODUCER:
                    await self._take_id()
                await self._write_some(target)
            await asyncio.sleep(self.random.expovariate(6))
        self.hang_up()

    async def _take_id(self) -> None:
        answer = await self.ask(INIT_PRODUCER_ID, self.random.choice((2, 4, 5)), wire.init_producer_id_request())
        if answer.error_code:
            raise Violation(f"no producer id: {answer.error_code!r}")
        if answer.producer_id in self.world.producer_ids:
            raise Violation(f"the producer id {answer.producer_id} was given twice")
        self.world.producer_ids[answer.producer_id] = None
        self._id = answer.producer_id
        self._sequences.clear()

    async def _write_some(self, target: Target) -> None:
        pending = deque(self._make(target) for _ in range(self.random.randrange(1, 9)))
        while pending:
            client = await self.connect()
            sent = [(batch, self._send(client, target, batch)) for batch in list(pending)[:MAX_IN_FLIGHT]]
            if not self.is_idempotent:
                pending.clear()  # a second time could make a second record of it
            if not await self._take_answers(target, sent, pending):
                return

    async def _take_answers(
        self, target: Target, sent: list[tuple[Batch, Awaitable[Any]]], pending: deque[Batch]
    ) -> bool:
        """Whether to go on; what is left in `pending` is to be sent again."""
        for batch, answer in sent:
            try:
                async with asyncio.timeout(ANSWER_S):
                    answered = await answer
            except (OSError, TimeoutError):
                self.world.counts["unacknowledged"] += 1
                self.hang_up()
                return True
            (topic,) = answered.responses
            (partition,) = topic.partition_responses
            if partition.error_code == OK:
                if self.acks == wire.ACKS_ALL:
                    target.history.note_acked(partition.base_offset, batch.values)
                self.world.counts["acknowledged"] += 1
                if pending:
                    assert pending.popleft() is batch
            else:
                return self._forgives(target, partition.error_code)
        return True

    def _forgives(self, target: Target, error_code: int) -> bool:
        """Whether to send again after a refusal that is one that may come."""
        if error_code in (UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID):
            target.life.check_may_be_unknown()
            self.world.counts["wrote to a deleted topic"] += 1
            return False
        if error_code == OUT_OF_ORDER and self.acks != wire.ACKS_ALL:
            self.world.counts["began anew"] += 1
            self._id = wire.NO_PRODUCER  # what it was told to be written was not on disk: that is what acks=1 says
            return False
        if error_code == REQUEST_TIMED_OUT:
            return True
        raise Violation(f"{self.name}: a batch for {target.history.name} is refused with {error_code!r}")

    def _make(self, target: Target) -> Batch:
        values, records = [], []
        for number in range(self.random.choice((1, 1, 2, 5))):
            self._serial += 1
            value = b"%s-%d " % (self.name.encode(), self._serial) + b"x" * self.random.choice((0, 10, 200))
            key = b"key%d" % self.random.randrange(4)
            target.history.sent[value] = key
            values.append(value)
            records.append(Record(number, self.world.now_ms(), key, value))
        options: dict[str, Any] = {}
        if self.is_idempotent:
            options = {"producer_id": self._id, "producer_epoch": 0, "base_sequence": self._sequences[target.history]}
            self._sequences[target.history] += len(records)
        codec = Codec.GZIP if self.random.random() < 0.1 else Codec.NONE
        return Batch(values, bytes(encode_batch(records, codec=codec, **options)))

    def _send(self, client: WireClient, target: Target, batch: Batch) -> Awaitable[Any]:
        # By name only where the name cannot come to mean another topic meanwhile.
        is_brief = target.life.name in BRIEF
        version = 13 if is_brief else self.random.choice((9, 11, 13))
        topic = target.life.topic_id if version >= 13 else target.life.name
        request = wire.produce_request(
            {topic: {target.partition: batch.data}}, version=version, acks=self.acks, timeout_ms=3000
        )
        return client.send(PRODUCE, version, request)


# Consumers


class Consumer(Client):
    """Reads one topic after another from some offset on, with long polls, in sessions or without."""

    async def run(self) -> None:
        while not self.world.is_over:
            target = self.pick_target()
            if target is not None:
                await self._read_some(target.life)
            await asyncio.sleep(self.random.expovariate(4))
        self.hang_up()

    async def _read_some(self, life: TopicLife) -> None:
        offsets = {
            number: self.random.choice((0, history.log_start_offset, history.high_watermark))
            for number, history in enumerate(life.partitions)
        }
        session = Session() if self.random.random() < 0.5 else None
        for _ in range(self.random.randrange(1, 6)):
            max_wait_ms = self.random.choice((0, 50, 500))
            if not await self.fetch(life, offsets, max_wait_ms=max_wait_ms, session=session) or self.world.is_over:
                return

    async def fetch(
        self,
        life: TopicLife,
        offsets: dict[int, int],
        *,
        max_wait_ms: int = 0,
        session: "Session | None" = None,
        max_bytes: int | None = None,
        on_records: Callable[[int, bytes], None] | None = None,
    ) -> bool:
        """One fetch, which moves `offsets` on; False when the topic is gone."""
        floors = [history.high_watermark for history in life.partitions]
        request = wire.fetch_request(
            {life.topic_id: offsets},
            max_wait_ms=max_wait_ms,
            partition_max_bytes=max_bytes or self.random.choice((1, 300, 1024, 100_000)),
            isolation_level=self.random.randrange(2),
            session_id=0 if session is None else session.id,
            session_epoch=-1 if session is None else session.epoch,
        )
        answer = await self.try_to_ask(FETCH, self.random.choice((13, 15)), request)
        if answer is None:
            return True
        if session is not None and not session.goes_on(answer):
            self.world.counts["session lost"] += 1
            return True
        if answer.error_code:
            raise Violation(f"a fetch of {life.name} is refused with {answer.error_code!r}")
        for topic in answer.responses:
            for found in topic.partitions:
                if found.error_code in (UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID):
                    life.check_may_be_unknown()
                    self.world.counts["read a deleted topic"] += 1
                    return False
                target = Target(life, found.partition_index)
                if found.error_code:
                    await self._reset_offset(target, offsets, found.error_code)
                    continue
                target.history.note_offsets(
                    log_start=found.log_start_offset,
                    last_stable=found.last_stable_offset,
                    high_watermark=found.high_watermark,
                    at_least=floors[target.partition],
                )
                self._take_records(target, offsets, found, on_records)
        return True

    def _take_records(
        self, target: Target, offsets: dict[int, int], found: Any, on_records: Callable[[int, bytes], None] | None
    ) -> None:
        data = whole_batches(bytes(found.records or b""))
        if on_records is not None and data:
            on_records(target.partition, data)
        offsets[target.partition] = target.history.note_fetched(
            offsets[target.partition], data, high_watermark=found.high_watermark
        )
        self.world.counts["fetched"] += bool(data)

    async def _reset_offset(self, target: Target, offsets: dict[int, int], error_code: int) -> None:
        if error_code != OFFSET_OUT_OF_RANGE or target.life.kind is not Kind.SHORT:
            raise Violation(f"{target.history.name} from {offsets[target.partition]} on: {error_code!r}")
        request = wire.list_offsets_request(target.life.name, {target.partition: wire.EARLIEST})
        answer = await self.ask(LIST_OFFSETS, 7, request)
        earliest = answer.topics[0].partitions[0].offset
        if earliest <= offsets[target.partition]:
            raise Violation(f"{target.history.name}: {offsets[target.partition]} is lost, it begins at {earliest}")
        offsets[target.partition] = earliest
        self.world.counts["out of range"] += 1


class Session:
    """A fetch session, as far as this client needs one: it names all its partitions every time."""

    def __init__(self) -> None:
        self.id = 0
        self.epoch = 0

    def goes_on(self, answer: Any) -> bool:
        """Take an answer; False when the node forgot the session, and it begins again."""
        if answer.error_code in SESSION_ERRORS or (self.epoch and answer.session_id != self.id):
            self.id = self.epoch = 0
            return False
        self.id = answer.session_id
        self.epoch = self.epoch + 1 if self.id else 0
        return True


def whole_batches(data: bytes) -> bytes:
    """Without the last batch if that is cut off."""
    position = 0
    while len(data) - position >= 12:
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if position + size > len(data):
            break
        position += size
    return data[:position]


# The administrator


class Administrator(Client):
    """Creates, configures and deletes topics, one thing at a time, and knows what must be there."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "admin")
        self._settings: dict[str, str] = {}  # of max.message.bytes, by topic

    async def create_all(self) -> None:
        for name in TOPICS:
            while name not in self.world.lives:
                await self._create(name)

    async def run(self) -> None:
        while not self.world.is_over:
            await asyncio.sleep(self.random.expovariate(2))
            match self.random.randrange(4):
                case 0:
                    await self.verify()
                case 1:
                    await self._configure("stable")
                case _:
                    name = self.random.choice(BRIEF)
                    if name in self.world.lives:
                        await self._delete(name)
                    else:
                        await self._create(name)

    async def verify(self) -> None:
        """Everything that was acknowledged is there, and nothing else."""
        answer = await self.ask(METADATA, 12, wire.metadata_request())
        found = {topic.name: topic.topic_id for topic in answer.topics}
        wanted = {life.name: life.topic_id for life in self.world.lives.values()}
        if found != wanted:
            raise Violation(f"the topics are {found} and should be {wanted}")
        for name, value in self._settings.items():
            if name in self.world.lives and (there := await self._setting(name)) != value:
                raise Violation(f"max.message.bytes of {name} is {there} and should be {value}")
        self.world.counts["verified"] += 1

    async def _create(self, name: str) -> None:
        kind, partitions, configs = TOPICS[name]
        request = wire.create_topic_request(name, partitions=partitions, configs=configs)
        answer = await self.try_to_ask(CREATE_TOPICS, 7, request)
        if answer is None:
            topic_id = await self._id_of(name)
            if topic_id is None:
                return
        else:
            (created,) = answer.topics
            if created.error_code:
                raise Violation(f"{name} cannot be created: {created.error_code!r} {created.error_message}")
            topic_id = created.topic_id
        life = TopicLife(name, topic_id, partitions, kind)
        await self._check_empty(life)
        self.world.lives[name] = life
        self.world.counts["created"] += 1

    async def _check_empty(self, life: TopicLife) -> None:
        for number, history in enumerate(life.partitions):
            reader = Consumer(self.world, f"{self.name}-reader")
            await reader.fetch(life, {number: 0})
            reader.hang_up()
            if history.high_watermark:
                raise Violation(f"{history.name} is new and has {history.high_watermark} records")

    async def _delete(self, name: str) -> None:
        life = self.world.lives.pop(name)
        life.state = State.CHANGING
        answer = await self.try_to_ask(DELETE_TOPICS, 6, wire.delete_topic_request(life.topic_id))
        if answer is not None:
            (deleted,) = answer.responses
            if deleted.error_code:
                raise Violation(f"{name} cannot be deleted: {deleted.error_code!r}")
        elif await self._id_of(name) is not None:
            life.state = State.LIVE
            self.world.lives[name] = life
            return
        life.state = State.GONE
        self.world.counts["deleted"] += 1

    async def _configure(self, name: str) -> None:
        value = str(self.random.randrange(500_000, 1_000_000))
        request = wire.set_config_request(name, "max.message.bytes", value)
        answer = await self.try_to_ask(INCREMENTAL_ALTER_CONFIGS, 1, request)
        if answer is not None:
            (altered,) = answer.responses
            if altered.error_code:
                raise Violation(f"{name} cannot be configured: {altered.error_code!r}")
            self._settings[name] = value
            self.world.counts["configured"] += 1
            return
        await asyncio.sleep(1)
        there = await self._setting(name)
        if there not in (value, self._settings.get(name, there)):
            raise Violation(f"max.message.bytes of {name} is {there} and should be {value} or what it was")
        self._settings[name] = there

    async def _id_of(self, name: str) -> Any:
        """The id of a topic, once it is certain what became of the request that may have made or removed it."""
        await asyncio.sleep(1)
        answer = await self.ask(METADATA, 12, wire.metadata_request([name]))
        (topic,) = answer.topics
        return None if topic.error_code == UNKNOWN_TOPIC else topic.topic_id

    async def _setting(self, topic: str) -> str:
        answer = await self.ask(DESCRIBE_CONFIGS, 4, wire.describe_config_request(topic, ["max.message.bytes"]))
        (result,) = answer.results
        (config,) = result.configs
        return str(config.value)
