"""Authorization: the one place that decides whether a client may do something, for every edge.

Handlers call it where Kafka would. There is no authorizer yet, so everything is allowed; a caller on a hot path checks
that first: `is_open`.
"""

from typing import Final, Protocol

from barnabas.core.access.resources import Operation, Resource, ResourceType, topic
from barnabas.core.errors import (
    BarnabasError,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from barnabas.services.session import Session

_REFUSALS: Final[dict[ResourceType, type[BarnabasError]]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}


class Authorizer(Protocol):
    """Holds the rules."""

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        """Whether the rules allow it."""
        ...

    def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        """Whether the rules allow it on some resource of this type."""
        ...


class Access:
    """Asks the authorizer, if there is one."""

    __slots__ = ("_authorizer", "is_open")

    def __init__(self) -> None:
        self.is_open = True  # whether everybody may do everything
        self._authorizer: Authorizer | None = None

    def use(self, authorizer: Authorizer) -> None:
        """Allow only what this authorizer allows."""
        self._authorizer = authorizer
        self.is_open = False

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        """Whether the client may do this."""
        return self._authorizer is None or self._authorizer.allows(session, operation, resource)

    def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        """Whether the client may do this to some resource of that type."""
        return self._authorizer is None or self._authorizer.allows_any(session, operation, kind)

    def allows_topic(self, session: Session, operation: Operation, name: str) -> bool:
        """The same for a topic."""
        return self.is_open or self.allows(session, operation, topic(name))

    def authorize_topic(self, session: Session, operation: Operation, name: str) -> None:
        """Raise if the client may not do this to a topic."""
        if not self.is_open:
            self.authorize(session, operation, topic(name))

    def authorize(self, session: Session, operation: Operation, resource: Resource) -> None:
        """Raise if the client may not do this."""
        if not self.allows(session, operation, resource):
            raise refusal_of(operation, resource)


def refusal_of(operation: Operation, resource: Resource) -> BarnabasError:
    """The refusal for a client that may not do this."""
    kind = resource.type.name.lower().replace("_", " ")
    words = operation.name.lower().replace("_", " ")
    return _REFUSALS[resource.type](f"not allowed: {words} on {kind} '{resource.name}'")
