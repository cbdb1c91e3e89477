"""SCRAM: two messages of the client, and hashing alone, so that a login takes microseconds."""

import base64

from barnabas.core.access.scram import Challenge, challenge, read_first, verify
from barnabas.core.errors import SaslAuthenticationFailed
from barnabas.runtime.dice import Dice
from barnabas.services.authentication.exchange import Reply
from barnabas.services.authentication.users import Users


class ScramExchange:
    """One login by SCRAM."""

    def __init__(self, mechanism: str, users: Users, dice: Dice) -> None:
        self._mechanism = mechanism
        self._users = users
        self._dice = dice
        self._user = ""
        self._is_there = False
        self._asked: Challenge | None = None

    async def take(self, message: bytes) -> Reply:
        """See `Exchange`."""
        if self._asked is None:
            first = read_first(message)
            self._user = first.user
            credential, self._is_there = self._users.credential(first.user, self._mechanism)
            nonce = base64.b64encode(self._dice.token_bytes(24)).decode()
            self._asked = challenge(first, credential, nonce=nonce)
            return Reply(self._asked.message)
        proof = verify(self._mechanism, self._asked, message)
        self._users.check_exists(self._user, is_there=self._is_there)
        if proof is None:
            raise SaslAuthenticationFailed(f"the proof of user {self._user!r} is not that of its password")
        return Reply(proof, self._users.identity(self._user))
