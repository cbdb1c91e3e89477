"""OAUTHBEARER: a signed token (JWT) that says who its bearer is, checked against the keys of its issuer.

A token that is not accepted is answered as RFC 7628 has it: the client is told so, confirms it, and is then refused.
"""

from barnabas.core.access.bearer import INVALID_TOKEN, TokenRules, check_claims, read_bearer
from barnabas.core.errors import SaslAuthenticationFailed
from barnabas.runtime.clock import Clock
from barnabas.runtime.token_keys import TokenKeys
from barnabas.services.authentication.exchange import Identity, Reply
from barnabas.services.session import Principal


class Tokens:
    """Checks tokens: their signatures, and what they say."""

    def __init__(self, keys: TokenKeys, rules: TokenRules, clock: Clock) -> None:
        self._keys = keys
        self._rules = rules
        self._clock = clock

    async def identify(self, token: str, *, as_user: str) -> Identity:
        """Whom a token names; `as_user` is empty, or the same."""
        claims = await self._keys.verify(token)
        bearer = check_claims(claims, self._rules, now_s=self._clock.now_ms() / 1000)
        if as_user not in ("", bearer.user):
            raise SaslAuthenticationFailed("a user can log in only as itself")
        return Identity(Principal("User", bearer.user), int(bearer.expires_at_s * 1000))


class BearerExchange:
    """One login by OAUTHBEARER."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._refusal: SaslAuthenticationFailed | None = None

    async def take(self, message: bytes) -> Reply:
        """See `Exchange`."""
        if self._refusal is not None:
            raise self._refusal
        login = read_bearer(message)
        try:
            identity = await self._tokens.identify(login.token, as_user=login.authorization)
        except SaslAuthenticationFailed as refusal:
            self._refusal = refusal
            return Reply(INVALID_TOKEN)
        return Reply(b"", identity)
