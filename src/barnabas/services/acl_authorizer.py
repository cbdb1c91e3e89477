"""The authorizer of `authorizer.class.name`: the ACLs in the metadata, `super.users`, and the nodes of the cluster.

Follows the metadata: `apply` is called with every record once it is committed. Answers are kept until an ACL is created
or deleted; there is a limit to them, beyond which all are forgotten.
"""

from collections.abc import Sequence
from typing import Final

from barnabas.core.access.resources import Operation, Resource, ResourceType
from barnabas.core.access.rules import Rules
from barnabas.core.metadata.records import AclRecord, MetadataRecord, RemoveAclRecord
from barnabas.runtime.cluster_metadata import ImageSource
from barnabas.services.session import Principal, Session

MAX_KEPT: Final = 50_000
"""The most answers that are kept."""

Key = tuple[Principal, str, str]

OF_NODES: Final = {
    ResourceType.CLUSTER: (Operation.CLUSTER_ACTION, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE, Operation.WRITE),
    ResourceType.GROUP: (Operation.READ, Operation.DESCRIBE, Operation.DELETE),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE,),
}
"""What the nodes of the cluster may do: their work; reading what they have replicas of, to repair them; and what
callers over HTTP and gRPC ask of one node, which has authorized them, and another one carries out, since it leads a
topic, coordinates a group or a transactional id, or has the settings and directories that are asked for. What changes
the cluster is not in it: that goes to the controller in an envelope, in the caller's name.
"""
OF_NODES_THEMSELVES: Final = {ResourceType.CLUSTER: (Operation.CREATE,)}
"""What a node may do that asks the controller for it in its own name, in an envelope: create the topics that groups and
transactions need.
"""


class AclAuthorizer:
    """See `services.access.Authorizer`."""

    __slots__ = ("_any", "_kept", "_kept_count", "_rules")

    def __init__(self, rules: Rules, metadata: ImageSource) -> None:
        self._rules = rules
        for acl_id, acl in metadata.image.acls.items():
            rules.add(acl_id, acl)
        self._kept: list[list[dict[Key, bool]]] = []
        self._any: dict[tuple[Principal, str, int, int], bool] = {}
        self._forget()

    def _forget(self) -> None:
        # Lists, since members of an enumeration are quick as their places, and slow as keys of a dictionary.
        self._kept = [[{} for _ in range(max(Operation) + 1)] for _ in range(max(ResourceType) + 1)]
        self._any = {}
        self._kept_count = 0

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Apply records that are already applied to the image."""
        is_changed = False
        for record in records:
            if type(record) is AclRecord:
                self._rules.add(record.acl_id, record)
                is_changed = True
            elif type(record) is RemoveAclRecord:
                self._rules.remove(record.acl_id)
                is_changed = True
        if is_changed:
            self._forget()

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        """Whether the rules allow it."""
        kind, name = resource
        principal, host = session.principal, session.peer[0]
        key = (principal, host, name)
        verdict = self._kept[kind][operation].get(key)
        if verdict:
            return True
        if session.is_node and operation in (OF_NODES_THEMSELVES if session.is_forwarded else OF_NODES).get(kind, ()):
            return True
        if verdict is None:
            verdict = self._rules.allows(str(principal), host, operation, resource)
            self._make_room()
            self._kept[kind][operation][key] = verdict
        return verdict

    def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        """Whether the rules allow it on some resource of this type."""
        key = (session.principal, session.peer[0], int(operation), int(kind))
        verdict = self._any.get(key)
        if verdict is None:
            verdict = self._rules.allows_any(str(session.principal), session.peer[0], operation, kind)
            self._make_room()
            self._any[key] = verdict
        return verdict

    def _make_room(self) -> None:
        if self._kept_count >= MAX_KEPT:
            self._forget()
        self._kept_count += 1
