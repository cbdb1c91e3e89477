"""The tests' own client holds a broker to the protocol."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.testing.wire_client import WireClient, WireError, metadata_request
from barnabas.wire.apis import HEARTBEAT, METADATA
from barnabas.wire.responses import write_response


class Sent(asyncio.Transport):
    """What a client has written."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Any] = []
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self.frames.append(data)

    def abort(self) -> None:
        self.is_aborted = True


def answer_to(correlation_id: int, body: bytes) -> bytes:
    frame = struct.pack(">i", correlation_id) + body
    return struct.pack(">i", len(frame)) + frame


def ask(answer: Callable[[bytes], bytes]) -> Any:
    """What a client makes of the answer to a heartbeat in version 3."""

    async def scenario() -> Any:
        client, sent = WireClient("test"), Sent()
        client.connection_made(sent)
        heard = client.send(HEARTBEAT, 3, {"group_id": "g", "generation_id": 1, "member_id": "m"})
        client.data_received(answer(bytes(write_response(HEARTBEAT.key, 3, {"error_code": 27}))))
        try:
            return await heard
        finally:
            assert sent.is_aborted is not client.is_open

    return asyncio.run(scenario())


def test_an_answer_is_read() -> None:
    assert ask(lambda body: answer_to(1, body)).error_code == 27


def test_an_answer_that_is_longer_than_it_should_be_breaks_the_connection() -> None:
    with pytest.raises(WireError, match="2 bytes too many"):
        ask(lambda body: answer_to(1, body + b"\x00\x00"))


def test_an_answer_that_cannot_be_read_breaks_the_connection() -> None:
    with pytest.raises(WireError, match="heartbeat version 3: it is truncated"):
        ask(lambda body: answer_to(1, body[:3]))


def test_an_answer_out_of_order_breaks_the_connection() -> None:
    with pytest.raises(WireError, match="an answer to request 7 came, 1 was next"):
        ask(lambda body: answer_to(7, body))


def test_requests_are_numbered_one_after_another() -> None:
    async def scenario() -> list[Any]:
        client, sent = WireClient("test"), Sent()
        client.connection_made(sent)
        for _ in range(2):
            client.send(METADATA, 12, metadata_request(["t"])).cancel()
        return sent.frames

    first, second = asyncio.run(scenario())
    assert [struct.unpack_from(">ihhi", frame)[1:] for frame in (first, second)] == [(3, 12, 1), (3, 12, 2)]
