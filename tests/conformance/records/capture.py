"""A broker of one topic and one partition that keeps what producers send and serves the bytes it was given.

Just enough of Kafka for real clients to produce and to fetch, with messages encoded by kio and not by us, so
that the only bytes under test are those of the record batches. It listens on a free loopback port for as long
as its `async with` block lasts.
"""

import asyncio
import contextlib
import datetime
import io
import socket
import struct
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Final, Self

from kio.index import load_request_schema
from kio.schema.api_versions.v0 import response as api_versions_v0
from kio.schema.api_versions.v3 import response as api_versions
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11 import response as fetch
from kio.schema.find_coordinator.v2 import response as find_coordinator
from kio.schema.init_producer_id.v0 import response as init_producer_id
from kio.schema.list_offsets.v2 import response as list_offsets
from kio.schema.metadata.v4 import response as metadata
from kio.schema.produce.v7 import response as produce
from kio.schema.types import BrokerId, ProducerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta, i64

from barnabas.core.records.batch import iter_batches

TOPIC: Final = "captured"
PRODUCER_ID: Final = 4711

_HOST: Final = "127.0.0.1"
_NODE: Final = BrokerId(0)
_NO_TIME: Final = i32Timedelta.parse(datetime.timedelta(0))

_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA, _FIND_COORDINATOR, _API_VERSIONS, _INIT_PRODUCER_ID = 0, 1, 2, 3, 10, 18, 22
# One version of each: the newest that every client here speaks and that allows all codecs.
_VERSIONS: Final = {
    _PRODUCE: 7,
    _FETCH: 11,
    _LIST_OFFSETS: 2,
    _METADATA: 4,
    _FIND_COORDINATOR: 2,
    _API_VERSIONS: 3,
    _INIT_PRODUCER_ID: 0,
}


class CaptureBroker:
    """Stores produced record bytes in `captured`; serves `log`, whose last offset is before `end_offset`."""

    def __init__(self, log: bytes = b"", *, end_offset: int = 0, aborted: Sequence[tuple[int, int]] = ()) -> None:
        self.captured: list[bytes] = []
        self._log = log
        self._end_offset = end_offset
        self._aborted = aborted
        self._port = 0
        self._closing = asyncio.Event()
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._handlers: dict[int, Callable[[Any], Coroutine[Any, Any, Any]]] = {
            _PRODUCE: self._produce,
            _FETCH: self._fetch,
            _LIST_OFFSETS: self._list_offsets,
            _METADATA: self._metadata,
            _FIND_COORDINATOR: self._find_coordinator,
            _API_VERSIONS: self._api_versions,
            _INIT_PRODUCER_ID: self._init_producer_id,
        }

    @property
    def bootstrap(self) -> str:
        return f"{_HOST}:{self._port}"

    async def __aenter__(self) -> Self:
        self._listener = socket.create_server((_HOST, 0))
        self._listener.setblocking(False)
        self._port = self._listener.getsockname()[1]
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        # A last connection wakes the listener. Cancelling it instead could lose a socket it has just accepted,
        # as closing an asyncio server would: clients may be connecting at this very moment.
        with contextlib.suppress(ConnectionError):  # somebody else woke it first
            socket.create_connection((_HOST, self._port)).close()
        await self._listening
        while self._connections:
            writer, task = self._connections.popitem()
            task.cancel()
            await asyncio.wait([task])
            writer.transport.abort()  # closing would wait for a client that no longer reads
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        with self._listener:
            while True:
                connection, _ = await loop.sock_accept(self._listener)
                if self._closing.is_set():
                    connection.close()
                    return
                reader, writer = await asyncio.open_connection(sock=connection)
                self._connections[writer] = asyncio.create_task(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    writer.write(await self._answer(await reader.readexactly(size)))
                    await writer.drain()
        finally:
            writer.close()

    async def _answer(self, frame: bytes) -> bytes:
        api_key, version = struct.unpack_from(">hh", frame)
        schema = load_request_schema(api_key, version)
        header, size = entity_reader(schema.__header_schema__)(frame, 0)
        request, _ = entity_reader(schema)(frame, size)
        response = await self._handlers[api_key](request)
        out = io.BytesIO()
        response_header = type(response).__header_schema__
        entity_writer(response_header)(out, response_header(correlation_id=header.correlation_id))
        entity_writer(type(response))(out, response)
        return struct.pack(">i", out.tell()) + out.getvalue()

    async def _api_versions(self, request: Any) -> object:
        ranges = [
            {"api_key": i16(key), "min_version": i16(version), "max_version": i16(version)}
            for key, version in _VERSIONS.items()
        ]
        if request.__version__ == 0:  # what aiokafka asks with
            return api_versions_v0.ApiVersionsResponse(
                error_code=ErrorCode.none, api_keys=tuple(api_versions_v0.ApiVersion(**range_) for range_ in ranges)
            )
        return api_versions.ApiVersionsResponse(
            error_code=ErrorCode.none,
            api_keys=tuple(api_versions.ApiVersion(**range_) for range_ in ranges),
            throttle_time=_NO_TIME,
        )

    async def _metadata(self, _request: object) -> object:
        broker = metadata.MetadataResponseBroker(node_id=_NODE, host=_HOST, port=i32(self._port), rack=None)
        partition = metadata.MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=i32(0),
            leader_id=_NODE,
            replica_nodes=(_NODE,),
            isr_nodes=(_NODE,),
        )
        topic = metadata.MetadataResponseTopic(
            error_code=ErrorCode.none, name=TopicName(TOPIC), is_internal=False, partitions=(partition,)
        )
        return metadata.MetadataResponse(
            throttle_time=_NO_TIME, brokers=(broker,), cluster_id="capture", controller_id=_NODE, topics=(topic,)
        )

    async def _find_coordinator(self, _request: object) -> object:
        return find_coordinator.FindCoordinatorResponse(
            throttle_time=_NO_TIME,
            error_code=ErrorCode.none,
            error_message=None,
            node_id=_NODE,
            host=_HOST,
            port=i32(self._port),
        )

    async def _init_producer_id(self, _request: object) -> object:
        return init_producer_id.InitProducerIdResponse(
            throttle_time=_NO_TIME,
            error_code=ErrorCode.none,
            producer_id=ProducerId(PRODUCER_ID),
            producer_epoch=i16(0),
        )

    async def _produce(self, request: Any) -> object:
        responses = []
        for topic in request.topic_data:
            self.captured += [bytes(partition.records) for partition in topic.partition_data]
            partitions = tuple(
                produce.PartitionProduceResponse(
                    index=partition.index, error_code=ErrorCode.none, base_offset=i64(0), log_append_time=None
                )
                for partition in topic.partition_data
            )
            responses.append(produce.TopicProduceResponse(name=topic.name, partition_responses=partitions))
        return produce.ProduceResponse(responses=tuple(responses), throttle_time=_NO_TIME)

    async def _list_offsets(self, request: Any) -> object:
        earliest = -2
        topics = tuple(
            list_offsets.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.none,
                        timestamp=i64(-1),
                        offset=i64(0 if partition.timestamp == earliest else self._end_offset),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return list_offsets.ListOffsetsResponse(throttle_time=_NO_TIME, topics=topics)

    async def _fetch(self, request: Any) -> object:
        wanted = [partition for topic in request.topics for partition in topic.partitions]
        if not any(self._log_from(partition.fetch_offset) for partition in wanted):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), request.max_wait.total_seconds())
        partitions = tuple(
            fetch.PartitionData(
                partition_index=partition.partition,
                error_code=ErrorCode.none,
                high_watermark=i64(self._end_offset),
                last_stable_offset=i64(self._end_offset),
                log_start_offset=i64(0),
                aborted_transactions=tuple(
                    fetch.AbortedTransaction(producer_id=ProducerId(producer_id), first_offset=i64(first_offset))
                    for producer_id, first_offset in self._aborted
                ),
                records=self._log_from(partition.fetch_offset),  # type: ignore[arg-type]
            )
            for partition in wanted
        )
        topic = fetch.FetchableTopicResponse(topic=TopicName(TOPIC), partitions=partitions)
        return fetch.FetchResponse(throttle_time=_NO_TIME, error_code=ErrorCode.none, responses=(topic,))

    def _log_from(self, offset: int) -> bytes:
        """The log from the batch with `offset` on: as a broker does, whole batches and none before it."""
        for position, header in iter_batches(self._log):
            if header.last_offset >= offset:
                return self._log[position:]
        return b""
