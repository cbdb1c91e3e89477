"""Authorization: the one place that decides whether a client may do something, for every edge.

Handlers call it where Kafka would. Without an authorizer everything is allowed; a caller on a hot path checks that
first: `is_open`.

A client that names what it may not use is refused, and that is in the audit log (`authorize`, `allows`). What it did
not name is left out of answers without a word (`allows_unnamed`); so is a first permission where another would do. What
it is merely told of its permissions is no request to use them (`permits`).
"""

from typing import Final, Protocol

from barnabas.core.access.resources import Operation, Resource, ResourceType, topic
from barnabas.core.errors import (
    BarnabasError,
    ClusterAuthorizationFailed,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from barnabas.runtime.metrics import Metrics
from barnabas.services.audit import Audit
from barnabas.services.session import Session

_REFUSALS: Final[dict[ResourceType, type[BarnabasError]]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
    ResourceType.DELEGATION_TOKEN: DelegationTokenAuthorizationFailed,
    ResourceType.USER: DelegationTokenAuthorizationFailed,
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

    __slots__ = ("_authorizer", "audit", "denied", "is_open")

    def __init__(self) -> None:
        self.is_open = True  # whether everybody may do everything
        self.audit: Audit | None = None
        """Is told of decisions; None: nobody wants to know. Without an authorizer there are none."""
        self.denied = 0
        """How often a client asked for something by name that it may not do."""
        self._authorizer: Authorizer | None = None

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.counter(
            "authorizations_denied_total", "Requests, or parts of them, that were not authorized.", lambda: self.denied
        )

    def use(self, authorizer: Authorizer) -> None:
        """Allow only what this authorizer allows."""
        self._authorizer = authorizer
        self.is_open = False

    def permits(self, session: Session, operation: Operation, resource: Resource) -> bool:
        """Whether the client could do this, which it does not ask for now."""
        return self._authorizer is None or self._authorizer.allows(session, operation, resource)

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        """Whether the client may do this, which it asks for by name."""
        if self._authorizer is None:
            return True
        is_allowed = self._authorizer.allows(session, operation, resource)
        if not is_allowed:
            self.denied += 1
        if self.audit is not None:
            self.audit.note(session, operation, resource, is_allowed=is_allowed)
        return is_allowed

    def allows_unnamed(self, session: Session, operation: Operation, resource: Resource) -> bool:
        """Whether the client may do this to what it has not named, or that may be allowed otherwise as well."""
        if self._authorizer is None:
            return True
        is_allowed = self._authorizer.allows(session, operation, resource)
        if is_allowed and self.audit is not None:
            self.audit.note(session, operation, resource, is_allowed=True)
        return is_allowed

    def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        """Whether the client may do this to some resource of that type."""
        if self._authorizer is None:
            return True
        is_allowed = self._authorizer.allows_any(session, operation, kind)
        if is_allowed and self.audit is not None:
            self.audit.note_any(session, operation, kind)
        return is_allowed

    def allows_topic(self, session: Session, operation: Operation, name: str) -> bool:
        """The same as `allows`, for a topic."""
        return self.is_open or self.allows(session, operation, topic(name))

    def sees_topic(self, session: Session, operation: Operation, name: str) -> bool:
        """The same as `allows_unnamed`, for a topic."""
        return self.is_open or self.allows_unnamed(session, operation, topic(name))

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
