"""ACLs as the SDK and the command line speak of them: by names, which are those of Kafka's tools."""

from dataclasses import dataclass
from typing import Final

from barnabas.core.errors import InvalidRequest

RESOURCE_TYPES: Final = {
    "any": 1,
    "topic": 2,
    "group": 3,
    "cluster": 4,
    "transactional-id": 5,
    "delegation-token": 6,
    "user": 7,
}
PATTERN_TYPES: Final = {"any": 1, "match": 2, "literal": 3, "prefixed": 4}
OPERATIONS: Final = {
    "Any": 1,
    "All": 2,
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "ClusterAction": 9,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
    "IdempotentWrite": 12,
    "CreateTokens": 13,
    "DescribeTokens": 14,
    "TwoPhaseCommit": 15,
}
PERMISSIONS: Final = {"any": 1, "deny": 2, "allow": 3}
CLUSTER_NAME: Final = "kafka-cluster"


@dataclass(frozen=True, slots=True)
class AclInfo:
    """An ACL: whether a principal, from a host, may do something to the resources of a pattern."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


@dataclass(frozen=True, slots=True)
class AclSelection:
    """Which ACLs are meant; what is None, or any, is not compared."""

    resource_type: str = "any"
    resource_name: str | None = None
    pattern_type: str = "any"
    principal: str | None = None
    host: str | None = None
    operation: str = "Any"
    permission: str = "any"


def number_of(names: dict[str, int], name: str, *, what: str) -> int:
    """The number that a name has in the protocol, however it is written."""
    by_plain = {_plain(each): number for each, number in names.items()}
    number = by_plain.get(_plain(name))
    if number is None:
        raise InvalidRequest(f"{name!r} is no {what}; allowed: {', '.join(names)}")
    return number


def name_of(names: dict[str, int], number: int) -> str:
    """The name of a number of the protocol; the number itself where it has none."""
    return next((name for name, each in names.items() if each == number), str(number))


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
