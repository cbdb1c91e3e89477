"""ACLs as values: what one says, which of them can be created, and which of them a filter selects.

The numbers are those of the protocol, the checks are Kafka's. Differs from Kafka: a host must be an address, a network
or ``*``, where Kafka takes any text, and an ACL for the name of a computer never matches.
"""

import hashlib
from enum import IntEnum
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from barnabas.core.access.resources import CLUSTER_NAME, Operation, ResourceType
from barnabas.core.errors import InvalidRequest

ANY: Final = 1
"""Any resource type, operation or permission, in a filter."""
ALL_OPERATIONS: Final = 2
WILDCARD: Final = "*"
"""Every resource, in a literal pattern; every host."""
EVERYBODY: Final = "User:*"
LONGEST_NAME: Final = 4096
"""Characters of a resource name or a principal."""


class PatternType(IntEnum):
    """How the name in an ACL is compared with that of a resource. The first two are for filters alone."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What an ACL does to a request that it matches."""

    DENY = 2
    ALLOW = 3


class AclFields(Protocol):
    """The fields of an ACL, wherever it is kept."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...
    @property
    def pattern_type(self) -> int: ...
    @property
    def principal(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def operation(self) -> int: ...
    @property
    def permission(self) -> int: ...


class Acl(NamedTuple):
    """An ACL: it allows or denies a principal, from a host, an operation on the resources of a pattern."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def check(self) -> None:
        """Refuse an ACL that cannot be created."""
        if self.resource_type not in _TYPES:
            raise InvalidRequest(f"Invalid resourceType {self.resource_type}")
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise InvalidRequest(f"Invalid patternType {self.pattern_type}")
        if self.operation != ALL_OPERATIONS and self.operation not in _OPERATIONS:
            raise InvalidRequest(f"Invalid operation {self.operation}")
        if self.permission not in (Permission.DENY, Permission.ALLOW):
            raise InvalidRequest(f"Invalid permissionType {self.permission}")
        if not self.resource_name:
            raise InvalidRequest("Resource name should not be empty")
        if len(self.resource_name) > LONGEST_NAME or len(self.principal) > LONGEST_NAME:
            raise InvalidRequest(f"A resource name or a principal is longer than {LONGEST_NAME} characters")
        if self.resource_type == ResourceType.CLUSTER and self.resource_name != CLUSTER_NAME:
            raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
        if ":" not in self.principal:
            raise InvalidRequest(
                f"Could not parse principal from `{self.principal}` (no colon is present separating the principal "
                "type from the principal name)"
            )
        _check_host(self.host)

    @property
    def acl_id(self) -> UUID:
        """Its id, which is made of what it says: the same ACL has the same id whoever creates it."""
        digest = hashlib.sha256()
        for text in (self.resource_name, self.principal, self.host):
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(4, "big") + data)
        digest.update(bytes((self.resource_type, self.pattern_type, self.operation, self.permission)))
        return UUID(bytes=digest.digest()[:16])


_TYPES: Final = frozenset(int(each) for each in ResourceType)
_OPERATIONS: Final = frozenset(int(each) for each in Operation)
_FILTERED_TYPES: Final = _TYPES | {ANY}
_FILTERED_OPERATIONS: Final = _OPERATIONS | {ANY, ALL_OPERATIONS}
_FILTERED_PATTERNS: Final = frozenset(int(each) for each in PatternType)
_FILTERED_PERMISSIONS: Final = frozenset({ANY, int(Permission.DENY), int(Permission.ALLOW)})


class AclFilter(NamedTuple):
    """Selects ACLs. What is None, or `ANY`, is not compared."""

    resource_type: int = ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def check(self) -> None:
        """Refuse a filter with a number that stands for nothing."""
        if self.resource_type not in _FILTERED_TYPES or self.pattern_type not in _FILTERED_PATTERNS:
            raise InvalidRequest("Unknown patternFilter.")
        if self.operation not in _FILTERED_OPERATIONS or self.permission not in _FILTERED_PERMISSIONS:
            raise InvalidRequest("Unknown entryFilter.")

    @property
    def single(self) -> Acl | None:
        """The only ACL that it can select; None if it can select several."""
        name, principal, host = self.resource_name, self.principal, self.host
        if name is None or principal is None or host is None:
            return None
        if ANY in (self.resource_type, self.operation, self.permission):
            return None
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            return None
        return Acl(self.resource_type, name, self.pattern_type, principal, host, self.operation, self.permission)

    def matches(self, acl: AclFields) -> bool:
        """Whether it selects an ACL."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: AclFields) -> bool:
        kind, name = self.pattern_type, self.resource_name
        if kind not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None:
            return True
        if kind != PatternType.MATCH:
            return name == acl.resource_name
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, WILDCARD)


def _check_host(host: str) -> None:
    if host == WILDCARD:
        return
    try:
        if "/" in host:
            ip_network(host, strict=False)
        else:
            ip_address(host)
    except ValueError:
        raise InvalidRequest(
            f"Invalid host `{host}`: allowed are an IP address, a network such as 10.0.0.0/8, and {WILDCARD}"
        ) from None


@lru_cache(maxsize=4096)
def plain_address(host: str) -> str:
    """An address in its one notation: an IPv4 address that came over IPv6 is one, and a zone is left out."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(address if mapped is None else mapped)
