"""A Kafka client for tests that sends exactly what it is given, and hides nothing: frames, versions, pipelining.

Requests are mappings of field names to plain values, written as `wire.writing` does; answers are read as `wire.reading`
does. Answers must come in the order of the requests and be read to their last byte: one that does not, that cannot be,
or that nobody asked for, breaks the connection.

Not a client for anything else: it does not retry, batch, look up leaders or negotiate versions.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Self, cast

from barnabas.wire.apis import Api
from barnabas.wire.errors import Malformed
from barnabas.wire.frame import read_answer_head
from barnabas.wire.reading import read_struct
from barnabas.wire.reading_values import Body
from barnabas.wire.requests import frame_request
from barnabas.wire.responses import MAX_ELEMENTS
from barnabas.wire.schemas import response_schema
from barnabas.wire.writing import Values

LENGTH_SIZE: Final = 4
NO_PRODUCER: Final = -1
ACKS_ALL: Final = -1

EARLIEST: Final = -2
LATEST: Final = -1
TOPIC_RESOURCE: Final = 2
SET: Final = 0


class WireError(ConnectionError):
    """The broker broke the protocol: an answer out of order, without a request, or that cannot be read."""


class _Waiting:
    """A request that was sent, and who waits for its answer."""

    __slots__ = ("answer", "api", "correlation_id", "version")

    def __init__(self, api: Api, version: int, correlation_id: int, answer: "asyncio.Future[Any]") -> None:
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.answer = answer


class WireClient(asyncio.Protocol):
    """One connection to a broker, made by `connect`."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._received = bytearray()
        self._waiting: deque[_Waiting] = deque()
        self._next_id = 0
        self._lost: Exception | None = None

    @classmethod
    async def connect(cls, host: str, port: int, *, client_id: str = "wire-client") -> Self:
        """A client that is connected; raises the OSError that says why not."""
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(lambda: cls(client_id), host, port)
        return client

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent, as far as is known here."""
        return self._lost is None

    def send(self, api: Api, version: int, values: Values, *, is_answered: bool = True) -> "asyncio.Future[Any]":
        """Send a request now, whatever else waits for its answer; the future gives the answer.

        `is_answered=False` is for a produce with acks=0: its future is done at once.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._lost is not None:
            answer.set_exception(ConnectionError(f"the connection is lost: {self._lost}"))
            return answer
        self._next_id += 1
        self._transport.write(encode_request(api, version, values, self._next_id, self._client_id))
        if is_answered:
            self._waiting.append(_Waiting(api, version, self._next_id, answer))
        else:
            answer.set_result(None)
        return answer

    async def ask(self, api: Api, version: int, values: Values, *, timeout_s: float = 30.0) -> Any:
        """Send a request and wait for its answer. Too late is too late for the whole connection: it is closed."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self.send(api, version, values)
        except TimeoutError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; pending requests fail."""
        self._end(ConnectionError("the client hung up"))
        self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionResetError("the broker hung up"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= LENGTH_SIZE:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < LENGTH_SIZE + size:
                return
            frame = bytes(self._received[LENGTH_SIZE : LENGTH_SIZE + size])
            del self._received[: LENGTH_SIZE + size]
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        (correlation_id,) = struct.unpack_from(">i", frame)
        if not self._waiting or self._waiting[0].correlation_id != correlation_id:
            expected = self._waiting[0].correlation_id if self._waiting else "nothing"
            self._break(f"an answer to request {correlation_id} came, {expected} was next")
            return
        waiting = self._waiting[0]
        try:
            answer = _read_response(waiting.api, waiting.version, frame)
        except Malformed as error:
            self._break(f"an answer of {waiting.api.name} version {waiting.version}: {error}")
            return
        self._waiting.popleft()
        if not waiting.answer.done():
            waiting.answer.set_result(answer)

    def _break(self, why: str) -> None:
        self._end(WireError(why))
        self._transport.abort()

    def _end(self, error: Exception) -> None:
        if self._lost is None:
            self._lost = error
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if not each.answer.done():
                each.answer.set_exception(self._lost)
                each.answer.exception()  # heard, even if nobody waits any more


# Requests in plain values


def produce_request(
    records: Mapping[Any, Mapping[int, bytes]], *, version: int = 13, acks: int = ACKS_ALL, timeout_ms: int = 30_000
) -> Values:
    """Batches by topic (its name, from version 13 on its id) and partition."""
    key = "topic_id" if version >= 13 else "name"
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": timeout_ms,
        "topic_data": [
            {key: topic, "partition_data": [{"index": n, "records": data} for n, data in partitions.items()]}
            for topic, partitions in records.items()
        ],
    }


def fetch_request(
    offsets: Mapping[Any, Mapping[int, int]],
    *,
    version: int = 13,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1024 * 1024,
    partition_max_bytes: int = 1024 * 1024,
    session_id: int = 0,
    session_epoch: int = -1,
    isolation_level: int = 0,
) -> Values:
    """Where to read, by topic (its name, from version 13 on its id) and partition."""
    key = "topic_id" if version >= 13 else "topic"
    return {
        "max_wait": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation_level,
        "session_id": session_id,
        "session_epoch": session_epoch,
        "topics": [
            {
                key: topic,
                "partitions": [
                    {"partition": n, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes}
                    for n, offset in partitions.items()
                ],
            }
            for topic, partitions in offsets.items()
        ],
        "forgotten_topics_data": [],
    }


def list_offsets_request(topic: str, timestamps: Mapping[int, int]) -> Values:
    """Offsets of a topic by time, or `EARLIEST` or `LATEST`, for each partition: versions 6 to 9."""
    partitions = [{"partition_index": n, "timestamp": timestamp} for n, timestamp in timestamps.items()]
    return {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": partitions}]}


def create_topic_request(
    name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None, timeout_ms: int = 30_000
) -> Values:
    """One topic with one replica."""
    return {
        "topics": [
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": 1,
                "assignments": [],
                "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
            }
        ],
        "timeout": timeout_ms,
        "validate_only": False,
    }


def delete_topic_request(topic_id: Any, *, timeout_ms: int = 30_000) -> Values:
    """One topic, by its id: version 6."""
    return {"topics": [{"name": None, "topic_id": topic_id}], "timeout": timeout_ms}


def metadata_request(names: list[str] | None = None) -> Values:
    """These topics, or all of them; none is created."""
    topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
    return {"topics": topics, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}


def init_producer_id_request() -> Values:
    """An id for an idempotent producer."""
    return {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}


def set_config_request(topic: str, name: str, value: str) -> Values:
    """Set one setting of a topic: IncrementalAlterConfigs."""
    config = {"name": name, "config_operation": SET, "value": value}
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": [config]}
    return {"resources": [resource], "validate_only": False}


def describe_config_request(topic: str, names: list[str]) -> Values:
    """Some settings of a topic."""
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": names}
    return {"resources": [resource], "include_synonyms": False, "include_documentation": False}


def encode_request(
    api: Api, version: int, values: Values, correlation_id: int = 1, client_id: str = "wire-client"
) -> bytes:
    """The frame of a request, its length included."""
    return frame_request(api.key, version, values, correlation_id=correlation_id, client_id=client_id)


def _read_response(api: Api, version: int, frame: bytes) -> Any:
    """What `wire.responses` reads, but that nothing may be left."""
    schema = response_schema(api.key, version)
    _, body_at = read_answer_head(frame, has_tags=schema.__header_schema__.__flexible__)
    answer, end = read_struct(schema, Body(memoryview(frame)[body_at:], max_elements=MAX_ELEMENTS))
    if body_at + end != len(frame):
        raise Malformed(f"it has {len(frame) - body_at - end} bytes too many")
    return answer
