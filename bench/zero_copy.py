"""From a file in memory to a socket: sendfile, mmap and plain reads, on one loopback connection."""

import mmap
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Row, compare_rounds, rate, scratch_directory, take_turns

PIECE = 1024 * 1024
PIECES = 64
ROUNDS = 11


def rows(*, quick: bool) -> Iterator[Row]:
    with scratch_directory() as scratch, _Sender(scratch / "log") as sender:
        steps = 20 if quick else 200
        for name, send in (
            ("os.sendfile", sender.by_sendfile),
            ("mmap and send", sender.by_mmap),
            ("preadv without waiting, and send", sender.by_preadv),
        ):
            found = compare_rounds(
                lambda send=send: take_turns(send, sender.by_pread, steps=steps),  # type: ignore[misc]
                amount=steps * PIECE,
                rounds=ROUNDS,
            )
            yield Row(
                f"1 MB to a socket: {name}", rate(found.ours, "MB/s"), f"pread {rate(found.limit, 'MB/s')}", found.ratio
            )


class _Sender:
    """A file that is in memory, and a connection whose other end reads and forgets."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(os.urandom(PIECE) * PIECES)
        self._descriptor = os.open(path, os.O_RDONLY)
        self._map = mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ)
        listener = socket.create_server(("127.0.0.1", 0))
        self._reader = socket.create_connection(listener.getsockname())
        self._socket, _ = listener.accept()
        listener.close()
        self._thread = threading.Thread(target=_drain, args=(self._reader,), daemon=True)
        self._thread.start()
        self._at = 0

    def __enter__(self) -> "_Sender":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()
        self._thread.join()
        self._reader.close()
        self._map.close()
        os.close(self._descriptor)

    def _next(self) -> int:
        self._at = (self._at + 1) % PIECES
        return self._at * PIECE

    def by_pread(self) -> None:
        self._socket.sendall(os.pread(self._descriptor, PIECE, self._next()))

    def by_preadv(self) -> None:
        buffer = bytearray(PIECE)
        os.preadv(self._descriptor, [buffer], self._next(), os.RWF_NOWAIT)
        self._socket.sendall(buffer)

    def by_mmap(self) -> None:
        start = self._next()
        with memoryview(self._map)[start : start + PIECE] as piece:
            self._socket.sendall(piece)

    def by_sendfile(self) -> None:
        start = self._next()
        end = start + PIECE
        while start < end:
            start += os.sendfile(self._socket.fileno(), self._descriptor, start, end - start)


def _drain(reader: socket.socket) -> None:
    buffer = bytearray(PIECE)
    while reader.recv_into(buffer):
        pass
