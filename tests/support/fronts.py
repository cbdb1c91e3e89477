"""Listeners before one real broker, which look like brokers of a cluster: what is in between is for tests to decide.

A front answers its clients one request after another, as a broker does, and asks the real broker over a connection of
its own for each client. It rewrites what tells of addresses (Metadata, FindCoordinator) so that clients come back to
it, and lowers versions (ApiVersions) to those that name topics, which is all it can read.
"""

import contextlib
import dataclasses
import io
import socket
import struct
import threading
from dataclasses import dataclass
from typing import Any, Final, Self

from kio.index import load_payload_module, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
FIND_COORDINATOR: Final = 10
API_VERSIONS: Final = 18
# What a front can read; 60 and 75 tell of addresses in ways of their own and are not offered.
_NEWEST: Final = {PRODUCE: 12, FETCH: 12, LIST_OFFSETS: 7, METADATA: 9, FIND_COORDINATOR: 3}
_NOT_OFFERED: Final = (60, 75)
_JOIN_S: Final = 60.0
_LENGTH: Final = struct.Struct(">i")


class Hangup(Exception):
    """The connection is to be closed without an answer."""


@dataclass(slots=True)
class Asked:
    """A request of a client."""

    api_key: int
    version: int
    header: Any
    message: Any
    frame: bytes

    @classmethod
    def read(cls, frame: bytes) -> "Asked":
        api_key, version = struct.unpack_from(">hh", frame)
        kind = load_request_schema(api_key, version)
        header, at = entity_reader(kind.__header_schema__)(memoryview(frame), 0)
        message, _ = entity_reader(kind)(memoryview(frame), at)
        return cls(api_key, version, header, message, frame)

    def written(self, message: Any) -> bytes:
        """The frame of this request with another message."""
        out = io.BytesIO()
        entity_writer(type(self.header))(out, self.header)
        entity_writer(type(message))(out, message)
        return out.getvalue()

    def response_classes(self) -> Any:
        return load_payload_module(self.api_key, self.version, EntityType.response)

    def read_answer(self, frame: bytes) -> Any:
        kind = load_response_schema(self.api_key, self.version)
        _, at = entity_reader(kind.__header_schema__)(memoryview(frame), 0)
        return entity_reader(kind)(memoryview(frame), at)[0]

    def written_answer(self, answer: Any) -> bytes:
        out = io.BytesIO()
        kind = type(answer).__header_schema__
        entity_writer(kind)(out, kind(correlation_id=self.header.correlation_id))
        entity_writer(type(answer))(out, answer)
        return out.getvalue()


class Node:
    """One listener, under a node id; it keeps its port while it is down."""

    def __init__(self, front: "Front", id_: int) -> None:
        self.id = id_
        self.is_up = False
        self._front = front
        self._listening: socket.socket | None = None
        self._clients: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.port = 0
        self.start()

    def start(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listening.getsockname()[1]
        self.is_up = True
        self._run(self._accept, self._listening)

    def stop(self) -> None:
        """Hang up on everybody, and let nobody in."""
        listening, self._listening = self._listening, None
        if listening is None:
            return
        self.is_up = False
        _end(listening)
        with self._lock:
            for client in self._clients:
                _end(client)
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join(_JOIN_S)
        listening.close()

    def _run(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            with self._lock:
                if not self.is_up:
                    client.close()
                    return
                self._clients.add(client)
                self._run(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        talking = client
        try:
            talking = self._front.greet(client)
            with self._lock:
                self._clients.discard(client)
                self._clients.add(talking)
            with socket.create_connection(self._front.backend) as broker:
                self._talk(talking, broker)
        except (OSError, Hangup):
            pass
        finally:
            with self._lock:
                self._clients -= {client, talking}
            talking.close()

    def _talk(self, client: socket.socket, broker: socket.socket) -> None:
        session = self._front.new_session()
        while self.is_up:
            frame = _read_frame(client)
            answer = self._front.answer(self, session, Asked.read(frame), broker)
            _write_frame(client, answer)


class Front:
    """Nodes 1, 2, ... before the broker at an address. Runs while its `with` block lasts."""

    def __init__(self, backend: str, nodes: int = 1) -> None:
        host, _, port = backend.rpartition(":")
        self.backend = (host, int(port))
        self.nodes = {id_: Node(self, id_) for id_ in range(1, nodes + 1)}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.stop()

    def greet(self, client: socket.socket) -> socket.socket:
        """What is to be done before the first request."""
        return client

    def new_session(self) -> Any:
        """What is kept of one connection."""
        return None

    def leader_of(self, topic: str, partition: int) -> int | None:
        return 1

    def answer(self, node: Node, session: Any, asked: Asked, broker: socket.socket) -> bytes:
        answer = ask(broker, asked.frame)
        if asked.api_key == API_VERSIONS:
            return asked.written_answer(self.offered(asked.read_answer(answer)))
        if asked.api_key == METADATA:
            return asked.written_answer(self._described(asked.read_answer(answer), asked.response_classes()))
        if asked.api_key == FIND_COORDINATOR:
            coordinator = self._first_up()
            found = dataclasses.replace(
                asked.read_answer(answer), node_id=coordinator.id, host="127.0.0.1", port=coordinator.port
            )
            return asked.written_answer(found)
        return answer

    def offered(self, answer: Any) -> Any:
        """The versions of the broker, lowered."""
        lowered = tuple(
            dataclasses.replace(each, max_version=min(each.max_version, _NEWEST.get(each.api_key, 999)))
            for each in answer.api_keys
            if each.api_key not in _NOT_OFFERED
        )
        return dataclasses.replace(answer, api_keys=lowered)

    def _first_up(self) -> Node:
        return next((node for node in self.nodes.values() if node.is_up), self.nodes[1])

    def _described(self, answer: Any, classes: Any) -> Any:
        up = [node for node in self.nodes.values() if node.is_up]
        brokers = tuple(classes.MetadataResponseBroker(node_id=n.id, host="127.0.0.1", port=n.port) for n in up)
        topics = tuple(self._with_leaders(topic, tuple(n.id for n in up)) for topic in answer.topics)
        return dataclasses.replace(answer, brokers=brokers, topics=topics, controller_id=self._first_up().id)

    def _with_leaders(self, topic: Any, ids: tuple[int, ...]) -> Any:
        partitions = []
        for each in topic.partitions:
            leader = self.leader_of(str(topic.name), int(each.partition_index))
            fields = {"replica_nodes": ids, "isr_nodes": ids, "leader_id": -1 if leader is None else leader}
            if leader is None:
                fields["error_code"] = ErrorCode.leader_not_available
            if hasattr(each, "leader_epoch"):
                fields["leader_epoch"] = -1  # none: the broker's own says nothing of leaders here
            partitions.append(dataclasses.replace(each, **fields))
        return dataclasses.replace(topic, partitions=tuple(partitions))


def ask(broker: socket.socket, frame: bytes) -> bytes:
    _write_frame(broker, frame)
    return _read_frame(broker)


def _read_frame(source: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_read(source, _LENGTH.size))
    if not 0 < length < 1 << 28:
        raise Hangup
    return _read(source, length)


def _write_frame(target: socket.socket, frame: bytes) -> None:
    target.sendall(_LENGTH.pack(len(frame)) + frame)


def _read(source: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = source.recv(count - len(data))
        if not part:
            raise Hangup
        data += part
    return bytes(data)


def _end(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)  # of TLS too: whoever reads from it wakes up
