"""Tokens for those who have logged in: who it is and until when, signed by this node.

Checking a password takes milliseconds of the processor, which every request would pay; a token is checked in
microseconds. It is valid on the node that gave it, until its time is over, the user is deleted or its password changed,
or the node starts again. How a log-in is
checked is `Login`'s business: what the Kafka port knows.
"""

import base64
import hashlib
import hmac
from typing import Final, Protocol

import msgspec

from barnabas.core.errors import BarnabasError
from barnabas.runtime.clock import Clock
from barnabas.services.authentication import Identity
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
    """Checks who somebody is: see `services.authentication.callers`."""

    async def by_password(self, user: str, password: str, *, peer: tuple[str, int]) -> Identity:
        """The user whose password this is; refused with the code of `NotAuthenticated`."""
        ...

    async def by_token(self, token: str, *, peer: tuple[str, int]) -> Identity:
        """Whom a token of OAuth names; refused with the code of `NotAuthenticated`."""
        ...

    def still_counts(self, identity: Identity) -> bool:
        """Whether somebody who has logged in would be let in again by the same."""
        ...


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    name: str
    until_ms: int
    stamp: str


class Tokens:
    """Gives tokens, and checks them."""

    def __init__(self, secret: bytes, clock: Clock, *, lifetime_ms: int) -> None:
        self._secret = secret
        self._clock = clock
        self._lifetime_ms = lifetime_ms

    def give(self, identity: Identity) -> tuple[str, int]:
        """A token, and until when it is valid, in milliseconds: not longer than what the log-in was by."""
        until_ms = self._clock.now_ms() + self._lifetime_ms
        if identity.expires_at_ms is not None:
            until_ms = min(until_ms, identity.expires_at_ms)
        principal = identity.principal
        claims = msgspec.json.encode(_Claims(principal.kind, principal.name, until_ms, _text(identity.stamp)))
        return f"{_text(claims)}.{_text(self._sign(claims))}", until_ms

    def check(self, token: str) -> Identity:
        """Whose token it is, and until when; refused if it is not ours, or too old."""
        try:
            if len(token) > MAX_TOKEN:
                raise ValueError
            body, _, signature = token.partition(".")
            claims = _bytes(body)
            if not hmac.compare_digest(self._sign(claims), _bytes(signature)):
                raise ValueError
            found = msgspec.json.decode(claims, type=_Claims)
            identity = Identity(Principal(found.kind, found.name), found.until_ms, stamp=_bytes(found.stamp))
        except (ValueError, msgspec.MsgspecError):
            raise NotAuthenticated("the token is not one of this node; log in again") from None
        self.check_time(identity)
        return identity

    def check_time(self, identity: Identity) -> None:
        """Refuse a token whose time is over."""
        if identity.expires_at_ms is not None and identity.expires_at_ms < self._clock.now_ms():
            raise NotAuthenticated("the token is too old; log in again")

    def _sign(self, data: bytes) -> bytes:
        return hmac.digest(self._secret, data, hashlib.sha256)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
