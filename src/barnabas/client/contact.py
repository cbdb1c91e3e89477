"""The first contact with a cluster: whether a Kafka broker answers at one of the addresses that were given.

A wrong address is reported within seconds, by its name: librdkafka alone would retry until each call times out, and
report only the timeout. Owns that check only. Once a broker has answered, how long to wait while brokers restart is up
to each call.
"""

import os
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Final

from barnabas.client.config_file import completed
from barnabas.client.errors import Unreachable
from barnabas.client.settings import Settings, parse_bootstrap

PATIENCE_S: Final = 5.0
_ATTEMPT_S: Final = 3.0
_RETRY_S: Final = 0.1
_LEAST_S: Final = 0.5  # every address is given a chance, however late it is
_CORRELATION_ID: Final = 7
_CLIENT_ID: Final = b"barnabas-contact"
# ApiVersions, version 0: every broker answers it, before any login. API, version, correlation, client, no body.
_BODY: Final = struct.pack(f">hhih{len(_CLIENT_ID)}s", 18, 0, _CORRELATION_ID, len(_CLIENT_ID), _CLIENT_ID)
_QUESTION: Final = struct.pack(">i", len(_BODY)) + _BODY
_ANSWER: Final = struct.Struct(">ii")  # length, correlation


class Contact:
    """Made once; may be used by several threads."""

    def __init__(self, settings: Settings, patience_s: float = PATIENCE_S) -> None:
        self._settings = settings
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._is_made = "test.mock.num.brokers" in settings.config  # librdkafka's own, at no address

    def make(self) -> None:
        """Wait until a broker answers; raises `Unreachable` with the addresses if none does in time."""
        if self._is_made:
            return
        with self._lock:
            if not self._is_made:
                reach(self._settings.bootstrap, self._settings.config, self._patience_s)
                self._is_made = True


def reach(bootstrap: str, config: Mapping[str, str] | None = None, patience_s: float = 0.0) -> None:
    """Return when a broker at one of these addresses answers; with a timeout of 0, each is tried once."""
    addresses = parse_bootstrap(bootstrap)
    speaks_plain = "ssl" not in completed(config or {}).get("security.protocol", "").lower()
    deadline = time.monotonic() + patience_s
    while True:
        problems = []
        for host, port in addresses:
            timeout_s = _ATTEMPT_S if not patience_s else min(_ATTEMPT_S, max(deadline - time.monotonic(), _LEAST_S))
            problem = _try(host, port, timeout_s, speaks_plain=speaks_plain)
            if problem is None:
                return
            problems.append(f"{_shown(host, port)} ({problem})")
        if time.monotonic() + _RETRY_S >= deadline:
            raise Unreachable(
                f"cannot reach {' or '.join(problems)}: is the broker running? "
                "Start one with 'barnabas serve', or check the address"
            )
        time.sleep(_RETRY_S)


def answers_at(host: str, port: int, timeout_s: float) -> bool:
    """Whether a broker without TLS answers at an address; one that is paused accepts connections, and does not."""
    return _try(host, port, timeout_s, speaks_plain=True) is None


def _try(host: str, port: int, timeout_s: float, *, speaks_plain: bool) -> str | None:
    """The problem with an address; None if a broker answers there. With TLS, an open port is enough."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            if not speaks_plain:
                return None
            connection.settimeout(timeout_s)
            connection.sendall(_QUESTION)
            return _judge(_read(connection, _ANSWER.size))
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return _words_of(error)


def _judge(answer: bytes) -> str | None:
    if len(answer) < _ANSWER.size:
        return (
            "it closed the connection: does it require TLS?" if not answer or answer[0] == 21 else "not a Kafka broker"
        )  # TLS's alert
    return None if _ANSWER.unpack(answer)[1] == _CORRELATION_ID else "not a Kafka broker"


def _read(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        if not part:
            break
        found += part
    return found


def _words_of(error: OSError) -> str:
    """The text of a system error without its number, as in "connection refused"."""
    words = error.strerror or str(error)
    if error.errno is not None and not isinstance(error, socket.gaierror):
        words = os.strerror(error.errno)
    return words[:1].lower() + words[1:]


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
