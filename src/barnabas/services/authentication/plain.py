"""PLAIN: a password in one message, checked against the same credentials as SCRAM.

That takes milliseconds of a processor for each try, so it is done on a thread, few at a time, and only so many wait:
addresses take turns, and when too many wait, one of the address that has the most is refused. So nobody who tries
passwords keeps those of other addresses waiting, or out. A password that was right is remembered for a while, as long
as the user's credential stays the same: whoever has logged in before need not wait at all.
"""

import asyncio
import hashlib
import hmac
from collections import OrderedDict, deque
from typing import Final

from barnabas.core.access.plain import read_plain
from barnabas.core.access.scram import Credential, is_password
from barnabas.core.errors import SaslAuthenticationFailed
from barnabas.runtime.offload import Offload
from barnabas.services.authentication.exchange import Reply
from barnabas.services.authentication.users import Users

MAX_CHECKS: Final = 2
MAX_WAITING: Final = 256
MAX_KNOWN: Final = 1000
"""The most passwords that are remembered to be right: as keyed digests, in memory alone."""
_TOO_MANY: Final = "too many passwords wait to be checked"


class PasswordChecks:
    """Checks passwords away from the loop: `MAX_CHECKS` at a time, and at most `MAX_WAITING` wait."""

    def __init__(self, users: Users, offload: Offload, *, key: bytes) -> None:
        """`key` is for the digests of what is remembered."""
        self._users = users
        self._offload = offload
        self._key = key
        self._known: OrderedDict[bytes, Credential] = OrderedDict()
        self._turns = _Turns()

    async def check(self, user: str, password: str, *, address: str) -> None:
        """Refuse a password that is not the user's; the same time for a user who does not exist."""
        digest = hmac.digest(self._key, f"{user}\0{password}".encode(), hashlib.sha256)
        _, credential, is_there = self._users.any_credential(user)
        if is_there and self._known.get(digest) == credential:
            self._known.move_to_end(digest)
            return
        await self._turns.wait_turn(address)
        try:
            mechanism, credential, is_there = self._users.any_credential(user)
            is_right = await self._offload.run(lambda: is_password(mechanism, credential, password))
        finally:
            self._turns.end()
        self._users.check_exists(user, is_there=is_there)
        if not is_right:
            raise SaslAuthenticationFailed(f"the password of user {user!r} is another")
        self._known[digest] = credential
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)


class _Turns:
    """Who is next: one address after the other, and of each who came first."""

    def __init__(self) -> None:
        self._running = 0
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._count = 0

    async def wait_turn(self, address: str) -> None:
        """Return when it is this one's turn, which it has to `end`; refused if too many wait."""
        if self._running < MAX_CHECKS:
            self._running += 1
            return
        if self._count >= MAX_WAITING:
            self._refuse_one(address)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        self._count += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._remove(address, turn)
            elif turn.exception() is None:
                self.end()  # it had become its turn
            raise

    def end(self) -> None:
        """Let the next have its turn."""
        self._running -= 1
        while self._waiting:
            address = next(iter(self._waiting))
            self._waiting.move_to_end(address)
            turn = self._waiting[address][0]
            self._remove(address, turn)
            if not turn.done():  # nor has given up in this moment
                self._running += 1
                turn.set_result(None)
                return

    def _refuse_one(self, address: str) -> None:
        """Make room: refuse the newest of the address that has the most, which may be this one."""
        busiest = max(self._waiting, key=lambda each: len(self._waiting[each]))
        if len(self._waiting.get(address, ())) >= len(self._waiting[busiest]):
            raise SaslAuthenticationFailed(_TOO_MANY)
        turn = self._waiting[busiest][-1]
        self._remove(busiest, turn)
        if not turn.done():
            turn.set_exception(SaslAuthenticationFailed(_TOO_MANY))

    def _remove(self, address: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(address)
        if queue is None or turn not in queue:
            return  # somebody has taken it out already
        queue.remove(turn)
        self._count -= 1
        if not queue:
            del self._waiting[address]


class PlainExchange:
    """One login by PLAIN."""

    def __init__(self, users: Users, checks: PasswordChecks, *, address: str) -> None:
        self._users = users
        self._checks = checks
        self._address = address

    async def take(self, message: bytes) -> Reply:
        """See `Exchange`."""
        login = read_plain(message)
        await self._checks.check(login.user, login.password, address=self._address)
        return Reply(b"", self._users.identity(login.user))
