"""Calling the Kafka edge with whole frames, as a connection does, without one."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from barnabas.core.records.batch import Codec
from barnabas.core.records.record import Record, encode_batch
from barnabas.edge.kafka.server import KafkaServer
from barnabas.runtime.answers import Piece
from barnabas.runtime.connections import Answer, Connection
from barnabas.services.broker import Broker
from barnabas.wire.apis import APIS, FETCH, PRODUCE, Api
from tests.support.ports import NOW_MS
from tests.support.served import versions_of
from tests.unit.edge.kafka.support import build
from tests.unit.wire.kio_values import encode

LATEST = versions_of(PRODUCE)[-1]
NAMED = 12  # the last version of Produce and of Fetch in which topics have names
NO_TOPIC_ID = -1


class FakeConnection:
    peer = ("127.0.0.1", 1)
    local = ("127.0.0.1", 2)
    listener = "PLAINTEXT"

    def __init__(self, max_read_bytes: int = 2**31) -> None:
        self.max_read_bytes = max_read_bytes
        self.muted: list[float] = []

    def mute(self, seconds: float, on_end: Callable[[], None]) -> None:
        """Note for how long."""
        self.muted.append(seconds)

    def reading(self) -> AbstractContextManager[int]:
        return nullcontext(self.max_read_bytes)


class FakeSlot:
    """Takes the place of a connection's slot."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.on_close: Callable[[], None] | None = None
        self.on_hurry: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """The client is gone."""
        if self.on_close is not None:
            self.on_close()
        if self._task is not None:
            self._task.cancel()

    def put(self, answer: Answer) -> None:
        assert not self.answer.done(), "answered twice"
        self.answer.set_result(answer)

    def continue_with(self, result: Any) -> None:
        if isinstance(result, list):
            self.put(result)
        else:
            self._task = asyncio.get_running_loop().create_task(self._finish(result))

    async def _finish(self, work: Coroutine[Any, Any, Answer]) -> None:
        self.put(await work)


class Call:
    """One request that was handed over: what came back at once, or comes."""

    def __init__(self, api: Api, version: int, result: Any) -> None:
        self._api = api
        self._version = version
        self.slot: FakeSlot | None = None
        self._work: asyncio.Future[Answer] | None = None
        self._answer: Answer | None = result if isinstance(result, list) else None
        if self._answer is None:
            if asyncio.iscoroutine(result):
                self._work = asyncio.ensure_future(result)
            else:
                self.slot = FakeSlot()
                result(self.slot)
                self._work = self.slot.answer

    @property
    def is_answered(self) -> bool:
        return self._work is None or self._work.done()

    async def bytes(self, within_s: float = 60) -> bytes:
        """The frame of the answer; empty if there is none."""
        if self._work is not None:
            async with asyncio.timeout(within_s):
                self._answer = await self._work
        assert self._answer is not None
        return b"".join([await _read_all(piece) for piece in self._answer])

    async def read(self, within_s: float = 60) -> Any:
        """The response, as kio reads it."""
        frame = await self.bytes(within_s)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert frame[4:8] == b"\x00\x00\x00\x07"
        is_flexible = self._version >= self._api.flexible_from and self._api.key != 18
        body = frame[9:] if is_flexible else frame[8:]
        response, size = entity_reader(load_response_schema(self._api.key, self._version))(body, 0)
        assert size == len(body)
        return response


async def _read_all(piece: Piece) -> bytes:
    """A piece of an answer, read a little at a time if it is not read yet."""
    if isinstance(piece, bytes | bytearray | memoryview):
        return bytes(piece)
    data = bytearray()
    while len(piece):
        part = piece.take_nowait(1000)
        data += await piece.take(1000) if part is None else part
    return bytes(data)


def frame_of(api: Api, version: int, body: bytes, client_id: bytes = b"c") -> bytes:
    """A request's frame, without its length."""
    head = api.key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + b"\x00\x00\x00\x07"
    head += len(client_id).to_bytes(2, "big") + client_id
    return head + (b"\x00" if version >= api.flexible_from else b"") + body


class Caller:
    """A client without a socket."""

    def __init__(self, broker: Broker, connection: FakeConnection | None = None) -> None:
        self.broker = broker
        self.connection = connection or FakeConnection()
        self.server = KafkaServer(broker)
        self.client = self.server.accept(cast("Connection", self.connection))

    def send(self, frame: bytes) -> Call:
        api, version = APIS[int.from_bytes(frame[:2], "big")], int.from_bytes(frame[2:4], "big")
        # A frame lies in a buffer that is used again as soon as it is handled: see that nobody keeps it.
        buffer = bytearray(frame)
        result = self.client.handle(memoryview(buffer))
        call = Call(api, version, result)
        buffer[:] = b"\xee" * len(buffer)
        return call

    def request(self, api: Api, version: int, **values: Any) -> Call:
        schema = load_request_schema(api.key, version)
        return self.send(frame_of(api, version, encode(build(schema, values))))

    def topic_name(self, name: str, version: int) -> dict[str, Any]:
        """A topic as a version of Produce or Fetch names it."""
        if version > NAMED:
            return {"topic_id": self.broker.image.topics[name].topic_id}
        return {"name": name, "topic": name}

    def produce(
        self,
        topic: str,
        *batches: bytes | None,
        version: int = NAMED,
        acks: int = -1,
        partition: int = 0,
        timeout_ms: int = 30_000,
        transactional_id: str | None = None,
        **names: Any,
    ) -> Call:
        """Produce batches to a topic's partitions from `partition` on."""
        data = [{"index": partition + n, "records": batch} for n, batch in enumerate(batches)]
        named = names or self.topic_name(topic, version)
        named.pop("topic", None)
        return self.request(
            PRODUCE,
            version,
            transactional_id=transactional_id,
            acks=acks,
            timeout=timeout_ms,
            topic_data=[{**named, "partition_data": data}],
        )

    async def produced(self, topic: str, *batches: bytes | None, **options: Any) -> Any:
        """The answer for the first partition."""
        response = await self.produce(topic, *batches, **options).read()
        return response.responses[0].partition_responses[0]

    async def refusal(self, topic: str, *batches: bytes | None, **options: Any) -> int:
        """The error code for the first partition."""
        return int((await self.produced(topic, *batches, **options)).error_code.value)

    def fetch(
        self,
        *wanted: tuple[str, int, int],
        version: int = NAMED,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 50_000_000,
        partition_max_bytes: int = 1_000_000,
        session: tuple[int, int] = (0, -1),
        forget: tuple[tuple[str, int], ...] = (),
        isolation_level: int = 0,
        epochs: tuple[int, int] = (-1, -1),
        **fields: Any,
    ) -> Call:
        """Fetch partitions, each of them a topic, its number and an offset."""
        topics = []
        for topic, partition, offset in wanted:
            named = self.topic_name(topic, version)
            named.pop("name", None)
            each = {
                "partition": partition,
                "fetch_offset": offset,
                "partition_max_bytes": partition_max_bytes,
                "current_leader_epoch": epochs[0],
                "last_fetched_epoch": epochs[1],
                "log_start_offset": -1,
            }
            topics.append({**named, "partitions": [each]})
        forgotten = []
        for topic, partition in forget:
            named = self.topic_name(topic, version)
            named.pop("name", None)
            forgotten.append({**named, "partitions": (partition,)})
        values = {
            "max_wait": max_wait_ms,
            "min_bytes": min_bytes,
            "max_bytes": max_bytes,
            "isolation_level": isolation_level,
            "session_id": session[0],
            "session_epoch": session[1],
            "topics": topics,
            "forgotten_topics_data": forgotten,
            **fields,
        }
        return self.request(FETCH, version, **values)

    async def fetched(self, *wanted: tuple[str, int, int], **options: Any) -> Any:
        """The answer for the first partition."""
        return (await self.fetch(*wanted, **options).read()).responses[0].partitions[0]


def batch(
    *values: bytes, key: bytes | None = b"k", timestamp: int = NOW_MS, codec: Codec = Codec.NONE, **fields: Any
) -> bytes:
    """One batch of records with these values."""
    records = [Record(n, timestamp, key, value) for n, value in enumerate(values or (b"v",))]
    return bytes(encode_batch(records, codec=codec, **fields))
