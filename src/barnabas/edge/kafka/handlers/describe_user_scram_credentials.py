"""DescribeUserScramCredentials, version 0: which users can log in by SCRAM, with how many iterations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, DuplicateResource, ResourceNotFound
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import DESCRIBE_USER_SCRAM_CREDENTIALS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import describe_user_scram_credentials as message


@serves(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0)
async def handle(
    broker: Broker, request: message.DescribeUserScramCredentialsRequest, asked: Asked
) -> message.DescribeUserScramCredentialsResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.DESCRIBE, CLUSTER)
    except BarnabasError as error:
        return {**refused(error), "results": []}
    found = _iterations(broker)
    named = Counter(each.name for each in request.users or ())
    users: Iterable[str] = named or sorted(found)
    return {**DONE, "results": [_described(user, found, named[user]) async for user in in_turns(users)]}


def _iterations(broker: Broker) -> dict[str, list[tuple[int, int]]]:
    """Mechanisms with their iterations, by user."""
    found: dict[str, list[tuple[int, int]]] = {}
    for (user, mechanism), credential in sorted(broker.image.credentials.items()):
        found.setdefault(user, []).append((mechanism, credential.iterations))
    return found


def _described(
    user: str, found: dict[str, list[tuple[int, int]]], named: int
) -> message.DescribeUserScramCredentialsResult:
    problem: BarnabasError | None = None
    if named > 1:
        problem = DuplicateResource(
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    elif user not in found:
        problem = ResourceNotFound(f"Attempt to describe a user credential that does not exist: {user}")
    if problem is not None:
        return {"user": user, **refused(problem), "credential_infos": []}
    infos: list[message.CredentialInfo] = [
        {"mechanism": mechanism, "iterations": iterations} for mechanism, iterations in found[user]
    ]
    return {"user": user, **DONE, "credential_infos": infos}
