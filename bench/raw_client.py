"""A client that costs next to nothing: frames made once, sent again and again, answers counted and not read."""

import socket
import struct
from typing import Final

CLIENT_ID: Final = b"bench"
_PRODUCE_VERSION: Final = 7
_FETCH_VERSION: Final = 4
_METADATA_VERSION: Final = 4


class RawClient:
    """One connection."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(4 * 1024 * 1024)

    def close(self) -> None:
        self._socket.close()

    def create_topic(self, topic: str) -> None:
        """Ask for a topic, which makes it."""
        self._ask(3, _METADATA_VERSION, struct.pack(">i", 1) + _string(topic) + b"\x01")

    def produce_pipelined(self, topic: str, batch: bytes, *, count: int, in_flight: int) -> None:
        """Send the same batch `count` times with acks=1, at most `in_flight` unanswered."""
        body = struct.pack(">hhii", -1, 1, 30_000, 1) + _string(topic) + struct.pack(">iii", 1, 0, len(batch)) + batch
        request = _frame(0, _PRODUCE_VERSION, body)
        answer_size = 4 + len(self._ask(0, _PRODUCE_VERSION, body))
        chunk = max(1, in_flight // 4)
        sent = received = 0
        while received < count * answer_size:
            while sent < count and (sent + chunk) * answer_size - received <= in_flight * answer_size:
                many = min(chunk, count - sent)
                self._socket.sendall(request * many)
                sent += many
            received += self._socket.recv_into(self._buffer)

    def fetch_all(self, topic: str, *, end_offset: int, max_bytes: int) -> int:
        """Read partition 0 up to `end_offset`; returns the bytes of records that came."""
        offset = total = 0
        while offset < end_offset:
            body = struct.pack(">iiiib", -1, 500, 1, max_bytes, 0)
            body += struct.pack(">i", 1) + _string(topic) + struct.pack(">iiqi", 1, 0, offset, max_bytes)
            answer = self._ask(1, _FETCH_VERSION, body)
            at = 4 + 4 + 4 + 2 + len(topic) + 4  # to the first partition
            (error,) = struct.unpack_from(">h", answer, at + 4)
            assert error == 0, error
            aborted, size = struct.unpack_from(">ii", answer, at + 22)
            assert aborted <= 0
            start = at + 30
            total += size
            offset = _next_offset(answer, start, start + size, offset)
        return total

    def _ask(self, key: int, version: int, body: bytes) -> memoryview:
        self._socket.sendall(_frame(key, version, body))
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def _receive(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)[:size]
        done = 0
        while done < size:
            got = self._socket.recv_into(view[done:])
            if not got:
                raise ConnectionError("the broker closed the connection")
            done += got
        return view


def _next_offset(data: memoryview, at: int, end: int, offset: int) -> int:
    """The offset after the last whole batch."""
    while at + 61 <= end:
        base, length = struct.unpack_from(">qi", data, at)
        if at + 12 + length > end:
            break
        (delta,) = struct.unpack_from(">i", data, at + 23)
        offset = base + delta + 1
        at += 12 + length
    return offset


def _frame(key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", key, version, 0, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(head) + len(body)) + head + body


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
