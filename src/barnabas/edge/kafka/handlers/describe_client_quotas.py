"""DescribeClientQuotas, versions 0 and 1: the quotas of the entities that a filter matches.

Answered by the node that is asked, from what it has applied. As in Kafka a filter without components matches
everything, or nothing if it is strict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.quotas import Component, find_quotas
from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import DESCRIBE_CLIENT_QUOTAS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import describe_client_quotas as message


@serves(DESCRIBE_CLIENT_QUOTAS, 0, 1)
async def handle(
    broker: Broker, request: message.DescribeClientQuotasRequest, asked: Asked
) -> message.DescribeClientQuotasResponse:
    """See the module."""
    components = [Component(each.entity_type, each.match_type, each.match) for each in request.components]
    try:
        broker.access.authorize(asked.session, Operation.DESCRIBE_CONFIGS, CLUSTER)
        found = find_quotas(broker.image, components, is_strict=request.strict)
    except BarnabasError as error:
        return {"entries": None, **refused(error)}
    entries: list[message.EntryData] = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
            "values": [{"key": name, "value": limit} for name, limit in sorted(limits.items())],
        }
        async for entity, limits in in_turns(found)
    ]
    return {"entries": entries, **DONE}
