"""Attacks by connections: those that do not read, do not send on, send too much at once, or come and go."""

import asyncio
import os
import socket
import threading
from contextlib import ExitStack, suppress
from typing import Final
from uuid import UUID

from barnabas.core.records.batch import Codec
from barnabas.core.records.record import Record, encode_batch
from barnabas.testing.wire_client import WireClient, encode_request, fetch_request, metadata_request, produce_request
from barnabas.wire.apis import CREATE_TOPICS, FETCH, METADATA, PRODUCE
from bench.attack import Attack, Run, connect
from bench.served import Served

MIB: Final = 1024 * 1024
LARGE, PACKED = "large", "packed"
DEAF: Final = 60
HALF_SENT: Final = 1000
PACKERS: Final = 16


def _make(broker: Served, name: str, **configs: str) -> UUID:
    async def make() -> UUID:
        host, _, port = broker.bootstrap.rpartition(":")
        client = await WireClient.connect(host, int(port))
        settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": settings}
        wanted = {"topics": [topic], "timeout": 30_000, "validate_only": False}
        await client.ask(CREATE_TOPICS, 7, wanted, timeout_s=120)
        answer = await client.ask(METADATA, 12, metadata_request([name]), timeout_s=120)
        topic_id: UUID = answer.topics[0].topic_id
        if name == LARGE:
            batch = bytes(encode_batch([Record(0, 0, None, bytes(900_000))]))
            for _ in range(60):
                await client.ask(PRODUCE, 13, produce_request({topic_id: {0: batch}}), timeout_s=120)
        client.close()
        return topic_id

    return asyncio.run(make())


def _fill_large(broker: Served) -> None:
    _make(broker, LARGE)


def _read_nothing(broker: Served, has_begun: threading.Event, is_over: threading.Event) -> None:
    """Fetch 55 MB on each of many connections, and read none of it."""
    wanted = fetch_request({LARGE: {0: 0}}, version=12, max_bytes=55 * MIB, partition_max_bytes=55 * MIB)
    frame = encode_request(FETCH, 12, wanted)
    with ExitStack() as stack:
        for _ in range(DEAF):
            stack.enter_context(connect(broker)).sendall(frame)
        is_over.wait(1)
        has_begun.set()
        is_over.wait()


def _send_half(broker: Served, has_begun: threading.Event, is_over: threading.Event) -> None:
    """Send a part of a large frame on each of many connections, again whenever they are closed."""
    begun = (100 * MIB).to_bytes(4, "big") + bytes(600_000)

    def one() -> socket.socket:
        connection = connect(broker)
        connection.settimeout(0.05)
        with suppress(TimeoutError, ConnectionError):
            connection.sendall(begun)
        return connection

    connections = [one() for _ in range(HALF_SENT)]
    has_begun.set()
    while not is_over.wait(0.5):
        for at, connection in enumerate(connections):
            if is_over.is_set():
                break
            if _is_closed(connection):
                connection.close()
                connections[at] = one()
    for connection in connections:
        connection.close()


def _is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        connection.settimeout(0.05)


def _pipeline(broker: Served, has_begun: threading.Event, is_over: threading.Event) -> None:
    """Send small requests without end on one connection, and drop the answers."""
    topic_id = _make(broker, "pipelined")
    batch = bytes(encode_batch([Record(0, 0, None, b"v")]))
    frames = encode_request(PRODUCE, 13, produce_request({topic_id: {0: batch}})) * 500
    with connect(broker) as connection:

        def drop() -> None:
            with suppress(OSError):
                while connection.recv(MIB):
                    pass

        dropping = threading.Thread(target=drop)
        dropping.start()
        has_begun.set()
        while not is_over.is_set():
            connection.sendall(frames)
        connection.shutdown(socket.SHUT_RDWR)
        dropping.join()


def _packing() -> Run:
    """Have batches packed anew with the slowest codec there is, on many connections at once."""

    def run(broker: Served, has_begun: threading.Event, is_over: threading.Event) -> None:
        topic_id = _make(broker, PACKED, compression_type="zstd", compression_zstd_level="22")
        value = os.urandom(450_000) + bytes(450_000)
        batch = bytes(encode_batch([Record(0, 0, None, value)], codec=Codec.NONE))
        frame = encode_request(PRODUCE, 13, produce_request({topic_id: {0: batch}}))
        with ExitStack() as stack:
            connections = [stack.enter_context(connect(broker)) for _ in range(PACKERS)]
            for connection in connections:
                connection.settimeout(0.01)
            waits = dict.fromkeys(connections, False)
            while not is_over.is_set():
                for connection in connections:
                    with suppress(TimeoutError):
                        if waits[connection]:
                            connection.recv(MIB)
                        connection.settimeout(5)
                        connection.sendall(frame)
                        waits[connection] = True
                        connection.settimeout(0.01)
                has_begun.set()

    return run


def _come_and_go(broker: Served, has_begun: threading.Event, is_over: threading.Event) -> None:
    """Connect, send something that is no request, and be closed, over and over."""
    nonsense = b"GET / HTTP/1.1\r\n\r\n"
    has_begun.set()
    while not is_over.is_set():
        with suppress(ConnectionError), connect(broker, timeout_s=5) as connection:
            connection.sendall(nonsense)
            connection.recv(1)


RUDE_CONNECTIONS: Final = (
    Attack(f"{DEAF} connections that fetch 55 MB and read nothing", _read_nothing, _fill_large),
    Attack(f"{HALF_SENT} connections that send half of a request, beside 900 kB", _send_half, value_bytes=900_000),
    Attack("one connection that pipelines without end", _pipeline, settings=("log.flush.policy=fsync",)),
    Attack(
        f"{PACKERS} connections whose batches are packed by zstd 22, fsync",
        _packing(),
        settings=("log.flush.policy=fsync",),
    ),
    Attack("connections that send nonsense, one after another", _come_and_go),
)
