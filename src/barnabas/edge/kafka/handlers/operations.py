"""The authorized operations in answers: a bit for each operation on a resource that the client may perform."""

from typing import Final

from barnabas.core.access.resources import CLUSTER, OPERATIONS, Operation, Resource
from barnabas.services.access import Access
from barnabas.services.session import Session

NOT_ASKED: Final = -(2**31)
"""In place of the bits, if they were not requested or the client may not even see the resource."""

NOTHING: Final = 0

_ALL: Final = {kind: sum(1 << each for each in operations) for kind, operations in OPERATIONS.items()}


def allowed_on(access: Access, session: Session, resource: Resource, *, is_asked: bool = True) -> int:
    """The bits for a resource that the client may see, if requested."""
    if not is_asked:
        return NOT_ASKED
    if access.is_open:
        return _ALL[resource.type]
    allowed = (each for each in OPERATIONS[resource.type] if access.permits(session, each, resource))
    return sum(1 << each for each in allowed)


def allowed_on_cluster(access: Access, session: Session, *, is_asked: bool) -> int:
    """The same for the cluster; no bits if the client may not describe it."""
    if is_asked and not access.permits(session, Operation.DESCRIBE, CLUSTER):
        return NOTHING
    return allowed_on(access, session, CLUSTER, is_asked=is_asked)
