"""Who may read `/metrics`, where that is not for everybody: what Prometheus calls basic_auth and authorization.

Names of topics and groups are in it. So a user of the cluster needs Describe on it, as for the API's `/cluster`; the
token of `metrics.token.file` is for the metrics alone, and needs nothing else.
"""

import hmac
from typing import Final

from barnabas.core.access.plain import read_basic
from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, SaslAuthenticationFailed
from barnabas.edge.http.plain import JSON, PlainAnswer, PlainRequest
from barnabas.edge.http.tokens import Login, NotAuthenticated, Tokens
from barnabas.services.access import Access
from barnabas.services.authentication import Identity
from barnabas.services.session import Session

LISTENER: Final = "HTTP"
CHALLENGE: Final = 'Basic realm="barnabas"'
_UNKNOWN: Final = PlainAnswer(
    401,
    JSON,
    b'{"message":"log in: with a user and a password (basic_auth), or a token (authorization: Bearer)"}',
    CHALLENGE,
)
_READABLE: Final = PlainAnswer(
    403,
    JSON,
    b'{"message":"without TLS users log in from this machine alone, since others could read the password: set '
    b'http.tls.certificate.file and http.tls.key.file, or use metrics.token.file"}',
)
_DENIED: Final = PlainAnswer(403, JSON, b'{"message":"not allowed: describe on cluster"}')


class MetricsAccess:
    """Lets those in who may."""

    def __init__(
        self, access: Access, *, token: str | None, login: Login | None, tokens: Tokens, is_private: bool
    ) -> None:
        """`token` is that of the file, `login` None where users have no passwords or tokens; not `is_private`: others
        could read what is sent.
        """
        self._access = access
        self._token = None if token is None else token.encode()
        self._login = login
        self._tokens = tokens
        self._is_private = is_private

    async def refuse(self, asked: PlainRequest) -> PlainAnswer | None:
        """What somebody hears who may not; None for who may."""
        scheme, _, credentials = asked.authorization.partition(" ")
        scheme, credentials = scheme.lower(), credentials.strip()
        if scheme == "bearer" and self._is_token(credentials):
            return None
        if scheme not in ("basic", "bearer") or not credentials or self._login is None:
            return _UNKNOWN
        if not self._is_private:
            return _READABLE
        try:
            identity = await self._identify(self._login, scheme, credentials, asked.peer)
        except BarnabasError:
            return _UNKNOWN
        session = Session(listener=LISTENER, peer=asked.peer, local=("", 0))
        session.principal, session.request = identity.principal, "metrics"
        return None if self._access.allows(session, Operation.DESCRIBE, CLUSTER) else _DENIED

    def _is_token(self, text: str) -> bool:
        return self._token is not None and hmac.compare_digest(text.encode(), self._token)

    async def _identify(self, login: Login, scheme: str, credentials: str, peer: tuple[str, int]) -> Identity:
        if scheme == "basic":
            user, password = read_basic(credentials)
            return await login.by_password(user, password, peer=peer)
        try:
            identity = self._tokens.check(credentials)  # one of the API
        except NotAuthenticated:
            return await login.by_token(credentials, peer=peer)
        if not login.still_counts(identity):
            raise SaslAuthenticationFailed("the login that the token was given for has ended")
        return identity
