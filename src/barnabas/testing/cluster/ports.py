"""Ports of this machine that are free, and likely to stay so while their node is down.

The system gives the ports of its own range to any connection that begins, so they are taken from below it.
"""

import random
import socket
from collections.abc import Collection
from typing import Final

from barnabas.core.errors import AddressNotAvailable

HOST: Final = "127.0.0.1"
LOWEST: Final = 15_000
HIGHEST: Final = 32_000
_TRIES: Final = 1_000


def find_free(count: int, taken: Collection[int] = ()) -> list[int]:
    """So many different ports that nobody listens on, none of `taken`."""
    dice = random.SystemRandom()
    found: list[int] = []
    for _ in range(_TRIES):
        port = dice.randrange(LOWEST, HIGHEST)
        if port not in taken and port not in found and is_free(port):
            found.append(port)
            if len(found) == count:
                return found
    raise AddressNotAvailable(f"there are no {count} free ports between {LOWEST} and {HIGHEST}")


def find_row(count: int, taken: Collection[int] = ()) -> list[int]:
    """So many ports in a row that nobody listens on, none of `taken`."""
    dice = random.SystemRandom()
    for _ in range(_TRIES):
        first = dice.randrange(LOWEST, HIGHEST - count)
        row = list(range(first, first + count))
        if not any(port in taken for port in row) and all(map(is_free, row)):
            return row
    raise AddressNotAvailable(f"there are no {count} free ports in a row between {LOWEST} and {HIGHEST}")


def is_free(port: int) -> bool:
    """Whether a node could listen on a port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
