"""Administration of ACLs, over our own connections, to any broker: it passes on what the active controller decides."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from barnabas.client.acl_infos import (
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    AclInfo,
    AclSelection,
    name_of,
    number_of,
)
from barnabas.client.cluster import Cluster
from barnabas.client.errors import check_answer
from barnabas.client.settings import Settings
from barnabas.wire.apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from barnabas.wire.writing import Values

_T = TypeVar("_T")


class AclAdmin:
    """The ACLs of one cluster. Each call has its own connections, and retries what may pass; that does no harm."""

    def __init__(self, settings: Settings, timeout_s: float = 30.0) -> None:
        self._settings = settings
        self._timeout_s = timeout_s

    def create(self, acls: Sequence[AclInfo]) -> None:
        """Create ACLs; those that exist stay as they are."""
        creations = [_creation(each) for each in acls]

        def ask(cluster: Cluster) -> None:
            answer = cluster.ask(CREATE_ACLS.key, {"creations": creations})
            for acl, result in zip(acls, answer.results, strict=True):
                check_answer(result, f"create the ACL of {acl.principal} on {acl.resource_type} {acl.resource_name!r}")

        if creations:
            self._trying(ask)

    def find(self, selection: AclSelection | None = None) -> list[AclInfo]:
        """The ACLs that are selected, or all, in the order of their resources."""
        wanted = _filter(selection or AclSelection())

        def ask(cluster: Cluster) -> list[AclInfo]:
            answer = cluster.ask(DESCRIBE_ACLS.key, wanted)
            check_answer(answer, "list the ACLs")
            return [_info(resource, entry) for resource in answer.resources for entry in resource.acls]

        return self._trying(ask)

    def delete(self, selections: Sequence[AclSelection]) -> list[AclInfo]:
        """Delete the ACLs that are selected; returns them."""
        filters = [_filter(each) for each in selections]

        def ask(cluster: Cluster) -> list[AclInfo]:
            answer = cluster.ask(DELETE_ACLS.key, {"filters": filters})
            deleted: dict[AclInfo, None] = {}
            for result in answer.filter_results:
                check_answer(result, "delete ACLs")
                deleted.update(dict.fromkeys(_info(each, each) for each in result.matching_acls))
            return list(deleted)

        return self._trying(ask) if filters else []

    def _trying(self, ask: Callable[[Cluster], _T]) -> _T:
        with Cluster(self._settings, self._timeout_s) as cluster:
            return cluster.trying(lambda: ask(cluster))


def _creation(acl: AclInfo) -> Values:
    return {
        "resource_type": number_of(RESOURCE_TYPES, acl.resource_type, what="resource type"),
        "resource_name": acl.resource_name,
        "resource_pattern_type": number_of(PATTERN_TYPES, acl.pattern_type, what="pattern type"),
        "principal": acl.principal,
        "host": acl.host,
        "operation": number_of(OPERATIONS, acl.operation, what="operation"),
        "permission_type": number_of(PERMISSIONS, acl.permission, what="permission"),
    }


def _filter(selection: AclSelection) -> Values:
    return {
        "resource_type_filter": number_of(RESOURCE_TYPES, selection.resource_type, what="resource type"),
        "resource_name_filter": selection.resource_name,
        "pattern_type_filter": number_of(PATTERN_TYPES, selection.pattern_type, what="pattern type"),
        "principal_filter": selection.principal,
        "host_filter": selection.host,
        "operation": number_of(OPERATIONS, selection.operation, what="operation"),
        "permission_type": number_of(PERMISSIONS, selection.permission, what="permission"),
    }


def _info(resource: Any, entry: Any) -> AclInfo:
    return AclInfo(
        name_of(RESOURCE_TYPES, int(resource.resource_type)),
        str(resource.resource_name),
        name_of(PATTERN_TYPES, int(resource.pattern_type)),
        str(entry.principal),
        str(entry.host),
        name_of(OPERATIONS, int(entry.operation)),
        name_of(PERMISSIONS, int(entry.permission_type)),
    )
