"""One attack on a broker, and what attacks share: sending a frame over and over, and reading off what comes back."""

import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.served import Served

Run = Callable[[Served, threading.Event, threading.Event], None]
_READ_BYTES: Final = 1024 * 1024


def _nothing(_: Served) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Attack:
    """Something bad that a client does."""

    name: str
    run: Run
    """Given the broker; sets the first event when it has begun, and ends soon after the second is set."""
    prepare: Callable[[Served], None] = _nothing
    """What must be there before; it is not measured."""
    settings: Sequence[str] = ()
    """Of the broker."""
    value_bytes: int = 5
    """Of the records that the healthy client writes."""


def connect(broker: Served, *, timeout_s: float = 120) -> socket.socket:
    """A blocking connection."""
    host, _, port = broker.bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=timeout_s)


def repeating(make_frame: Callable[[], bytes]) -> Run:
    """Send the same request again whenever it is answered."""

    def run(broker: Served, has_begun: threading.Event, is_over: threading.Event) -> None:
        frame = make_frame()
        with connect(broker) as connection:
            connection.settimeout(0.2)
            has_begun.set()
            while not is_over.is_set():
                connection.sendall(frame)
                if not skip_answer(connection, is_over):
                    return

    return run


def skip_answer(connection: socket.socket, is_over: threading.Event) -> bool:
    """Read one answer and drop it; False when the connection or the attack is over first."""
    left = _skip(connection, 4, is_over)
    return left is not None and _skip(connection, int.from_bytes(left, "big"), is_over) is not None


def _skip(connection: socket.socket, size: int, is_over: threading.Event) -> bytes | None:
    """The last bytes of so many; None when there are not that many."""
    last = b""
    while size:
        try:
            last = connection.recv(min(size, _READ_BYTES))
        except TimeoutError:
            if is_over.is_set():
                return None
            continue
        if not last:
            return None
        size -= len(last)
    return last
