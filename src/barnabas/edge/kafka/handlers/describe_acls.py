"""DescribeAcls, versions 1 to 3: list ACLs.

There is no authorizer, so it is refused with SECURITY_DISABLED, as in Kafka without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, SecurityDisabled
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import NO_AUTHORIZER, refused
from barnabas.edge.kafka.registry import serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import DESCRIBE_ACLS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import describe_acls as message


@serves(DESCRIBE_ACLS, 1, 3)
async def handle(broker: Broker, _request: message.DescribeAclsRequest, asked: Asked) -> message.DescribeAclsResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.DESCRIBE, CLUSTER)
    except BarnabasError as error:
        return {"resources": (), **refused(error)}
    return {"resources": (), **refused(SecurityDisabled(NO_AUTHORIZER))}
