"""Callers of the other edges, HTTP and gRPC: known by what clients of the Kafka port log in with.

They give a password or a token in one piece. A password is checked as with PLAIN, which remembers what was right: every
call of gRPC has it.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable

from barnabas.core.access.plain import PlainLogin, check_plain
from barnabas.core.errors import SaslAuthenticationFailed
from barnabas.core.metadata.credentials import RESERVED_PREFIX
from barnabas.services.authentication.bearer import Tokens
from barnabas.services.authentication.exchange import Identity
from barnabas.services.authentication.plain import PasswordChecks
from barnabas.services.authentication.users import Users

Refuse = Callable[[SaslAuthenticationFailed, tuple[str, int]], Awaitable[SaslAuthenticationFailed]]
"""Says here why a caller is refused, waits, and has what the caller is told."""


class Callers:
    """Who calls. Where a node has them, nobody calls without."""

    def __init__(
        self, users: Users, checks: PasswordChecks | None, tokens: Tokens | None, refuse: Refuse, *, key: bytes
    ) -> None:
        """`checks` and `tokens` are None where no listener for clients accepts passwords, or tokens."""
        self._users = users
        self._checks = checks
        self._tokens = tokens
        self._refuse = refuse
        self._key = key

    async def by_password(self, user: str, password: str, *, peer: tuple[str, int]) -> Identity:
        """The user whose password this is."""
        try:
            login = check_plain("", user, password)
            if user.startswith(RESERVED_PREFIX):
                raise SaslAuthenticationFailed("nodes log in over the Kafka protocol alone")
            stamp = self._stamp_of(user)  # of now: what is changed while the password is checked ends the login
            await self._check(login, peer[0])
        except SaslAuthenticationFailed as refusal:
            raise await self._refuse(refusal, peer) from None
        return self._users.identity(user)._replace(stamp=stamp)

    def still_counts(self, identity: Identity) -> bool:
        """Whether somebody who has logged in would be let in again by the same: not a user that was deleted since, or
        whose password was changed.
        """
        return not identity.stamp or hmac.compare_digest(identity.stamp, self._stamp_of(identity.principal.name))

    def _stamp_of(self, user: str) -> bytes:
        """Changes with any credential of a user. By a key of this node's own: it is a part of tokens, and nobody shall
        be able to try passwords on it.
        """
        parts = [f"stamp\0{user}".encode()]
        parts += (key for each in self._users.credentials_of(user) for key in (each.salt, each.stored_key))
        return hmac.digest(self._key, b"\0".join(parts), hashlib.sha256)

    async def by_token(self, token: str, *, peer: tuple[str, int]) -> Identity:
        """Whom a token of OAuth names."""
        try:
            if self._tokens is None:
                raise SaslAuthenticationFailed("no listener for clients accepts OAUTHBEARER")
            return await self._tokens.identify(token, as_user="")
        except SaslAuthenticationFailed as refusal:
            raise await self._refuse(refusal, peer) from None

    async def _check(self, login: PlainLogin, address: str) -> None:
        if self._checks is None:
            raise SaslAuthenticationFailed("no listener for clients accepts passwords")
        await self._checks.check(login.user, login.password, address=address)
