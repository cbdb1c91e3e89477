"""PLAIN (RFC 4616): a user and a password in one message."""

import base64
import binascii
from typing import Final, NamedTuple

from barnabas.core.access.scram import MAX_NAME_CHARS
from barnabas.core.errors import SaslAuthenticationFailed

PLAIN: Final = "PLAIN"
MAX_PASSWORD_CHARS: Final = 4096


class PlainLogin(NamedTuple):
    """Who logs in, and with which password."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"PlainLogin({self.user!r}, ...)"


def read_plain(message: bytes) -> PlainLogin:
    """The login in a message."""
    try:
        parts = message.decode().split("\0")
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed("the PLAIN message is not UTF-8") from None
    if len(parts) != 3:
        raise SaslAuthenticationFailed("the PLAIN message must have three parts")
    return check_plain(*parts)


def check_plain(authorization: str, user: str, password: str) -> PlainLogin:
    """The login of a user who wants to act as `authorization`; empty: as itself."""
    if not user or not password or len(user) > MAX_NAME_CHARS or len(password) > MAX_PASSWORD_CHARS:
        raise SaslAuthenticationFailed("there is no user or no password, or they are too long")
    if authorization not in ("", user):
        raise SaslAuthenticationFailed("a user can log in only as itself")
    return PlainLogin(user, password)


def read_basic(credentials: str) -> tuple[str, str]:
    """The user and the password in what HTTP and gRPC have after ``Basic`` (RFC 7617)."""
    try:
        user, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        raise SaslAuthenticationFailed("'authorization: Basic' needs user:password in base64")
    return user, password
