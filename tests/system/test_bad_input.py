"""Bad input to a real `barnabas serve` process, and what it may cost.

The oracle: an answer, or a typed error, or a closed connection; the broker lives, serves an honest client meanwhile,
has nothing of ERROR or a traceback in its log, and its memory stays within 8 times the input and a constant.
"""

import io
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import cramjam
import pytest
from kio.index import load_request_schema

from barnabas.core.records.batch import BatchHeader, Codec, attributes_of, seal, write_header
from barnabas.wire.apis import APIS, CREATE_TOPICS, FETCH, METADATA, PRODUCE, Api
from barnabas.wire.frame import write_uvarint
from barnabas.wire.schema import FORMATS, take_apart
from tests.system.running import (
    Client,
    check_round_trip,
    create_topic,
    produce,
    read_answer,
    request_frame,
    running,
)
from tests.unit.edge.kafka.calling import frame_of
from tests.unit.edge.kafka.support import build
from tests.unit.wire.kio_values import API_VERSIONS, IDS, encode

MIB: Final = 1024 * 1024
MEMORY_CONSTANT: Final = 400 * MIB  # whatever is sent: interpreter, threads, and a few batches being opened at once
FRAME_LIMIT: Final = 100 * MIB


class Server:
    """`barnabas serve` in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._log = directory / "stderr"
        command = [sys.executable, "-m", "barnabas.cli.main", "serve", "--listen", "127.0.0.1:0"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--data-dir", str(directory / "data")], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", self.process.stdout.readline())
        assert found is not None, self.log
        self.port = int(found[1])

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def check(self) -> None:
        assert self.process.poll() is None, self.log
        assert "Traceback" not in self.log
        assert " ERROR " not in self.log
        check_round_trip(self.port)

    def memory(self, field: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", text)
        assert found is not None
        return int(found[1]) * 1024

    @contextmanager
    def bounded_memory(self, input_size: int) -> Iterator[None]:
        """See that the most memory in use grows by no more than the oracle allows."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # forget the peak so far
        before = self.memory("VmRSS")
        yield
        assert self.memory("VmHWM") - before <= 8 * input_size + MEMORY_CONSTANT

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()
        assert "Traceback" not in self.log


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("serve"))
    create_topic(server.port, "compacted", cleanup_policy="compact", max_message_bytes=str(60 * MIB))
    for codec in ("gzip", "uncompressed"):
        create_topic(server.port, codec, compression_type=codec, max_message_bytes=str(60 * MIB))
    yield server
    server.check()
    server.stop()


@contextmanager
def honest_client(server: Server) -> Iterator[Callable[[], int]]:
    """A client that goes on producing and fetching; gives how often that worked."""
    is_over = threading.Event()
    rounds: list[int] = []
    failures: list[BaseException] = []

    def serve_honestly() -> None:
        try:
            while not is_over.is_set():
                check_round_trip(server.port)
                rounds.append(1)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=serve_honestly)
    thread.start()
    try:
        yield lambda: len(rounds)
    finally:
        is_over.set()
        thread.join(60)
    assert not failures
    assert rounds


def answered_or_closed(server: Server, frame: bytes) -> list[bytes]:
    """Send a frame, and an honest request behind it; what was answered to the frame."""
    with Client(server.port) as client:
        return client.ask_raw(frame)[1]


# Frames


@pytest.mark.parametrize("length", [-1, 0, 2**31 - 1, -(2**31), FRAME_LIMIT + 1])
def test_impossible_frame_lengths_close_the_connection(server: Server, length: int) -> None:
    with Client(server.port) as client:
        client.send_bytes(struct.pack(">i", length) + b"\x00" * 100)
        assert client.receive() is None
    server.check()


def test_claims_of_large_frames_take_neither_memory_nor_the_turn_of_others(server: Server) -> None:
    with server.bounded_memory(0):
        clients = [Client(server.port) for _ in range(200)]
        for client in clients:
            client.send_bytes(struct.pack(">i", FRAME_LIMIT) + b"\x00" * 10)
        # A frame that needs the budget that was only claimed.
        with Client(server.port) as client:
            client.send(frame_of(METADATA, 1, b"\x00\x00\x00\x00") + bytes(3 * MIB))
            assert client.receive() is not None
        server.check()
        for client in clients:
            client.socket.close()


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_bodies_of_one_repeated_pattern_are_answered_or_refused(server: Server, api: Api) -> None:
    patterns = [
        b"\x00",
        b"\xff",
        b"\x80",
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\x07",
        b"\x01",
    ]
    for version in range(api.min_version, api.max_version + 1):
        for pattern in patterns:
            if api is FETCH and pattern in (b"\x7f\xff\xff\xff", b"\x01"):
                continue  # which asks to wait for weeks, and may
            answered_or_closed(server, frame_of(api, version, pattern * 64))
            answered_or_closed(server, frame_of(api, version, b""))
    server.check()


def test_counts_larger_than_their_bytes_are_refused(server: Server) -> None:
    for count in (2**31, 2**32 - 1, 1_000_000):
        for api, version, before in (
            (METADATA, 12, b""),
            (CREATE_TOPICS, 7, b""),
            (CREATE_TOPICS, 7, b"\x02\x02t\x00\x00\x00\x01\x00\x01"),
            (FETCH, 15, bytes(21)),
            (PRODUCE, 10, bytes(7)),
        ):
            assert answered_or_closed(server, frame_of(api, version, before + write_uvarint(count) + bytes(20))) == []
        old = struct.pack(">i", min(count, 2**31 - 1)) + bytes(20)
        assert answered_or_closed(server, frame_of(METADATA, 1, old)) == []
        assert answered_or_closed(server, frame_of(PRODUCE, 3, bytes(8) + old)) == []
    server.check()


def test_overlong_varints_are_refused(server: Server) -> None:
    for varint in (b"\x80" * 5 + b"\x01", b"\xff" * 12, b"\x80" * 1000, b"\xff\xff\xff\xff\x7f"):
        for api, version in ((METADATA, 12), (PRODUCE, 9), (CREATE_TOPICS, 5)):
            assert answered_or_closed(server, frame_of(api, version, varint + bytes(20))) == []
        head = METADATA.key.to_bytes(2, "big") + b"\x00\x0c\x00\x00\x00\x07\x00\x00"
        assert answered_or_closed(server, head + varint + bytes(20)) == []
    server.check()


def test_ten_million_tagged_fields_are_refused_for_little(server: Server) -> None:
    tags = write_uvarint(10_000_000) + b"\x09\x00" * 10_000_000
    head = METADATA.key.to_bytes(2, "big") + b"\x00\x0c\x00\x00\x00\x07\x00\x00"
    with honest_client(server) as rounds, server.bounded_memory(len(tags)):
        for frame in (
            head + tags,
            frame_of(METADATA, 12, b"\x01\x00\x00" + tags),
            frame_of(PRODUCE, 9, bytes(7) + tags),
        ):
            before = rounds()
            assert answered_or_closed(server, frame) == []
            while rounds() < before + 2:
                time.sleep(0.01)
    server.check()


def test_millions_of_elements_are_refused_for_little(server: Server) -> None:
    count = 20_000_000
    old = struct.pack(">i", count) + b"\x00\x00" * count
    with honest_client(server), server.bounded_memory(len(old)):
        assert answered_or_closed(server, frame_of(METADATA, 1, old)) == []
        topics = struct.pack(">hhii", -1, 1, 1000, count) + b"\x00\x01t\x00\x00\x00\x00" * 5_000_000
        assert answered_or_closed(server, frame_of(PRODUCE, 3, topics)) == []
    server.check()


# Slots


def minimal(entity: Any) -> Any:
    """An entity with every array of one element, and nothing null."""
    values: dict[str, Any] = {}
    for field in fields(entity):
        inner, _, is_array = take_apart(field.type)
        if field.metadata.get("tag") is not None:
            continue
        if is_dataclass(inner):
            value: Any = minimal(inner)
        else:
            kind = field.metadata["kafka_type"]
            value = {"string": "t", "bytes": b"", "records": b"", "uuid": None}.get(kind, 0)
            if kind.startswith("timedelta"):
                value = 0
        values[field.name] = [value] if is_array else value
    return values


def slots(entity: Any) -> int:
    """How many slots of an entity with one element in each array could be null."""
    count = 0
    for field in fields(entity):
        inner, _, is_array = take_apart(field.type)
        if field.metadata.get("tag") is None:
            kind = field.metadata.get("kafka_type")
            count += is_array or kind in ("string", "bytes", "records") or (is_dataclass(inner) and not is_array)
            count += slots(inner) if is_dataclass(inner) else (is_array and kind in ("string", "bytes"))
    return count


class NullingWriter:
    """Writes an entity with null in one slot, whether that may be null or not."""

    def __init__(self, null_slot: int) -> None:
        self._left = null_slot

    def write(self, entity: Any) -> bytes:
        out = io.BytesIO()
        self._entity(out, entity)
        return out.getvalue()

    def _is_null(self) -> bool:
        self._left -= 1
        return self._left == -1

    def _entity(self, out: io.BytesIO, entity: Any) -> None:
        is_flexible = entity.__flexible__
        for field in fields(entity):
            if field.metadata.get("tag") is None:
                self._field(out, field, is_flexible=is_flexible)
        if is_flexible:
            out.write(b"\x00")

    def _field(self, out: io.BytesIO, field: Any, *, is_flexible: bool) -> None:
        inner, is_nullable, is_array = take_apart(field.type)
        if is_array:
            if self._is_null():
                out.write(b"\x00" if is_flexible else b"\xff\xff\xff\xff")
                return
            out.write(b"\x02" if is_flexible else b"\x00\x00\x00\x01")
        if is_dataclass(inner):
            if not is_array:
                is_null = self._is_null()
                out.write((b"\xff" if is_null else b"\x01") if is_nullable else b"")
                if is_null:
                    return
            self._entity(out, inner)
            return
        kind = field.metadata["kafka_type"]
        if kind in FORMATS or kind == "uuid":
            out.write(bytes(16 if kind == "uuid" else struct.calcsize(">" + FORMATS[kind])))
        elif self._is_null():
            out.write(b"\x00" if is_flexible else b"\xff\xff" if kind == "string" else b"\xff\xff\xff\xff")
        else:
            out.write(b"\x02t" if is_flexible else b"\x00\x01t" if kind == "string" else b"\x00\x00\x00\x01t")


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_null_in_every_slot_is_answered_or_refused(server: Server, api: Api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        schema = load_request_schema(api.key, version)
        for slot in range(slots(schema) + 1):
            body = NullingWriter(slot).write(schema)
            for answer in answered_or_closed(server, frame_of(api, version, body)):
                read_answer(api, version, answer)
    server.check()


@pytest.mark.parametrize(("api", "version"), API_VERSIONS, ids=IDS)
def test_empty_lists_are_answered(server: Server, api: Api, version: int) -> None:
    schema = load_request_schema(api.key, version)
    empty = request_frame(api, version, max_wait=0, acks=1)
    nested = frame_of(api, version, encode(build(schema, {**minimal(schema), **emptied(schema), "acks": 1})))
    for frame in (empty, nested):
        (answer,) = answered_or_closed(server, frame)
        read_answer(api, version, answer)


def emptied(entity: Any) -> dict[str, Any]:
    """Arrays of one element whose own arrays have none."""
    values: dict[str, Any] = {}
    for field in fields(entity):
        inner, _, is_array = take_apart(field.type)
        if is_array and is_dataclass(inner) and field.metadata.get("tag") is None:
            element = minimal(inner)
            for each in fields(inner):
                if take_apart(each.type)[2]:
                    element[each.name] = []
            values[field.name] = [element]
    return values


# Names


@pytest.mark.parametrize("name", ["..", ".", "a/b", "x" * 250, "", "../../x", "a\x00b", "<script>", "ä"])
def test_names_that_cannot_be_are_refused_and_make_no_files(server: Server, name: str) -> None:
    before = sorted(str(path) for path in server.directory.rglob("*") if "honest" not in str(path))
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    with Client(server.port) as client:
        created = client.ask(CREATE_TOPICS, 7, topics=[topic], timeout=1000)
        assert created.topics[0].error_code.value == 17
        asked = client.ask(METADATA, 12, topics=[{"name": name, "topic_id": None}], allow_auto_topic_creation=True)
        assert asked.topics[0].error_code.value == 17
        assert produce(client, name, None).error_code.value == 3
    assert sorted(str(path) for path in server.directory.rglob("*") if "honest" not in str(path)) == before


@pytest.mark.parametrize(
    "client_id",
    [b"<script>alert(1)</script>", b"\n2026-01-01 ERROR barnabas forged", b"%s%s%n", b"\x1b[31m", b"\xff\xfe"],
)
def test_markup_in_client_ids_goes_nowhere(server: Server, client_id: bytes) -> None:
    answered_or_closed(server, frame_of(METADATA, 1, b"\xff\xff\xff\xff", client_id))
    answered_or_closed(server, frame_of(METADATA, 1, b"\xff\xff", client_id))  # and when it is logged
    assert "forged" not in server.log
    server.check()


@pytest.mark.parametrize(("version", "values"), [(11, {"replica_id": 1}), (18, {"replica_state": {"replica_id": 1}})])
def test_a_client_that_says_it_is_a_replica_gets_no_records(server: Server, version: int, values: Any) -> None:
    check_round_trip(server.port)
    each = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}
    with Client(server.port) as client:
        named = {"topic": "honest"}
        if version > 12:
            (topic,) = client.ask(METADATA, 12, topics=[{"name": "honest", "topic_id": None}]).topics
            named = {"topic_id": topic.topic_id}
        answer = client.ask(FETCH, version, max_wait=0, topics=[{**named, "partitions": [each]}], **values)
    partition = answer.responses[0].partitions[0]
    assert (partition.error_code.value, partition.records) == (6, b"")


# Bombs


def bomb(codec: Codec, section: bytes) -> bytes:
    """A batch whose records are `section`, with everything right that can be told without unpacking it."""
    out = bytearray(61) + section
    header = BatchHeader(0, len(out) - 12, -1, 2, 0, attributes_of(codec), 0, 1, 1, -1, -1, -1, 1)
    write_header(out, 0, header)
    seal(out, 0, len(out))
    return bytes(out)


def gigabyte(codec: Codec) -> bytes:
    """Compressed data of a megabyte, or as little as the codec can do, that unpacks to a gigabyte of zeros."""
    piece = bytes(64 * MIB)
    match codec:
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(piece, 9)) * 16
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(piece, 3)) * 16
        case Codec.LZ4:
            return bytes(cramjam.lz4.compress(piece)) * 16
        case _:
            block = bytes(cramjam.snappy.compress_raw(bytes(32 * 1024)))
            blocks = (struct.pack(">i", len(block)) + block) * 32 * 1024
            return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + blocks


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD], ids=lambda codec: codec.name)
def test_bombs_are_refused_within_bounds(server: Server, codec: Codec) -> None:
    batch = bomb(codec, gigabyte(codec))
    with honest_client(server), server.bounded_memory(len(batch)):
        for topic in ("compacted", "uncompressed", "gzip" if codec is not Codec.GZIP else "uncompressed"):
            with Client(server.port) as client:
                assert produce(client, topic, batch).error_code.value in (2, 10)
    server.check()


def test_a_bomb_of_millions_of_records_is_refused_within_bounds(server: Server) -> None:
    # What is allowed to be unpacked is full of the smallest records there are, none of them with a key.
    records = b"\x0c\x00\x00\x00\x01\x01\x00" * (30 * MIB // 7)
    batch = bytearray(bomb(Codec.ZSTD, bytes(cramjam.zstd.compress(records, 3))))
    count = len(records) // 7
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">i", batch, 57, count)
    seal(batch, 0, len(batch))
    with honest_client(server), server.bounded_memory(len(batch)), Client(server.port) as client:
        assert produce(client, "compacted", bytes(batch)).error_code.value in (2, 87)
    server.check()


# Crowds


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


# The loop, in this process


def test_the_loop_is_not_held_up_by_refusals(tmp_path: Path) -> None:
    tags = write_uvarint(10_000_000) + b"\x09\x00" * 5_000_000
    elements = struct.pack(">i", 5_000_000) + b"\x00\x00" * 5_000_000
    with running(tmp_path) as node:
        node.check()
        node.stalls.clear()
        for _ in range(3):
            for frame in (
                frame_of(METADATA, 12, b"\x01\x00\x00" + tags),
                frame_of(METADATA, 1, elements),
                frame_of(PRODUCE, 3, struct.pack(">hhi", -1, 1, 0) + elements),
            ):
                with node.connect() as client:
                    assert client.ask_raw(frame) == (False, [])
        # Walking all of one of those would take seconds; a busy machine may well take a few 50 ms turns.
        assert all(stall < 1.0 for stall in node.stalls), node.stalls
        node.check()
