"""Client quotas: which names and values there are, which quota a client has, and how quotas are altered and listed.

A quota belongs to an entity: a user, a client id, both, or an IP address; None as a name stands for all that have no
quota of their own. Of all quotas of one name a client has the most specific: those of its user count before those of
its client id, and both together before either. Quotas of IP addresses are apart.

Differs from Kafka: an address must be an address, since a host name would mean another one tomorrow; and a quota must
be above 0: Kafka takes 0 and divides by it.
"""

import ipaddress
import math
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError, InvalidRequest, UnsupportedVersion
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Entity, Image, entity_order
from barnabas.core.metadata.records import ClientQuotaRecord

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (CLIENT_ID, IP, USER)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

CLIENT_QUOTAS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
"""The quotas of users and client ids."""
IP_QUOTAS: Final = (CONNECTION_CREATION_RATE,)
WHOLE_NUMBERS: Final = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE})
MAX_NAME: Final = 1024
"""The longest name of an entity. A quota is kept on every node, forever."""

_CLOSE: Final = 1e-6  # a whole number that was computed may be off by this
_IN_NAMES: Final = 80  # letters of a name that a message quotes


class MatchType(IntEnum):
    """What a filter asks of a type of entity, numbered as in DescribeClientQuotas."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class Component(NamedTuple):
    """A part of a filter: an entity must have a name of this type, this one, the default, or any."""

    entity_type: str
    match_type: int
    match: str | None


class Alteration(NamedTuple):
    """The quotas of an entity to set, or to remove (None), in the order of the request."""

    entity: Sequence[tuple[str, str | None]]
    values: Sequence[tuple[str, float | None]]


# Which quota a client has


class Share(NamedTuple):
    """The quota of a client, and who uses it up: clients with the same `holder` share it."""

    limit: float
    holder: tuple[str | None, str | None]  # a user and a client id; None: of all of them


class Rules:
    """All quotas of an image, by name."""

    __slots__ = ("_by_name",)

    def __init__(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        self._by_name: dict[str, dict[Entity, float]] = {}
        for entity, limits in quotas.items():
            for name, limit in limits.items():
                self._by_name.setdefault(name, {})[entity] = limit

    def __bool__(self) -> bool:
        return bool(self._by_name)

    @property
    def has_client_quotas(self) -> bool:
        """Whether any client may have a quota that is not of its address."""
        return any(name in self._by_name for name in CLIENT_QUOTAS)

    @property
    def has_ip_quotas(self) -> bool:
        return CONNECTION_CREATION_RATE in self._by_name

    def find(self, name: str, *, user: str, client_id: str) -> Share | None:
        """The quota of this name that a client has."""
        limits = self._by_name.get(name)
        if limits is None:
            return None
        for entity, holder in _in_order(user, client_id):
            limit = limits.get(entity)
            if limit is not None:
                return Share(limit, holder)
        return None

    def find_ip(self, ip: str) -> float | None:
        """How many connections a second may come from an address."""
        limits = self._by_name.get(CONNECTION_CREATION_RATE, {})
        own = limits.get(((IP, ip),))
        return limits.get(((IP, None),)) if own is None else own


def _in_order(user: str, client_id: str) -> Iterator[tuple[Entity, tuple[str | None, str | None]]]:
    """The entities that a client belongs to, the most specific first, each with who shares its quota."""
    both, of_user, of_client = (user, client_id), (user, None), (None, client_id)
    for name in (user, None):
        yield ((CLIENT_ID, client_id), (USER, name)), both
        yield ((CLIENT_ID, None), (USER, name)), both
        yield ((USER, name),), of_user
    yield ((CLIENT_ID, client_id),), of_client
    yield ((CLIENT_ID, None),), of_client


# How quotas are altered


def alter_quotas(image: Image, alterations: Sequence[Alteration]) -> MetadataDecision[list[BarnabasError | None]]:
    """Decide on alterations, each whole or not at all; the reply has the refusal of each, or None."""
    records: list[ClientQuotaRecord] = []
    outcomes: list[BarnabasError | None] = []
    seen: set[Entity] = set()
    for alteration in alterations:
        try:
            entity = checked_entity(alteration.entity)
            if entity in seen:
                raise InvalidRequest(f"the request names the entity {describe(entity)} twice")
            seen.add(entity)
            records += _records_of(image, entity, alteration.values)
        except BarnabasError as error:
            outcomes.append(error)
        else:
            outcomes.append(None)
    return MetadataDecision(records, outcomes)


def _records_of(image: Image, entity: Entity, values: Sequence[tuple[str, float | None]]) -> list[ClientQuotaRecord]:
    """What changes of one entity."""
    now = image.quotas.get(entity, {})
    wanted: dict[str, float | None] = {}
    for name, value in values:
        if name in wanted:
            raise InvalidRequest(f"the request has the quota {_quoted(name)} of {describe(entity)} twice")
        wanted[name] = checked_value(entity, name, value)
    return [ClientQuotaRecord(entity, name, value) for name, value in wanted.items() if now.get(name) != value]


def checked_entity(pairs: Sequence[tuple[str, str | None]]) -> Entity:
    """The entity of these types and names; refused if there is no such."""
    if not pairs:
        raise InvalidRequest("an entity needs a user, a client id or an ip")
    types = [kind for kind, _ in pairs]
    for kind, name in pairs:
        if kind not in ENTITY_TYPES:
            raise InvalidRequest(f"quotas belong to a {USER}, a {CLIENT_ID} or an {IP}, not to {_quoted(kind)}")
        if types.count(kind) > 1:
            raise InvalidRequest(f"an entity has one {kind}, not {types.count(kind)}")
        if name is not None and not 0 < len(name) <= MAX_NAME:
            raise InvalidRequest(f"a {kind} has 1 to {MAX_NAME} letters, not {len(name)}")
    if IP in types and len(pairs) > 1:
        raise InvalidRequest(f"an {IP} cannot be combined with a {USER} or a {CLIENT_ID}")
    return tuple(
        sorted(((kind, _address(name) if kind == IP else name) for kind, name in pairs), key=lambda pair: pair[0])
    )


def _address(name: str | None) -> str | None:
    """An address in its usual notation, as connections have it."""
    if name is None:
        return None
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        raise InvalidRequest(f"{_quoted(name)} is not an IP address") from None


def checked_value(entity: Entity, name: str, value: float | None) -> float | None:
    """The value of a quota; refused if the entity has no such quota, or it cannot be this."""
    names = IP_QUOTAS if entity[0][0] == IP else CLIENT_QUOTAS
    if name not in names:
        raise InvalidRequest(f"{describe(entity)} has no quota {_quoted(name)}; it has {', '.join(names)}")
    if value is None:
        return None
    if not math.isfinite(value) or value <= 0:
        raise InvalidRequest(f"{name} must be above 0, not {value}; remove the quota for no limit")
    if name in WHOLE_NUMBERS:
        if abs(round(value) - value) > _CLOSE:
            raise InvalidRequest(f"{name} must be a whole number, not {value}")
        return float(round(value))
    return value


def describe(entity: Entity) -> str:
    """An entity, for a message."""
    return " and ".join(f"{kind} {'(default)' if name is None else _quoted(name)}" for kind, name in entity)


def _quoted(name: str) -> str:
    return f"'{name}'" if len(name) <= _IN_NAMES else f"'{name[:_IN_NAMES]}...'"


# How quotas are listed


def find_quotas(
    image: Image, components: Sequence[Component], *, is_strict: bool
) -> list[tuple[Entity, Mapping[str, float]]]:
    """The entities that a filter matches, with their quotas. A strict one wants no other types than it has."""
    wanted = _checked_filter(components)
    if is_strict and not wanted:
        return []
    return [
        (entity, image.quotas[entity])
        for entity in sorted(image.quotas, key=entity_order)
        if _matches(wanted, entity, is_strict=is_strict)
    ]


def _matches(wanted: Mapping[str, Component], entity: Entity, *, is_strict: bool) -> bool:
    if is_strict and len(entity) != len(wanted):
        return False
    names = dict(entity)
    return all(
        kind in names and (each.match_type == MatchType.SPECIFIED or names[kind] == each.match)
        for kind, each in wanted.items()
    )


def _checked_filter(components: Sequence[Component]) -> dict[str, Component]:
    wanted: dict[str, Component] = {}
    for each in components:
        if not each.entity_type:
            raise InvalidRequest("a filter needs a type of entity")
        if each.entity_type in wanted:
            raise InvalidRequest(f"the filter has {_quoted(each.entity_type)} twice")
        if each.entity_type not in ENTITY_TYPES:
            raise UnsupportedVersion(f"there are no quotas of the type {_quoted(each.entity_type)}")
        if each.match_type not in tuple(MatchType):
            raise InvalidRequest(f"there is no match type {each.match_type}")
        if (each.match is None) == (each.match_type == MatchType.EXACT):
            raise InvalidRequest("a filter has a name for an exact match, and for no other")
        wanted[each.entity_type] = each
    if IP in wanted and len(wanted) > 1:
        raise InvalidRequest(f"a filter for an {IP} cannot be combined with one for a {USER} or a {CLIENT_ID}")
    return wanted
