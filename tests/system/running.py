"""A whole node on a real port, in a thread of this process, with everything it should not do noted.

`errors` has every log record of level ERROR or above and every exception that reached the event loop. `stalls` counts
the turns of the loop that took more of a processor than `STALL_S`: on a busy machine any turn may take long.
"""

import asyncio
import logging
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from barnabas.core.records.record import Record, decode_batch, encode_batch
from barnabas.edge.kafka.registry import On, served_on
from barnabas.node import Node, Ports
from barnabas.runtime.loop import loop_factory
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.wire.apis import API_VERSIONS, CREATE_TOPICS, FETCH, PRODUCE, Api
from barnabas.wire.own_fields import with_own_fields
from tests.unit.edge.kafka.calling import frame_of
from tests.unit.edge.kafka.support import build
from tests.unit.wire.kio_values import encode

STALL_S: Final = 0.05
HEARTBEAT_S: Final = 0.005
TIMEOUT_S: Final = 60.0
SENTINEL: Final = b"\x00\x12\x00\x00\x7f\xff\xff\xff\x00\x00"  # ApiVersions 0 with a correlation id of its own


class _Noting(logging.Handler):
    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        self._errors.append(logging.Formatter().format(record))


class RunningNode:
    """A node that serves until `stop`."""

    def __init__(self, directory: Path, **settings: str) -> None:
        properties = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory),
            **{name.replace("_", "."): text for name, text in settings.items()},
        }
        self.config = BrokerConfig.from_properties(properties)
        self.errors: list[str] = []
        self.stalls: list[float] = []
        self.port = 0
        self.node: Node
        self.loop: asyncio.AbstractEventLoop
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node")
        self._thread.start()
        assert self._is_ready.wait(TIMEOUT_S), self.errors

    def _run(self) -> None:
        handler = _Noting(self.errors)
        logging.getLogger("barnabas").addHandler(handler)
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._main())
        except BaseException as error:
            self.errors.append(f"the node ended: {error!r}")
        finally:
            logging.getLogger("barnabas").removeHandler(handler)
            self._is_ready.set()

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(lambda _, context: self.errors.append(str(context)))
        self.node = Node(self.config, Ports.of_system(self.config))
        heart = asyncio.create_task(self._beat())
        await self.node.run(self._note_ready)
        heart.cancel()

    def _note_ready(self, node: Node) -> None:
        self.port = node.address[1]
        self._is_ready.set()

    async def _beat(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            now = time.thread_time()
            if now - last > STALL_S:
                self.stalls.append(now - last)
            last = now

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop, and see that nothing was wrong, up to the end."""
        if self.is_alive:
            self.loop.call_soon_threadsafe(self.node.stop)
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
        assert self.errors == []

    def connect(self) -> "Client":
        return Client(self.port)

    def check(self) -> None:
        """The node lives, complained of nothing, and serves an honest client."""
        assert self.is_alive
        assert self.errors == []
        check_round_trip(self.port)


@contextmanager
def running(directory: Path, **settings: str) -> Iterator[RunningNode]:
    node = RunningNode(directory, **settings)
    try:
        yield node
    finally:
        node.stop()


class Client:
    """A blocking socket that speaks in frames."""

    def __init__(self, port: int, timeout_s: float = TIMEOUT_S) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        """Send; a server that has closed already does not matter here."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def send(self, *frames: bytes) -> None:
        self.send_bytes(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))

    def receive(self) -> bytes | None:
        """The next frame, or None if the server has closed the connection."""
        head = self._exactly(4)
        return None if head is None else self._exactly(int.from_bytes(head, "big"))

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.socket.recv(size - len(data))
            except ConnectionError:
                return None
            if not piece:
                return None
            data += piece
        return bytes(data)

    def ask_raw(self, frame: bytes) -> tuple[bool, list[bytes]]:
        """Send a frame and a request behind it: is the connection open still, and what came before its answer?"""
        self.send(frame, SENTINEL)
        answers: list[bytes] = []
        while (answer := self.receive()) is not None:
            if answer[:4] == SENTINEL[4:8]:
                return True, answers
            answers.append(answer)
        return False, answers

    def ask(self, api: Api, version: int, **values: Any) -> Any:
        """The response to a request of plain values."""
        self.send(request_frame(api, version, **values))
        answer = self.receive()
        assert answer is not None, "the connection was closed"
        return read_answer(api, version, answer)


def request_frame(api: Api, version: int, **values: Any) -> bytes:
    return frame_of(api, version, encode(build(load_request_schema(api.key, version), values)))


def read_answer(api: Api, version: int, answer: bytes) -> Any:
    """The response in a frame, all of it."""
    is_flexible = version >= api.flexible_from and api is not API_VERSIONS
    body = answer[5:] if is_flexible else answer[4:]
    schema = with_own_fields(load_response_schema(api.key, version))  # kio refuses tags that it does not know
    response, size = entity_reader(schema)(body, 0)
    assert size == len(body)
    return response


def create_topic(port: int, name: str, partitions: int = 1, **configs: str) -> None:
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings}
    with Client(port) as client:
        answer = client.ask(CREATE_TOPICS, 4, topics=[{**topic, "assignments": []}], timeout=10_000)
    assert answer.topics[0].error_code.value in (0, 36), answer


def produce(client: Client, topic: str, records: bytes | None, *, acks: int = -1) -> Any:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    return client.ask(PRODUCE, 9, acks=acks, timeout=20_000, topic_data=data).responses[0].partition_responses[0]


def fetch(client: Client, topic: str, offset: int, *, max_wait_ms: int = 0) -> Any:
    each = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 10_000_000}
    values = {"max_wait": max_wait_ms, "min_bytes": 1, "topics": [{"topic": topic, "partitions": [each]}]}
    return client.ask(FETCH, 11, **values).responses[0].partitions[0]


def check_round_trip(port: int, topic: str = "honest") -> None:
    """An honest client finds everything in order."""
    create_topic(port, topic)
    with Client(port) as client:
        versions = client.ask(API_VERSIONS, 3, client_software_name="honest", client_software_version="1")
        assert {each.api_key for each in versions.api_keys} == set(served_on(On.CLIENTS))
        placed = produce(client, topic, bytes(encode_batch([Record(0, 1, b"k", b"v")])))
        assert placed.error_code.value == 0
        fetched = fetch(client, topic, placed.base_offset)
        assert fetched.error_code.value == 0
        (record,) = decode_batch(fetched.records)
        assert (record.offset, record.key, record.value) == (placed.base_offset, b"k", b"v")
