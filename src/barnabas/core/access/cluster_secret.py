"""The secret that all nodes of a cluster share, and the password made of it, by which they log in to each other.

A node must not need the metadata to be let in to read it: so both sides make the same credential from this.
"""

import hashlib
import hmac
from typing import Final

from barnabas.core.access.scram import DEFAULT_ITERATIONS, Credential, credential_of, salted_password
from barnabas.core.errors import InvalidConfig

MIN_SECRET_CHARS: Final = 32
_LABEL: Final = b"barnabas nodes"


class ClusterSecret:
    """What all nodes of a cluster know, and nobody else; the text is never kept nor shown."""

    def __init__(self, text: str) -> None:
        text = text.strip()
        if len(text) < MIN_SECRET_CHARS:
            raise InvalidConfig(
                f"the cluster's secret has {len(text)} characters; it must have at least {MIN_SECRET_CHARS}: make one "
                "with openssl rand -hex 32"
            )
        self._key = hashlib.sha256(text.encode()).digest()
        self.password = hmac.digest(self._key, _LABEL + b" password", "sha256").hex()
        self._credentials: dict[str, Credential] = {}
        self._salted: dict[str, bytes] = {}

    def salt(self, mechanism: str) -> bytes:
        """The salt of all nodes."""
        return hmac.digest(self._key, _LABEL + b" salt " + mechanism.encode(), "sha256")[:16]

    def salted(self, mechanism: str) -> bytes:
        """The salted password, by which a node logs in; made once."""
        if mechanism not in self._salted:
            self._salted[mechanism] = salted_password(
                mechanism, self.password, self.salt(mechanism), DEFAULT_ITERATIONS
            )
        return self._salted[mechanism]

    def credential(self, mechanism: str) -> Credential:
        """The credential of all nodes; made once."""
        if mechanism not in self._credentials:
            self._credentials[mechanism] = credential_of(
                mechanism, self.salted(mechanism), salt=self.salt(mechanism), iterations=DEFAULT_ITERATIONS
            )
        return self._credentials[mechanism]
