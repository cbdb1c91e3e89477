"""PLAIN: a password in one message, checked against the same credentials as SCRAM.

That takes milliseconds of a processor for each try, so it is done on a thread, few at a time, and only so many wait.
"""

import asyncio
from typing import Final

from barnabas.core.access.plain import read_plain
from barnabas.core.access.scram import is_password
from barnabas.core.errors import SaslAuthenticationFailed
from barnabas.runtime.offload import Offload
from barnabas.services.authentication.exchange import Reply
from barnabas.services.authentication.users import Users

MAX_CHECKS: Final = 2
MAX_WAITING: Final = 256


class PasswordChecks:
    """Checks passwords away from the loop: `MAX_CHECKS` at a time, and at most `MAX_WAITING` wait."""

    def __init__(self, users: Users, offload: Offload) -> None:
        self._users = users
        self._offload = offload
        self._turns = asyncio.Semaphore(MAX_CHECKS)
        self._waiting = 0

    async def check(self, user: str, password: str) -> None:
        """Refuse a password that is not the user's; the same time for a user who does not exist."""
        if self._waiting >= MAX_WAITING:
            raise SaslAuthenticationFailed("too many passwords wait to be checked")
        self._waiting += 1
        try:
            async with self._turns:
                mechanism, credential, is_there = self._users.any_credential(user)
                is_right = await self._offload.run(lambda: is_password(mechanism, credential, password))
        finally:
            self._waiting -= 1
        self._users.check_exists(user, is_there=is_there)
        if not is_right:
            raise SaslAuthenticationFailed(f"the password of user {user!r} is another")


class PlainExchange:
    """One login by PLAIN."""

    def __init__(self, users: Users, checks: PasswordChecks) -> None:
        self._users = users
        self._checks = checks

    async def take(self, message: bytes) -> Reply:
        """See `Exchange`."""
        login = read_plain(message)
        await self._checks.check(login.user, login.password)
        return Reply(b"", self._users.identity(login.user))
