"""The rules of Kafka's StandardAuthorizer over an index of ACLs.

A denial wins over whatever allows. Where an ACL is for the resource and none allows, the answer is no; where there is
none at all, it is what `allow.everyone.if.no.acl.found` says. An ACL that allows reading, writing, deleting or altering
allows describing, too, and one that allows altering settings allows describing them; one that denies denies that alone.

Owns the index: by resource name, with a dictionary for the prefixes of each resource type, and the operations of a
principal from a host as a set of bits. What a question costs depends on how many lengths of prefixes there are, not on
the number of ACLs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, TypeVar
from uuid import UUID

from barnabas.core.access.acls import (
    ALL_OPERATIONS,
    EVERYBODY,
    WILDCARD,
    Acl,
    AclFields,
    PatternType,
    Permission,
    plain_address,
)
from barnabas.core.access.resources import Operation, Resource, ResourceType

Network = IPv4Network | IPv6Network
_T = TypeVar("_T")

_ALL: Final = 1 << ALL_OPERATIONS
_DENYING: Final = [_ALL | 1 << operation for operation in range(max(Operation) + 1)]
_ALLOWING: Final = list(_DENYING)
for _implied, _implying in (
    (Operation.DESCRIBE, (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    (Operation.DESCRIBE_CONFIGS, (Operation.ALTER_CONFIGS,)),
):
    _ALLOWING[_implied] |= sum(1 << each for each in _implying)


class _Granted:
    """The operations that are allowed and denied, as bits."""

    __slots__ = ("allowed", "denied")

    def __init__(self) -> None:
        self.allowed = 0
        self.denied = 0


class _PatternRules:
    """All ACLs of one pattern, by principal and host."""

    __slots__ = ("by_host", "networks")

    def __init__(self) -> None:
        self.by_host: dict[tuple[str, str], _Granted] = {}
        self.networks: dict[str, dict[Network, _Granted]] = {}  # by principal

    def granted(self, acl: Acl) -> _Granted:
        """Where an ACL of this pattern belongs."""
        if "/" in acl.host:
            return self.networks.setdefault(acl.principal, {}).setdefault(_network(acl.host), _Granted())
        return self.by_host.setdefault((acl.principal, plain_address(acl.host)), _Granted())

    def drop_empty(self, acl: Acl) -> None:
        """Forget what an ACL that is gone has left."""
        if "/" not in acl.host:
            self.by_host.pop((acl.principal, plain_address(acl.host)), None)
            return
        networks = self.networks[acl.principal]
        networks.pop(_network(acl.host), None)
        if not networks:
            del self.networks[acl.principal]

    @property
    def is_empty(self) -> bool:
        return not self.by_host and not self.networks

    def of(self, principal: str, host: str) -> Iterator[_Granted]:
        """What is said of a principal that comes from a host."""
        for name in (principal, EVERYBODY):
            for place in (host, WILDCARD):
                granted = self.by_host.get((name, place))
                if granted is not None:
                    yield granted
            if self.networks and name in self.networks:
                yield from (each for network, each in self.networks[name].items() if _is_in(host, network))


class Rules:
    """Answers whether a principal may do something. `add` and `remove` keep up with the ACLs."""

    def __init__(self, *, super_users: Iterable[str] = (), allows_unlisted: bool = False) -> None:
        """`allows_unlisted`: whether everybody may use a resource that no ACL is for."""
        self._super_users = frozenset(super_users)
        self._allows_unlisted = allows_unlisted
        self._acls: dict[UUID, Acl] = {}
        self._same: Counter[Acl] = Counter()
        self._literal: dict[tuple[int, str], _PatternRules] = {}
        self._prefixed: dict[int, dict[str, _PatternRules]] = {}
        self._lengths: dict[int, Counter[int]] = {}  # how many prefixes have this length, by resource type
        self._patterns_of: dict[tuple[int, str], Counter[tuple[int, str]]] = {}  # by resource type and principal

    def __len__(self) -> int:
        return len(self._acls)

    def add(self, acl_id: UUID, fields: AclFields) -> None:
        """An ACL is created."""
        acl = _acl_of(fields)
        self._acls[acl_id] = acl
        self._same[acl] += 1
        granted = self._rules_of(acl).granted(acl)
        if acl.permission == Permission.DENY:
            granted.denied |= 1 << acl.operation
        else:
            granted.allowed |= 1 << acl.operation
        patterns = self._patterns_of.setdefault((acl.resource_type, acl.principal), Counter())
        patterns[acl.pattern_type, acl.resource_name] += 1

    def _rules_of(self, acl: Acl) -> _PatternRules:
        if acl.pattern_type != PatternType.PREFIXED:
            return self._literal.setdefault((acl.resource_type, acl.resource_name), _PatternRules())
        prefixes = self._prefixed.setdefault(acl.resource_type, {})
        rules = prefixes.get(acl.resource_name)
        if rules is None:
            rules = prefixes[acl.resource_name] = _PatternRules()
            self._lengths.setdefault(acl.resource_type, Counter())[len(acl.resource_name)] += 1
        return rules

    def remove(self, acl_id: UUID) -> None:
        """An ACL is deleted."""
        acl = self._acls.pop(acl_id)
        key = (acl.resource_type, acl.principal)
        patterns = self._patterns_of[key]
        _take_one(patterns, (acl.pattern_type, acl.resource_name))
        if not patterns:
            del self._patterns_of[key]
        _take_one(self._same, acl)
        if acl in self._same:
            return
        rules = self._rules_of(acl)
        granted = rules.granted(acl)
        if acl.permission == Permission.DENY:
            granted.denied &= ~(1 << acl.operation)
        else:
            granted.allowed &= ~(1 << acl.operation)
        if not granted.denied and not granted.allowed:
            rules.drop_empty(acl)
            if rules.is_empty:
                self._drop_pattern(acl)

    def _drop_pattern(self, acl: Acl) -> None:
        if acl.pattern_type != PatternType.PREFIXED:
            del self._literal[acl.resource_type, acl.resource_name]
            return
        del self._prefixed[acl.resource_type][acl.resource_name]
        _take_one(self._lengths[acl.resource_type], len(acl.resource_name))

    def is_super_user(self, principal: str) -> bool:
        """Whether a principal may do everything."""
        return principal in self._super_users

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether a principal that comes from a host may do this."""
        if principal in self._super_users:
            return True
        host = plain_address(host)
        denying, allowing = _DENYING[operation], _ALLOWING[operation]
        is_listed = is_allowed = False
        for rules in self._for(resource):
            is_listed = True
            for granted in rules.of(principal, host):
                if granted.denied & denying:
                    return False
                if granted.allowed & allowing:
                    is_allowed = True
        return is_allowed or (not is_listed and self._allows_unlisted)

    def _for(self, resource: Resource) -> Iterator[_PatternRules]:
        """The rules of all patterns that a resource matches."""
        kind, name = resource
        for literal in (name, WILDCARD) if name != WILDCARD else (WILDCARD,):
            rules = self._literal.get((kind, literal))
            if rules is not None:
                yield rules
        prefixes = self._prefixed.get(kind)
        if not prefixes:
            return
        longest = len(name)
        for length in self._lengths[kind]:
            if length <= longest:
                rules = prefixes.get(name[:length])
                if rules is not None:
                    yield rules

    def allows_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether a principal may do this to some resource of a type: one that is there or not."""
        if self.allows(principal, host, operation, Resource(kind, _ANY_NAME)):
            return True
        host = plain_address(host)
        bits = _DENYING[operation]
        allowed: list[tuple[int, str]] = []
        denied: set[tuple[int, str]] = set()
        for key in self._patterns_for(principal, kind):
            pattern, name = key
            rules = self._prefixed[kind][name] if pattern == PatternType.PREFIXED else self._literal[kind, name]
            for granted in rules.of(principal, host):
                if granted.denied & bits:
                    denied.add(key)
                if granted.allowed & bits:
                    allowed.append(key)
        everything = (PatternType.LITERAL, WILDCARD)
        if everything in denied:
            return False
        return any(not _is_denied(key, denied) for key in allowed)

    def _patterns_for(self, principal: str, kind: ResourceType) -> Iterator[tuple[int, str]]:
        for name in {principal: None, EVERYBODY: None}:
            yield from self._patterns_of.get((kind, name), ())


_ANY_NAME: Final = "hardcode"  # as in Kafka: a name that, most likely, no ACL is for


def _is_denied(key: tuple[int, str], denied: set[tuple[int, str]]) -> bool:
    """Whether a denial covers the whole of a pattern."""
    pattern, name = key
    if key == (PatternType.LITERAL, WILDCARD):
        return False
    if pattern == PatternType.LITERAL and key in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


def _acl_of(fields: AclFields) -> Acl:
    return Acl(
        fields.resource_type,
        fields.resource_name,
        fields.pattern_type,
        fields.principal,
        fields.host,
        fields.operation,
        fields.permission,
    )


def _take_one(counts: Counter[_T], key: _T) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _network(host: str) -> Network:
    return ip_network(host, strict=False)


def _is_in(host: str, network: Network) -> bool:
    try:
        return ip_address(host) in network
    except ValueError:
        return False
