"""Clients that are many, slow, deaf, or gone."""

import os
import resource
import socket
import struct
import time
from contextlib import suppress

from barnabas.core.records.batch import Codec
from barnabas.wire.apis import FETCH, METADATA
from barnabas.wire.frame import write_uvarint
from tests.system.bad_input.bombs import bomb
from tests.system.bad_input.serving import FRAME_LIMIT, MIB, Server, honest_client
from tests.system.running import Client, create_topic, produce, request_frame
from tests.unit.edge.kafka.calling import frame_of


def allowed_connections(wanted: int) -> int:
    """As many as the limit on descriptors lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted + 200 <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted + 200, hard))
        soft = wanted + 200
    return min(wanted, soft - 200)


def test_a_thousand_idle_and_fifty_slow_connections_do_no_harm(server: Server) -> None:
    count = allowed_connections(1000)
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
    slow = [Client(server.port) for _ in range(50)]
    drip = struct.pack(">i", FRAME_LIMIT) + frame_of(METADATA, 1, bytes(100))
    with honest_client(server) as rounds, server.bounded_memory(0):
        for byte in drip[:40]:
            for client in slow:
                client.send_bytes(bytes([byte]))
            time.sleep(0.02)
        before = rounds()
        while rounds() < before + 5:
            time.sleep(0.01)
    for each in idle:
        each.close()
    for client in slow:
        client.socket.close()
    server.check()


def test_clients_that_read_nothing_do_no_harm(server: Server) -> None:
    create_topic(server.port, "large", max_message_bytes=str(2 * MIB))
    with Client(server.port) as client:
        for _ in range(10):
            record = b"\x00\x00\x00\x01" + write_uvarint(2 * MIB) + bytes(MIB) + b"\x00"
            section = write_uvarint(2 * len(record)) + record
            assert produce(client, "large", bomb(Codec.NONE, section)).error_code.value == 0
    each = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10 * MIB, "current_leader_epoch": -1}
    ask = request_frame(FETCH, 11, max_wait=0, max_bytes=10 * MIB, topics=[{"topic": "large", "partitions": [each]}])
    frames = (struct.pack(">i", len(ask)) + ask) * 2000
    with server.bounded_memory(10 * len(frames)):
        clients = [Client(server.port) for _ in range(5)]
        for client in clients:
            client.socket.settimeout(0.5)
            with suppress(TimeoutError):
                client.socket.sendall(frames)
        server.check()
        for client in clients:
            client.socket.close()
    server.check()


def test_clients_that_come_and_go_leave_nothing(server: Server) -> None:
    each = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}
    create_topic(server.port, "empty")
    poll = request_frame(FETCH, 11, max_wait=2**31 - 1, min_bytes=1, topics=[{"topic": "empty", "partitions": [each]}])
    for _ in range(300):
        with Client(server.port) as client:
            client.send(poll)
    deadline = time.monotonic() + 30
    while len(os.listdir(f"/proc/{server.process.pid}/fd")) > 200:
        assert time.monotonic() < deadline, "descriptors are left"
        time.sleep(0.05)
    server.check()
