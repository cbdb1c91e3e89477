"""The API of a node, as the console calls it.

Every answer is read into a value of `models`. What everybody looks at (the cluster, its history) is asked for once and
kept for a moment, however many pages are open.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from barnabas.console import models
from barnabas.console.merging import merged

TIMEOUT_S: Final = 15.0
KEPT_S: Final = 2.0
MAX_KEPT: Final = 200
MAX_EVENT: Final = 1024 * 1024
NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.InvalidURL)
T = TypeVar("T")
Params = Mapping[str, str | int | Sequence[str]]


class ApiError(Exception):
    """The API refused, with a sentence for whoever asked."""

    def __init__(self, message: str, *, status: int = 0, name: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.name = name


class NeedsLogin(ApiError):
    """Nobody is logged in, or the log-in is too old."""


class Unavailable(ApiError):
    """The node does not answer."""


class Event(NamedTuple):
    """One of the events of a tail."""

    id: str
    kind: str
    data: str


class _Kept(NamedTuple):
    at: float
    answer: "asyncio.Future[Any]"


class Api:
    """Calls the API of a node; if that does not answer, of the next of several. All answer for the whole cluster."""

    def __init__(self, urls: Sequence[str], *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.urls = tuple(url.rstrip("/") for url in urls)
        self._at = 0
        self._client = httpx.AsyncClient(
            timeout=TIMEOUT_S,
            transport=transport,
            limits=httpx.Limits(max_connections=100, max_keepalive_connections=10),
            trust_env=False,  # a proxy of this machine has no business between the two
        )
        self._kept: dict[tuple[str | None, str], _Kept] = {}

    @property
    def url(self) -> str:
        """Whom to ask now."""
        return self.urls[self._at]

    def _turn_from(self, url: str) -> None:
        """Ask the next from now on, unless somebody else has found out before that this one does not answer."""
        if self.url == url:
            self._at = (self._at + 1) % len(self.urls)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        *,
        token: str | None = None,
        params: Params | None = None,
        body: Any = None,
        at: str | None = None,
    ) -> T:
        """One call, to one of the nodes or to the one at an address; raises `ApiError` for a refusal."""
        content = None if body is None else msgspec.json.encode(body)
        headers = _headers(token) | ({} if body is None else {"Content-Type": "application/json"})
        asked = [at or self.url]
        while True:
            try:
                response = await self._client.request(
                    method, f"{asked[-1]}/api/v1{path}", params=_listed(params), content=content, headers=headers
                )
                break
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                if at is None:
                    self._turn_from(asked[-1])
                # What may have arrived is not sent again, unless it changes nothing.
                if at is not None or self.url in asked or not (method == "GET" or isinstance(error, NOT_SENT)):
                    raise Unavailable(f"{' and '.join(asked)} does not answer: {_reason(error)}") from None
            asked.append(self.url)
        if response.status_code >= 400:
            raise refusal_of(response.status_code, response.content)
        return read(response.content, answer)

    async def history(self, path: str, *, token: str | None = None) -> models.Series:
        """What all nodes remember of something; of those that do not answer, or refuse, nothing."""
        asked = (self.shared(path, models.Series, token=token, at=url) for url in self.urls)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        found = [each for each in answers if isinstance(each, models.Series)]
        for each in answers:
            if isinstance(each, BaseException) and not (found and isinstance(each, ApiError)):
                raise each
        return merged(found)

    async def shared(self, path: str, answer: type[T], *, token: str | None = None, at: str | None = None) -> T:
        """What a GET answers, which all that ask within a moment share."""
        loop = asyncio.get_running_loop()
        key = (token, f"{at or ''}{path}")
        kept = self._kept.get(key)
        if kept is None or loop.time() - kept.at > KEPT_S or kept.answer.cancelled():
            self._forget_old(loop.time())
            asked = asyncio.ensure_future(self.call("GET", path, answer, token=token, at=at))
            kept = self._kept[key] = _Kept(loop.time(), asked)
        found: T = await asyncio.shield(kept.answer)
        return found

    def _forget_old(self, now: float) -> None:
        self._kept = {key: kept for key, kept in self._kept.items() if now - kept.at <= KEPT_S}
        while len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]

    @asynccontextmanager
    async def tail(
        self, topic: str, *, token: str | None, params: Params, last_id: str
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """The events of a topic's tail."""
        headers = _headers(token) | ({"Last-Event-ID": last_id} if last_id else {})
        timeout = httpx.Timeout(TIMEOUT_S, read=60.0)  # it says that it is alive every 15 s
        url = self.url
        path = f"{url}/api/v1/topics/{part(topic)}/tail"
        try:
            async with self._client.stream(
                "GET", path, params=_listed(params), headers=headers, timeout=timeout
            ) as response:
                if response.status_code >= 400:
                    raise refusal_of(response.status_code, await response.aread())
                yield events_of(response.aiter_lines())
        except httpx.HTTPError as error:
            self._turn_from(url)
            raise Unavailable(f"{url} does not answer: {_reason(error)}") from None


def part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def _headers(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def _listed(params: Params | None) -> list[tuple[str, str | int | float | bool | None]]:
    found: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in (params or {}).items():
        if isinstance(value, str | int):
            found.append((name, value))
        else:
            found += [(name, each) for each in value]
    return found


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def refusal_of(status: int, content: bytes) -> ApiError:
    """A refusal of the API as an error."""
    try:
        problem = msgspec.json.decode(content, type=models.Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = models.Problem()
    message = problem.message or f"the API answered with status {status}"
    kind = NeedsLogin if status == 401 else ApiError
    return kind(message, status=status, name=problem.error)


def read(content: bytes, answer: type[T]) -> T:
    """An answer as a value; one that is none of the API's is a refusal."""
    try:
        return msgspec.json.decode(content, type=answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiError(f"the answer cannot be read; is it a Barnabas node? ({error})") from None


async def events_of(lines: AsyncIterator[str]) -> AsyncIterator[Event]:
    """Server-sent events from their lines."""
    at, kind, data = "", "message", ""
    async for line in lines:
        name, _, value = line.partition(": ")
        if not line:
            if data:
                yield Event(at, kind, data)
            kind, data = "message", ""
        elif name == "id":
            at = value
        elif name == "event":
            kind = value
        elif name == "data" and len(value) <= MAX_EVENT:
            data = value
