"""CreateAcls, versions 1 to 3: create ACLs.

As Kafka does it: each is created or refused alone, and one that exists is created once more without a change. Differs
from Kafka: an ACL that is invalid is always refused alone, not with its request; so is one too many
(`authorizer.max.acls`, POLICY_VIOLATION), and one for a host that is no address. Without an authorizer:
SECURITY_DISABLED.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from barnabas.core.access.acls import Acl
from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, SecurityDisabled
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, NO_AUTHORIZER, answered_by, deadline_of, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import CREATE_ACLS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import create_acls as message


@serves(CREATE_ACLS, 1, 3, on=On.ALL, is_forwarded=True)
async def handle(broker: Broker, request: message.CreateAclsRequest, asked: Asked) -> message.CreateAclsResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.ALTER, CLUSTER)
        if broker.acls is None:
            raise SecurityDisabled(NO_AUTHORIZER)
        new = [_acl(each) async for each in in_turns(request.creations)]
        async with answered_by(deadline_of(broker, timedelta())):
            refusals = await broker.acls.create(new)
    except BarnabasError as error:
        return {"results": [{**refused(error)} async for _ in in_turns(request.creations)]}
    return {"results": [{**(DONE if each is None else refused(each))} async for each in in_turns(refusals)]}


def _acl(creation: message.AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )
