"""AlterUserScramCredentials, version 0: set and remove the credentials by which users log in.

The password itself does not travel: the client sends it salted. What is stored is made of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.access.scram import NUMBERS, credential_of
from barnabas.core.errors import BarnabasError
from barnabas.core.metadata.credentials import Removal, alter_credentials
from barnabas.core.metadata.records import ScramCredentialRecord
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.registry import serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import ALTER_USER_SCRAM_CREDENTIALS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import alter_user_scram_credentials as message

_NAMES: Final = {number: name for name, number in NUMBERS.items()}


@serves(ALTER_USER_SCRAM_CREDENTIALS, 0, 0, is_forwarded=True)
async def handle(
    broker: Broker, request: message.AlterUserScramCredentialsRequest, asked: Asked
) -> message.AlterUserScramCredentialsResponse:
    """See the module."""
    removals = [Removal(each.name, each.mechanism) for each in request.deletions]
    users = dict.fromkeys([each.name for each in (*request.deletions, *request.upsertions)])
    try:
        broker.access.authorize(asked.session, Operation.ALTER, CLUSTER)
        additions = [_record(each) for each in request.upsertions]
        outcomes = await broker.metadata.commit(lambda image: alter_credentials(image, removals, additions))
    except BarnabasError as error:
        outcomes = dict.fromkeys(users, error)
    return {
        "results": [
            {"user": user, **(DONE if problem is None else refused(problem))} for user, problem in outcomes.items()
        ]
    }


def _record(addition: message.ScramCredentialUpsertion) -> ScramCredentialRecord:
    """What is stored of a salted password; of one of an unknown mechanism nothing, and it is refused."""
    name = _NAMES.get(addition.mechanism)
    if name is None or not addition.salted_password:
        stored_key = server_key = b""
    else:
        made = credential_of(name, addition.salted_password, salt=addition.salt, iterations=addition.iterations)
        stored_key, server_key = made.stored_key, made.server_key
    return ScramCredentialRecord(
        addition.name, addition.mechanism, addition.salt, stored_key, server_key, addition.iterations
    )
