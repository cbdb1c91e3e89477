"""The keys that sign tokens: fetched from a JWKS document, at a file or https address, and kept for a while.

They are fetched on a thread, with limits of time and size, when they are older than the refresh interval. A token that
names a key nobody knows has them fetched again, but not more often than every `UNKNOWN_KEY_S`: or clients would decide
how often the issuer is asked. While they cannot be fetched the old ones are used.
"""

import asyncio
import json
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from barnabas.core.errors import InvalidConfig, SaslAuthenticationFailed
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.offload import Offload

if TYPE_CHECKING:
    from http.client import HTTPMessage

log = get_logger("barnabas.authentication")

FETCH_TIMEOUT_S: Final = 5.0
MAX_BYTES: Final = 1024 * 1024
UNKNOWN_KEY_S: Final = 30.0
FAILED_S: Final = 5.0
"""How soon keys are fetched again that could not be."""
_PORTS: Final = {"http": 80, "https": 443}
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a private key alone: with a shared one, whoever checks a token could make one."""


class TokenKeys:
    """The keys of one address."""

    def __init__(self, url: str, *, computing: Offload, fetching: Offload, refresh_s: float) -> None:
        self._url = url
        self._path = _file_of(url)
        self._computing = computing
        self._fetches = fetching
        self._refresh_s = refresh_s
        self._keys: Any = None
        self._fetched_at: float | None = None
        self._fetching = asyncio.Lock()

    async def verify(self, token: str) -> dict[str, Any]:
        """The claims of a token whose signature is valid."""
        if self._is_due(self._refresh_s if self._keys is not None else FAILED_S):
            await self._fetch(since=self._fetched_at)
        claims = await self._check(token)
        if claims is None and self._is_due(UNKNOWN_KEY_S):
            await self._fetch(since=self._fetched_at)
            claims = await self._check(token)
        if claims is None:
            raise SaslAuthenticationFailed("the token is not signed by a known key")
        return claims

    def _is_due(self, interval_s: float) -> bool:
        now = asyncio.get_running_loop().time()
        return self._fetched_at is None or now - self._fetched_at > interval_s

    async def _check(self, token: str) -> dict[str, Any] | None:
        keys = self._keys
        return None if keys is None else await self._computing.run(lambda: _claims(token, keys))

    async def _fetch(self, *, since: float | None) -> None:
        """Fetch the keys, unless somebody else has meanwhile."""
        async with self._fetching:
            if self._fetched_at != since:
                return
            self._fetched_at = asyncio.get_running_loop().time()
            try:
                self._keys = await self._fetches.run(self._read)
            except (OSError, ValueError) as error:
                log.error("cannot fetch the keys of tokens from %s: %s", self._url, error)

    def _read(self) -> Any:
        from joserfc.errors import JoseError  # noqa: PLC0415 - few need it, and it takes long to import
        from joserfc.jwk import KeySet  # noqa: PLC0415

        data = _fetched(self._url) if self._path is None else self._path.read_bytes()[: MAX_BYTES + 1]
        if len(data) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        try:
            return KeySet.import_key_set(json.loads(data))
        except (JoseError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it is no JWKS document: {error}") from None


def _file_of(url: str) -> Path | None:
    """The path of a file address; None for one of the network."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(parts.path)
    is_local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme != "https" and not is_local:
        raise InvalidConfig(
            f"sasl.oauthbearer.jwks.endpoint.url is {url!r}; it must be an https or file address, since whoever can "
            "change the keys can be anybody"
        )
    return None


def _fetched(url: str) -> bytes:
    """What is at an address of the network. A redirect is followed to the same server alone, and by the same scheme:
    who can send us elsewhere, or to where others can answer, could choose the keys.
    """
    import urllib.request  # noqa: PLC0415 - few need it, and it takes long to import

    class SameServer(urllib.request.HTTPRedirectHandler):
        def redirect_request(
            self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: "HTTPMessage", newurl: str
        ) -> urllib.request.Request | None:
            if _server_of(newurl) != _server_of(url):
                raise ValueError(f"it is redirected to another server, {newurl!r}; name the address of the keys itself")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    with urllib.request.build_opener(SameServer).open(url, timeout=FETCH_TIMEOUT_S) as answer:
        data: bytes = answer.read(MAX_BYTES + 1)
    return data


def _server_of(url: str) -> tuple[str, str | None, int | None]:
    """The scheme, the host and the port of an address."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _claims(token: str, keys: Any) -> dict[str, Any] | None:
    """The claims of a token; None if it is not signed by one of the keys."""
    from joserfc import jwt  # noqa: PLC0415
    from joserfc.errors import JoseError  # noqa: PLC0415

    try:
        return dict(jwt.decode(token, keys, algorithms=list(ALGORITHMS)).claims)
    except (JoseError, ValueError, KeyError, TypeError):
        return None
