"""DeleteAcls, versions 1 to 3: delete the ACLs that filters select.

As Kafka does it: the answer has what each filter has deleted, or why it was refused. Without an authorizer:
SECURITY_DISABLED.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, SecurityDisabled
from barnabas.core.metadata.records import AclRecord
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.describe_acls import filter_of
from barnabas.edge.kafka.handlers.outcome import DONE, NO_AUTHORIZER, answered_by, deadline_of, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.turns import in_turns
from barnabas.services.acls import Deleted
from barnabas.services.broker import Broker
from barnabas.wire.apis import DELETE_ACLS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import delete_acls as message


@serves(DELETE_ACLS, 1, 3, on=On.ALL, is_forwarded=True)
async def handle(broker: Broker, request: message.DeleteAclsRequest, asked: Asked) -> message.DeleteAclsResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.ALTER, CLUSTER)
        if broker.acls is None:
            raise SecurityDisabled(NO_AUTHORIZER)
        filters = [filter_of(each) async for each in in_turns(request.filters)]
        async with answered_by(deadline_of(broker, timedelta())):
            deleted = await broker.acls.delete(filters)
    except BarnabasError as error:
        return {"filter_results": [{"matching_acls": (), **refused(error)} async for _ in in_turns(request.filters)]}
    return {"filter_results": [await _result(each) async for each in in_turns(deleted)]}


async def _result(deleted: Deleted) -> message.DeleteAclsFilterResult:
    if isinstance(deleted, BarnabasError):
        return {"matching_acls": (), **refused(deleted)}
    return {"matching_acls": [_acl(each) async for each in in_turns(deleted)], **DONE}


def _acl(acl: AclRecord) -> message.DeleteAclsMatchingAcl:
    return {
        **DONE,
        "resource_type": acl.resource_type,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
