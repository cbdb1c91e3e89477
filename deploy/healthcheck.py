"""Whether a node answers on its Kafka port: it is asked for the versions that it serves, as any client asks first.

    python healthcheck.py [host:port]     # 127.0.0.1:9092 unless given, here or in BARNABAS_HEALTHCHECK

Exits with 0 if it does, 1 with a line if it does not. Needs nothing but Python.
"""

import os
import socket
import struct
import sys

TIMEOUT_S = 4.0
API_VERSIONS, VERSION, CORRELATION_ID = 18, 0, 4711


def ask(host: str, port: int) -> None:
    """Raise unless the node answers."""
    request = struct.pack(">hhih", API_VERSIONS, VERSION, CORRELATION_ID, -1)  # without a client id
    with socket.create_connection((host, port), timeout=TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = b""
        while len(answer) < 10:
            data = connection.recv(4096)
            if not data:
                raise ConnectionError("the connection was closed without an answer")
            answer += data
    _, correlation_id, error_code = struct.unpack_from(">iih", answer)
    if (correlation_id, error_code) != (CORRELATION_ID, 0):
        raise ConnectionError("this is no answer of a Kafka broker")


def main(arguments: list[str]) -> int:
    address = arguments[0] if arguments else os.environ.get("BARNABAS_HEALTHCHECK", "127.0.0.1:9092")
    host, _, port = address.rpartition(":")
    try:
        ask(host.strip("[]"), int(port))
    except (OSError, ValueError) as error:
        print(f"no answer at {address}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
