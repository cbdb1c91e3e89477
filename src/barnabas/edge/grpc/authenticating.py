"""Who calls: by ``authorization: Basic ...`` a user, by ``authorization: Bearer ...`` whom a token of OAuth names."""

from barnabas.core.access.plain import read_basic
from barnabas.core.errors import SaslAuthenticationFailed
from barnabas.edge.grpc.statuses import Unauthenticated
from barnabas.services.authentication import Callers, Identity


class CallerLogin:
    """See `calls.Authenticator`."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    async def authenticate(self, scheme: str, credentials: str, *, peer: tuple[str, int]) -> Identity:
        """See `calls.Authenticator`."""
        try:
            if scheme == "basic":
                user, password = read_basic(credentials)
                return await self._callers.by_password(user, password, peer=peer)
            if scheme == "bearer":
                return await self._callers.by_token(credentials, peer=peer)
        except SaslAuthenticationFailed as refusal:
            raise Unauthenticated(str(refusal)) from None
        raise Unauthenticated("the metadata 'authorization' begins with neither Basic nor Bearer")

    def still_counts(self, identity: Identity) -> bool:
        """See `calls.Authenticator`."""
        return self._callers.still_counts(identity)
