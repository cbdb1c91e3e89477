"""Passwords that wait to be checked: whoever tries many keeps nobody else out."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast

import pytest

from barnabas.core.access import scram
from barnabas.core.errors import SaslAuthenticationFailed
from barnabas.services.authentication.plain import MAX_CHECKS, MAX_WAITING, PasswordChecks
from barnabas.services.authentication.users import Users

T = TypeVar("T")
MECHANISM = "SCRAM-SHA-256"
RIGHT = scram.Credential(b"salt", b"stored", b"server", 4096)


class OneUser:
    """Everybody is ann, who may have another credential."""

    def __init__(self) -> None:
        self.credential = RIGHT
        self.is_there = True

    def any_credential(self, _: str) -> tuple[str, scram.Credential, bool]:
        return MECHANISM, self.credential, self.is_there

    def check_exists(self, user: str, *, is_there: bool) -> None:
        if not is_there:
            raise SaslAuthenticationFailed(f"user {user!r} does not exist")


class Gate:
    """Work that waits until it may be done; every password but "right" is wrong."""

    def __init__(self) -> None:
        self.begun = 0
        self._may_go_on = asyncio.Semaphore(0)

    def let(self, count: int) -> None:
        for _ in range(count):
            self._may_go_on.release()

    async def run(self, function: Callable[[], T]) -> T:
        self.begun += 1
        await self._may_go_on.acquire()
        return function()


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_password(_mechanism: str, _credential: scram.Credential, password: str) -> bool:
        return password == "right"

    monkeypatch.setattr("barnabas.services.authentication.plain.is_password", is_password)


def new_checks() -> tuple[PasswordChecks, OneUser, Gate]:
    users, gate = OneUser(), Gate()
    return PasswordChecks(cast("Users", users), gate, key=b"key"), users, gate


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_addresses_take_turns() -> None:
    async def scenario() -> None:
        checks, _, gate = new_checks()
        flood = [asyncio.ensure_future(checks.check("ann", f"try {n}", address="a")) for n in range(100)]
        await settle()
        assert gate.begun == MAX_CHECKS
        healthy = asyncio.ensure_future(checks.check("ann", "right", address="b"))
        await settle()
        gate.let(MAX_CHECKS + 2)  # those that had begun, one more of the flood at most, and this one
        await settle()
        assert healthy.done()
        await healthy
        gate.let(100)
        outcomes = await asyncio.gather(*flood, return_exceptions=True)
        assert all(isinstance(each, SaslAuthenticationFailed) for each in outcomes)

    asyncio.run(scenario())


def test_when_too_many_wait_those_are_refused_that_have_the_most() -> None:
    async def scenario() -> None:
        checks, _, gate = new_checks()
        count = MAX_CHECKS + MAX_WAITING
        flood = [asyncio.ensure_future(checks.check("ann", f"try {n}", address="a")) for n in range(count)]
        await settle()
        with pytest.raises(SaslAuthenticationFailed, match="too many"):
            await checks.check("ann", "one more", address="a")
        healthy = [asyncio.ensure_future(checks.check("ann", "right", address=f"b{n}")) for n in range(20)]
        await settle()
        assert sum(each.done() for each in flood) == 20
        gate.let(2 * count)
        await asyncio.gather(*healthy)
        await asyncio.gather(*flood, return_exceptions=True)

    asyncio.run(scenario())


def test_who_gives_up_leaves_its_turn_to_others() -> None:
    async def scenario() -> None:
        checks, _, gate = new_checks()
        first = [asyncio.ensure_future(checks.check("ann", "wrong", address="a")) for _ in range(MAX_CHECKS + 5)]
        await settle()
        for each in first:
            each.cancel()
        await settle()
        gate.let(1)
        await checks.check("ann", "right", address="b")

    asyncio.run(scenario())


def test_a_password_that_was_right_waits_for_nobody_until_the_credential_changes() -> None:
    async def scenario() -> None:
        checks, users, gate = new_checks()
        gate.let(1)
        await checks.check("ann", "right", address="a")
        flood = [asyncio.ensure_future(checks.check("ann", f"try {n}", address="a")) for n in range(300)]
        await settle()
        await checks.check("ann", "right", address="a")
        users.credential = RIGHT._replace(salt=b"other")
        with pytest.raises(SaslAuthenticationFailed, match="too many"):
            await checks.check("ann", "right", address="a")
        users.is_there = False
        gate.let(400)
        await asyncio.gather(*flood, return_exceptions=True)
        with pytest.raises(SaslAuthenticationFailed, match="does not exist"):
            await checks.check("ann", "right", address="a")

    asyncio.run(scenario())
