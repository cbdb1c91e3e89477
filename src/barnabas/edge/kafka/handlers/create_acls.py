"""CreateAcls, versions 1 to 3: create ACLs.

There is no authorizer, so it is refused with SECURITY_DISABLED, as in Kafka without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import SecurityDisabled
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import NO_AUTHORIZER, refused
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.access import refusal_of
from barnabas.services.broker import Broker
from barnabas.wire.apis import CREATE_ACLS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import create_acls as message


@serves(CREATE_ACLS, 1, 3)
async def handle(broker: Broker, request: message.CreateAclsRequest, asked: Asked) -> message.CreateAclsResponse:
    """See the module."""
    is_allowed = broker.access.allows(asked.session, Operation.ALTER, CLUSTER)
    error = SecurityDisabled(NO_AUTHORIZER) if is_allowed else refusal_of(Operation.ALTER, CLUSTER)
    return {
        "results": [{**refused(error)} async for _ in in_turns(request.creations)],
    }
