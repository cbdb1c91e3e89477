"""DescribeAcls, versions 1 to 3: the ACLs that a filter selects, by resource.

As Kafka does it. Differs from Kafka: a filter with an unknown number is INVALID_REQUEST, where Kafka closes the
connection or finds nothing. Without an authorizer: SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.acls import AclFilter
from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, SecurityDisabled
from barnabas.core.metadata.records import AclRecord
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, NO_AUTHORIZER, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import DESCRIBE_ACLS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import delete_acls
    from barnabas.edge.kafka.messages import describe_acls as message


@serves(DESCRIBE_ACLS, 1, 3, on=On.ALL)
async def handle(broker: Broker, request: message.DescribeAclsRequest, asked: Asked) -> message.DescribeAclsResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.DESCRIBE, CLUSTER)
        if broker.acls is None:
            raise SecurityDisabled(NO_AUTHORIZER)
        found = await broker.acls.find(filter_of(request))
    except BarnabasError as error:
        return {"resources": (), **refused(error)}
    by_pattern: dict[tuple[int, str, int], list[message.AclDescription]] = {}
    async for acl in in_turns(found):
        by_pattern.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(_entry(acl))
    resources: list[message.DescribeAclsResource] = [
        {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": acls}
        async for (kind, name, pattern), acls in in_turns(by_pattern.items())
    ]
    return {"resources": resources, **DONE}


def filter_of(request: message.DescribeAclsRequest | delete_acls.DeleteAclsFilter) -> AclFilter:
    """The filter of a request."""
    return AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )


def _entry(acl: AclRecord) -> message.AclDescription:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
