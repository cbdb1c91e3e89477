"""Which requests the console takes: those for one of its names, from its own pages.

NiceGUI's socket takes calls from pages of any origin, and a name may be pointed at our address (DNS rebinding); so both
are checked here, before anything of NiceGUI sees the request. Headers by which a proxy says who it is are dropped,
since anybody could send them.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import quote, urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

DROPPED: Final = (b"x-forwarded-prefix", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-for")
SAFE: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)


def refusal(host: str, origin: str | None, names: Iterable[str] = ()) -> str | None:
    """Why a request is refused; None if it is not."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        from_host = None if origin is None else urlsplit(origin).netloc
    except ValueError:
        return "the Host or the Origin of this request is none"
    if name != "localhost" and name not in names and not _is_address(name):
        return "the Host of this request is none of the console's names: use its address, or name it with --name"
    if from_host is not None and from_host.lower() != host.lower():
        return "a page of another origin may not call the console"
    return None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """Refuses requests before the application sees them."""

    def __init__(self, app: App, names: Iterable[str] = (), root_path: str = "") -> None:
        """`root_path` is where a proxy serves the console; requests come with it or without."""
        self._app = app
        self._root = root_path
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request, and pass it on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = [(name, value) for name, value in scope["headers"] if name not in DROPPED]
        found = dict(headers)
        origin = found.get(b"origin")
        why = refusal(
            found.get(b"host", b"").decode("latin-1"), None if origin is None else origin.decode("latin-1"), self._names
        )
        if why is None:
            await self._app(below_root({**scope, "headers": headers}, self._root), receive, _with_safety(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        else:
            plain = [(b"content-type", b"text/plain; charset=utf-8"), *SAFE]
            await send({"type": "http.response.start", "status": 403, "headers": plain})
            await send({"type": "http.response.body", "body": why.encode()})


def below_root(scope: Scope, root_path: str) -> Scope:
    """A request as the application knows it: without the root path, which NiceGUI puts before its own addresses."""
    if not root_path:
        return scope
    path = str(scope["path"])
    if path == root_path or path.startswith(f"{root_path}/"):
        path = path[len(root_path) :] or "/"
    raw_path = quote(path).encode()
    headers = [*scope["headers"], (b"x-forwarded-prefix", root_path.encode())]
    return {**scope, "path": path, "raw_path": raw_path, "headers": headers}


def _with_safety(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *SAFE]
        await send(message)

    return sending
