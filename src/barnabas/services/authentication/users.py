"""Users and their credentials: those in the metadata, and the nodes of the cluster, who share a secret.

A node must not need the metadata to be let in to read it: all nodes make the same credential from the cluster's secret.
The name of a node begins with what no user's can begin with.
"""

import hashlib
from typing import Final

from barnabas.core.access.cluster_secret import ClusterSecret
from barnabas.core.access.scram import DIGESTS, NUMBERS, Credential, stand_in
from barnabas.core.errors import SaslAuthenticationFailed
from barnabas.core.metadata.credentials import RESERVED_PREFIX
from barnabas.runtime.cluster_metadata import ImageSource
from barnabas.runtime.dice import Dice
from barnabas.services.authentication.exchange import Identity
from barnabas.services.session import Principal

NODE: Final = "Node"
"""The type of the principal of a node."""


class Users:
    """Finds credentials, also of users who do not exist: then they look real, and nobody can log in by them."""

    def __init__(self, metadata: ImageSource, dice: Dice, secret: ClusterSecret | None) -> None:
        self._metadata = metadata
        self._secret = secret
        # One that changes with each start would tell who does not exist: by a salt that changes.
        self._hiding = secret.password.encode() if secret is not None else None
        self._dice = dice

    def credential(self, user: str, mechanism: str) -> tuple[Credential, bool]:
        """The credential of a user, and whether there is one."""
        if user.startswith(RESERVED_PREFIX):
            if self._secret is not None and user.removeprefix(RESERVED_PREFIX).isdecimal():
                return self._secret.credential(mechanism), True
            return stand_in(mechanism, user, self._hiding_secret()), False
        found = self._metadata.image.credentials.get((user, NUMBERS[mechanism]))
        if found is None:
            return stand_in(mechanism, user, self._hiding_secret()), False
        return Credential(found.salt, found.stored_key, found.server_key, found.iterations), True

    def any_credential(self, user: str) -> tuple[str, Credential, bool]:
        """A credential of a user by any mechanism, the strongest first, and whether there is one."""
        for mechanism in reversed(DIGESTS):
            credential, is_there = self.credential(user, mechanism)
            if is_there:
                return mechanism, credential, True
        mechanism = next(iter(DIGESTS))
        return mechanism, self.credential(user, mechanism)[0], False

    def credentials_of(self, user: str) -> list[Credential]:
        """All credentials that a user has, in the order of the mechanisms."""
        found = (self.credential(user, mechanism) for mechanism in DIGESTS)
        return [credential for credential, is_there in found if is_there]

    def identity(self, user: str) -> Identity:
        """Who a user is that has logged in."""
        if user.startswith(RESERVED_PREFIX):
            return Identity(Principal(NODE, user.removeprefix(RESERVED_PREFIX)), is_node=True)
        return Identity(Principal("User", user))

    def check_exists(self, user: str, *, is_there: bool) -> None:
        """Refuse a user that does not exist, in the words for a wrong password."""
        if not is_there:
            raise SaslAuthenticationFailed(f"user {user!r} does not exist")

    def _hiding_secret(self) -> bytes:
        """What the salts of users come from who do not exist: it stays the same for as long as that is possible."""
        if self._hiding is None:
            cluster_id = self._metadata.image.cluster_id or ""
            keys = b"".join(each.server_key for _, each in sorted(self._metadata.image.credentials.items())[:1])
            # Known to nodes alone: nobody else sees a server key. Without any user there is nobody to tell apart.
            self._hiding = hashlib.sha256(cluster_id.encode() + keys).digest() if keys else None
            if self._hiding is None:
                return self._dice.token_bytes(32)
        return self._hiding
