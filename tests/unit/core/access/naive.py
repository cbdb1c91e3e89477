"""The rules of Kafka's authorizer as they are told: every ACL is looked at for every question."""

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

from barnabas.core.access.acls import Acl

LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 2, 3, 4, 6, 7, 8, 10, 11


def applies(acl: Acl, kind: int, name: str) -> bool:
    """Whether an ACL is for a resource."""
    if acl.resource_type != kind:
        return False
    if acl.pattern_type == PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def concerns(acl: Acl, principal: str, host: str) -> bool:
    """Whether an ACL is for a principal that comes from a host."""
    is_host = acl.host in ("*", host) or ("/" in acl.host and ip_address(host) in ip_network(acl.host, strict=False))
    return acl.principal in (principal, "User:*") and is_host


def allows(
    acls: Sequence[Acl],
    principal: str,
    host: str,
    operation: int,
    kind: int,
    name: str,
    *,
    super_users: frozenset[str] = frozenset(),
    allows_unlisted: bool = False,
) -> bool:
    if principal in super_users:
        return True
    there = [acl for acl in acls if applies(acl, kind, name)]
    own = [acl for acl in there if concerns(acl, principal, host)]
    if any(acl.permission == DENY and acl.operation in (ALL, operation) for acl in own):
        return False
    allowing = {ALL, operation}
    if operation == DESCRIBE:
        allowing |= {READ, WRITE, DELETE, ALTER}
    if operation == DESCRIBE_CONFIGS:
        allowing |= {ALTER_CONFIGS}
    if any(acl.permission == ALLOW and acl.operation in allowing for acl in own):
        return True
    return not there and allows_unlisted


def allows_any(
    acls: Sequence[Acl],
    principal: str,
    host: str,
    operation: int,
    kind: int,
    *,
    super_users: frozenset[str] = frozenset(),
    allows_unlisted: bool = False,
) -> bool:
    if allows(
        acls, principal, host, operation, kind, "hardcode", super_users=super_users, allows_unlisted=allows_unlisted
    ):
        return True
    own = [
        acl
        for acl in acls
        if acl.resource_type == kind and concerns(acl, principal, host) and acl.operation in (ALL, operation)
    ]
    denied = [acl for acl in own if acl.permission == DENY]
    allowed = [acl for acl in own if acl.permission == ALLOW]
    if any((acl.pattern_type, acl.resource_name) == (LITERAL, "*") for acl in denied):
        return False
    return any(not any(_covers(denial, acl) for denial in denied) for acl in allowed)


def _covers(denial: Acl, acl: Acl) -> bool:
    if (acl.pattern_type, acl.resource_name) == (LITERAL, "*"):
        return False
    if denial.pattern_type == PREFIXED:
        return acl.resource_name.startswith(denial.resource_name)
    return acl.pattern_type == LITERAL and denial.resource_name == acl.resource_name
