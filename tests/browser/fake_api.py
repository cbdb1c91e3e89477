"""An API that asks for a log-in, and has nothing to show: what a node with authentication answers."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

PASSWORD: Final = "correct horse"
TOKEN: Final = "the-token-of-ada"
CLUSTER: Final = {
    "cluster_id": "fake",
    "node_id": 1,
    "controller_id": 1,
    "version": "1",
    "counts": {
        "nodes": 1,
        "topics": 0,
        "partitions": 0,
        "under_replicated": 0,
        "under_min_isr": 0,
        "offline": 0,
    },
    "quorum": {"leader_id": 1, "epoch": 1, "high_watermark": 1, "members": []},
    "is_writable": True,
    "is_export_allowed": True,
    "needs_login": True,
    "principal": "User:ada",
    "allowed": [],
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(401, {"error_code": 58, "error": "X", "message": "log in first"})
        elif self.path.startswith("/api/v1/transactions"):
            self._answer(200, {"transactions": [], "errors": {}})
        else:
            self._answer(200, CLUSTER)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body.get("password") == PASSWORD:
            self._answer(200, {"token": TOKEN, "until_ms": 2**42, "principal": "User:ada"})
        else:
            self._answer(401, {"error_code": 58, "error": "X", "message": "the password is wrong"})

    def _answer(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
        """Say nothing."""


class FakeApi:
    """The API, while it is entered."""

    token = TOKEN

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> "FakeApi":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
