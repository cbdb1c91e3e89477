"""AlterClientQuotas, versions 0 and 1: set and remove quotas, of each entity all or none.

As in Kafka the removal of a quota that an entity does not have is done already. Differs from Kafka: see
`core.access.quotas`; and a request for more than `MAX_ENTITIES` is refused, as it would be one decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.quotas import Alteration, alter_quotas
from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import ALTER_CLIENT_QUOTAS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import alter_client_quotas as message

MAX_ENTITIES: Final = 1000


@serves(ALTER_CLIENT_QUOTAS, 0, 1, on=On.ALL, is_forwarded=True)
async def handle(
    broker: Broker, request: message.AlterClientQuotasRequest, asked: Asked
) -> message.AlterClientQuotasResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.ALTER_CONFIGS, CLUSTER)
        if sum(1 + len(entry.ops) for entry in request.entries) > MAX_ENTITIES:
            raise InvalidRequest(f"a request has at most {MAX_ENTITIES} entities and quotas; use several")
        alterations = [_alteration(entry) for entry in request.entries]
        if request.validate_only:
            outcomes = alter_quotas(broker.image, alterations).reply
        else:
            outcomes = await broker.metadata.commit(lambda image: alter_quotas(image, alterations))
    except BarnabasError as error:
        outcomes = [error] * len(request.entries)
    answers: list[message.EntryDataAnswer] = [
        {
            "entity": [{"entity_type": each.entity_type, "entity_name": each.entity_name} for each in entry.entity],
            **(DONE if outcome is None else refused(outcome)),
        }
        async for entry, outcome in in_turns(list(zip(request.entries, outcomes, strict=True)))
    ]
    return {"entries": answers}


def _alteration(entry: message.EntryData) -> Alteration:
    return Alteration(
        [(each.entity_type, each.entity_name) for each in entry.entity],
        [(op.key, None if op.remove else op.value) for op in entry.ops],
    )
