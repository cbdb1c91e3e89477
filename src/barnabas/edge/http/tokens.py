"""Tokens for those who have logged in: who it is and until when, signed by this node.

Checking a password takes milliseconds of the processor, which every request would pay; a token is checked in
microseconds. It is valid on the node that gave it, until its time is over or the node starts again. How a log-in is
checked is `Login`'s business: what the Kafka port knows.
"""

import base64
import hashlib
import hmac
from typing import Final, Protocol

import msgspec

from barnabas.core.errors import BarnabasError
from barnabas.runtime.clock import Clock
from barnabas.services.session import Principal

SECRET_BYTES: Final = 32
MAX_TOKEN: Final = 4096


class NotAuthenticated(BarnabasError):
    """Nobody knows who is asking."""

    kafka_code = 58


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody logs in with: a user and a password, or a token of OAuth."""

    username: str | None = None
    password: str | None = None
    oauth_token: str | None = None


class Login(Protocol):
    """Checks who somebody is."""

    async def check(self, credentials: Credentials) -> Principal:
        """The principal; `NotAuthenticated` if it is not who it says."""
        ...


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    name: str
    until_ms: int


class Tokens:
    """Gives tokens, and checks them."""

    def __init__(self, secret: bytes, clock: Clock, *, lifetime_ms: int) -> None:
        self._secret = secret
        self._clock = clock
        self._lifetime_ms = lifetime_ms

    def give(self, principal: Principal) -> tuple[str, int]:
        """A token, and until when it is valid, in milliseconds."""
        until_ms = self._clock.now_ms() + self._lifetime_ms
        claims = msgspec.json.encode(_Claims(principal.kind, principal.name, until_ms))
        return f"{_text(claims)}.{_text(self._sign(claims))}", until_ms

    def check(self, token: str) -> Principal:
        """Whose token it is; refused if it is not ours, or too old."""
        try:
            if len(token) > MAX_TOKEN:
                raise ValueError
            body, _, signature = token.partition(".")
            claims = _bytes(body)
            if not hmac.compare_digest(self._sign(claims), _bytes(signature)):
                raise ValueError
            found = msgspec.json.decode(claims, type=_Claims)
        except (ValueError, msgspec.MsgspecError):
            raise NotAuthenticated("the token is not one of this node; log in again") from None
        if found.until_ms < self._clock.now_ms():
            raise NotAuthenticated("the token is too old; log in again")
        return Principal(found.kind, found.name)

    def _sign(self, data: bytes) -> bytes:
        return hmac.digest(self._secret, data, hashlib.sha256)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
