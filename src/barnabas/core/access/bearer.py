"""OAUTHBEARER (RFC 7628): a token in one message, and what must be in a token whose signature is valid.

Must not know: keys, nor how a signature is checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from barnabas.core.errors import SaslAuthenticationFailed

OAUTHBEARER: Final = "OAUTHBEARER"
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
"""What a client is told whose token is not accepted, before it confirms that it has heard it."""
CONFIRMED: Final = b"\x01"
MAX_TOKEN_CHARS: Final = 65536
_SEPARATOR: Final = "\x01"
_SCHEME: Final = "bearer "


class BearerLogin(NamedTuple):
    """A token, and as whom its bearer wants to act; empty: as whom the token names."""

    token: str
    authorization: str

    def __repr__(self) -> str:
        return "BearerLogin(...)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What tokens must say."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    required_scopes: tuple[str, ...] = ()
    scope_claim: str = "scope"
    subject_claim: str = "sub"
    clock_skew_s: int = 30


class Bearer(NamedTuple):
    """Whom a token names, and when it expires, in seconds since 1970."""

    user: str
    expires_at_s: float


def read_bearer(message: bytes) -> BearerLogin:
    """The token in a message; its extensions, which nobody here needs, are left out."""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed("the OAUTHBEARER message is not UTF-8") from None
    head, *pairs = text.split(_SEPARATOR)
    flag, _, rest = head.partition(",")
    authorization = rest.removesuffix(",").removeprefix("a=")
    if flag != "n" or not head.endswith(",") or pairs[-2:] != ["", ""]:
        raise SaslAuthenticationFailed("the OAUTHBEARER message is not valid")
    fields = dict(pair.partition("=")[::2] for pair in pairs[:-2])
    scheme_and_token = fields.get("auth", "")
    token = scheme_and_token[len(_SCHEME) :].strip()
    if not scheme_and_token.lower().startswith(_SCHEME) or not 0 < len(token) <= MAX_TOKEN_CHARS:
        raise SaslAuthenticationFailed("the OAUTHBEARER message has no token")
    return BearerLogin(token, authorization)


def check_claims(claims: Mapping[str, Any], rules: TokenRules, *, now_s: float) -> Bearer:
    """Whom a token with these claims names; refused if it is not for this cluster, or not valid now."""
    skew_s = rules.clock_skew_s
    expires_at_s, issued_at_s = _number(claims, "exp"), _number(claims, "iat")
    if now_s >= expires_at_s + skew_s:
        raise SaslAuthenticationFailed("the token has expired")
    if issued_at_s > now_s + skew_s or ("nbf" in claims and _number(claims, "nbf") > now_s + skew_s):
        raise SaslAuthenticationFailed("the token is not valid yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise SaslAuthenticationFailed("the token is of another issuer")
    if rules.audiences and not set(_texts(claims.get("aud"))) & set(rules.audiences):
        raise SaslAuthenticationFailed("the token is for another audience")
    if not set(rules.required_scopes) <= set(_scopes(claims.get(rules.scope_claim))):
        raise SaslAuthenticationFailed("the token lacks a required scope")
    user = claims.get(rules.subject_claim)
    if not isinstance(user, str) or not user.strip():
        raise SaslAuthenticationFailed("the token names nobody")
    return Bearer(user, expires_at_s)


def _number(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise SaslAuthenticationFailed(f"the token has no valid '{name}'")
    return value


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [each for each in value or () if isinstance(each, str)]


def _scopes(value: Any) -> list[str]:
    return value.split() if isinstance(value, str) else _texts(value)
