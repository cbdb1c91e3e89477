"""Where the keys of tokens are fetched from."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from barnabas.core.errors import InvalidConfig, SaslAuthenticationFailed
from barnabas.runtime.token_keys import TokenKeys
from tests.support.ports import InPlace

KEY = ECKey.generate_key("P-256", {"kid": "one"})


class Server:
    """Has the keys at /keys, and sends who asks for another path on to where that says."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                is_here = self.path == "/keys"
                self.send_response(200 if is_here else 302)
                if not is_here:
                    self.send_header("Location", self.path.removeprefix("/to/").replace("PORT", str(server.port)))
                self.end_headers()
                if is_here:
                    self.wfile.write(json.dumps(KeySet([KEY]).as_dict(private=False)).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def verify(url: str) -> dict[str, Any]:
    token = jwt.encode({"alg": "ES256", "kid": "one"}, {"sub": "ann"}, KEY, algorithms=["ES256"])

    async def run() -> dict[str, Any]:
        keys = TokenKeys(url, computing=InPlace(), fetching=InPlace(), refresh_s=3600)
        return await keys.verify(token)

    return asyncio.run(run())


@pytest.mark.parametrize("path", ["/keys", "/to//keys", "/to/http://127.0.0.1:PORT/keys"])
def test_keys_are_fetched_also_where_their_server_has_moved_them(server: Server, path: str) -> None:
    assert verify(f"http://127.0.0.1:{server.port}{path}") == {"sub": "ann"}


@pytest.mark.parametrize(
    "to",
    [
        "http://localhost:PORT/keys",  # the same server, but who says that it is
        "https://127.0.0.1:PORT/keys",
        "http://127.0.0.1/keys",
        "ftp://127.0.0.1:PORT/keys",
        "file:///etc/hosts",
    ],
)
def test_a_redirect_to_another_server_or_scheme_is_not_followed(
    server: Server, to: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        verify(f"http://127.0.0.1:{server.port}/to/{to}")
    assert len(server.asked) == 1
    assert "cannot fetch the keys" in caplog.text


@pytest.mark.parametrize(
    "url", ["http://keys.example/keys", "ftp://127.0.0.1/keys", "file://keys.example/keys", "keys"]
)
def test_keys_that_others_could_change_on_the_way_are_refused(url: str) -> None:
    with pytest.raises(InvalidConfig, match="https or file"):
        verify(url)
