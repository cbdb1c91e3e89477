"""Who calls, and what a call is refused for."""

import asyncio
from typing import Any

import grpc
import pytest

from barnabas.edge.grpc.calls import Call, Calls
from barnabas.edge.grpc.statuses import Unauthenticated
from barnabas.services.authentication import Identity
from barnabas.services.call_quotas import CallQuotas
from barnabas.services.quotas import Quotas
from barnabas.services.session import ANONYMOUS, Principal
from barnabas.v1 import bus_pb2
from tests.support.ports import FixedClock, InPlace


class Aborted(Exception):
    pass


class Context:
    """What gRPC gives to a call, as far as it is used."""

    def __init__(self, metadata: tuple[tuple[str, str], ...] = (), peer: str = "ipv4:127.0.0.1:4711") -> None:
        self._metadata = metadata
        self._peer = peer
        self.aborted: tuple[Any, str] | None = None

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    def time_remaining(self) -> float | None:
        return None

    async def abort(self, code: Any, details: str, trailing_metadata: Any) -> None:
        self.aborted = (code, details)
        raise Aborted


class Passwords:
    """Knows alice."""

    async def authenticate(self, scheme: str, credentials: str, *, peer: tuple[str, int]) -> Identity:
        if (scheme, credentials) != ("bearer", "alices-token"):
            raise Unauthenticated("the token is not valid")
        assert peer == ("127.0.0.1", 4711)
        return Identity(Principal("User", "alice"))

    def still_counts(self, identity: Identity) -> bool:
        return identity.principal.name == "alice"


def ask(context: Context, **more: Any) -> Call | None:
    """The call that a method gets; None if it is refused before."""
    seen: list[Call] = []

    async def method(call: Call, _: bytes) -> Any:
        seen.append(call)
        return bus_pb2.GetResponse()

    calls = Calls(
        InPlace(),
        quotas=CallQuotas(Quotas()),
        **{"authenticator": None, "uses_certificates": False, "max_streams": 1, "clock": FixedClock(), **more},
    )
    try:
        asyncio.run(_run(calls.unary(method)(b"", context)))
    except Aborted:
        return None
    return seen[0]


async def _run(work: Any) -> None:
    await work


def test_a_caller_without_credentials_is_anonymous_where_nobody_checks() -> None:
    call = ask(Context())
    assert call is not None
    assert call.session.principal == ANONYMOUS
    assert call.session.peer == ("127.0.0.1", 4711)


def test_a_token_says_who_calls() -> None:
    call = ask(Context((("authorization", "Bearer alices-token"),)), authenticator=Passwords())
    assert call is not None
    assert str(call.session.principal) == "User:alice"


@pytest.mark.parametrize("authorization", ["Bearer another", "Bearer", "", "Basic alices-token"])
def test_any_other_is_refused(authorization: str) -> None:
    context = Context((("authorization", authorization),))
    assert ask(context, authenticator=Passwords()) is None
    assert context.aborted is not None
    assert context.aborted[0] is grpc.StatusCode.UNAUTHENTICATED


def test_nothing_at_all_is_refused_where_somebody_checks() -> None:
    context = Context()
    assert ask(context, authenticator=Passwords()) is None
    assert context.aborted is not None
    assert "authorization" in context.aborted[1]


def test_an_address_of_ip_version_6_is_understood() -> None:
    call = ask(Context(peer="ipv6:%5B::1%5D:4711"))
    assert call is not None
    assert call.session.peer == ("::1", 4711)
