"""How much memory connections may hold, for how long, and how many there may be."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MIB = 1024 * 1024
LEFT_TO_THE_SYSTEM: Final = -1  # it knows how fast each client reads and sends


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of one connection, and of all together."""

    max_frame_bytes: int = 100 * MIB
    max_queued_bytes: int = 512 * MIB  # of frames that are being received
    max_frame_s: float = 30.0  # how long a frame may take to come if it comes slowly
    max_in_flight_bytes: int = 64 * MIB  # of one connection; one request is always let through
    max_unread_bytes: int = 256 * MIB  # of answers that clients have not read
    max_unread_s: float = 120.0  # how long a client may take nothing of an answer
    max_waiting: int = 250  # answers of one connection that wait for the disk leave together, and hold up others
    max_connections: int = 10_000
    max_connections_per_ip: int = 2**31 - 1
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_idle_s: float = 600.0
    max_authenticating: int = 1000  # connections whose client has not proved yet who it is
    max_authenticating_s: float = 30.0  # how long that may take
    send_buffer_bytes: int = LEFT_TO_THE_SYSTEM  # of each socket
    receive_buffer_bytes: int = LEFT_TO_THE_SYSTEM


class Crowd:
    """The number of connections, and of those from each address."""

    def __init__(self) -> None:
        self._count = 0
        self._by_ip: dict[str, int] = {}

    def enter(self, ip: str, limits: ConnectionLimits) -> str | None:
        """Count one more; or return the limit that was reached."""
        if self._count >= limits.max_connections:
            return f"there are already {self._count} connections, the maximum (max.connections)"
        here = self._by_ip.get(ip, 0)
        most = limits.max_connections_per_ip_overrides.get(ip, limits.max_connections_per_ip)
        if here >= most:
            return f"there are already {here} connections from its address, the maximum (max.connections.per.ip)"
        self._count += 1
        self._by_ip[ip] = here + 1
        return None

    def leave(self, ip: str) -> None:
        """Count one less."""
        self._count -= 1
        left = self._by_ip[ip] - 1
        if left:
            self._by_ip[ip] = left
        else:
            del self._by_ip[ip]
