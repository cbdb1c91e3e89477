"""Telling the service manager that a node is ready, or stops: `Type=notify` of systemd.

A datagram to the socket in ``NOTIFY_SOCKET``, as sd_notify(3) describes it. Without that variable nothing is done.
Nobody waits for an answer, and a manager that is gone is no reason to fail.
"""

import os
import socket
from contextlib import suppress
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def notify(state: str, status: str = "") -> None:
    """Tell a state, and what an administrator may read beside it."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    text = f"{state}\nSTATUS={' '.join(status.split())}" if status else state
    address = f"\0{path[1:]}" if path.startswith("@") else path  # a name without a file
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
        manager.sendto(text.encode(), address)
