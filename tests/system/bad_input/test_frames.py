"""Frames and counts that are not what they claim, and what refusing them may cost."""

import struct
import time
from pathlib import Path

import pytest

from barnabas.wire.apis import CREATE_TOPICS, FETCH, METADATA, PRODUCE, Api
from barnabas.wire.frame import write_uvarint
from tests.support.served import versions_of
from tests.system.bad_input.serving import EVERYWHERE, FRAME_LIMIT, MIB, Server, answered_or_closed, honest_client
from tests.system.running import Client, running
from tests.unit.edge.kafka.calling import frame_of


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


@EVERYWHERE
def test_bodies_of_one_repeated_pattern_are_answered_or_refused(server: Server, listener: str, api: Api) -> None:
    patterns = [
        b"\x00",
        b"\xff",
        b"\x80",
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\x07",
        b"\x01",
    ]
    for version in versions_of(api):
        for pattern in patterns:
            if api is FETCH and pattern in (b"\x7f\xff\xff\xff", b"\x01"):
                continue  # which asks to wait for weeks, and may
            answered_or_closed(server, frame_of(api, version, pattern * 64), listener)
            answered_or_closed(server, frame_of(api, version, b""), listener)
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
        # Walking all of one of those would take seconds; a few turns of 50 ms may well be.
        assert all(stall < 1.0 for stall in node.stalls), node.stalls
        node.check()
