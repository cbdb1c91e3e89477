"""Client quotas: list, set and remove them, over our own connections, since librdkafka has no requests for them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.errors import check_answer
from barnabas.client.settings import Settings
from barnabas.wire.apis import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS

_T = TypeVar("_T")

_EXACT: Final = 0
_DEFAULT: Final = 1

Entity = Mapping[str, str | None]
"""Whom quotas are for: names by type (`user`, `client-id`, `ip`); None is all that have no quota of their own."""


@dataclass(frozen=True, slots=True)
class QuotaInfo:
    """The quotas of an entity, by name."""

    entity: dict[str, str | None]
    quotas: dict[str, float]


class QuotaAdmin:
    """The quotas of one cluster. Each call has its own connections, and retries what may pass."""

    def __init__(self, settings: Settings, timeout_s: float = 30.0) -> None:
        self._settings = settings
        self._timeout_s = timeout_s

    def find(self, entity: Entity | None = None) -> list[QuotaInfo]:
        """All quotas; or those of entities that have these names, and maybe others."""
        components = [
            {"entity_type": kind, "match_type": _DEFAULT if name is None else _EXACT, "match": name}
            for kind, name in (entity or {}).items()
        ]

        def ask(cluster: Cluster) -> list[QuotaInfo]:
            answer = cluster.ask(DESCRIBE_CLIENT_QUOTAS.key, {"components": components, "strict": False})
            check_answer(answer, "list quotas")
            return [_info(entry) for entry in answer.entries or ()]

        return self._trying(ask)

    def set(self, entity: Entity, quotas: Mapping[str, float]) -> None:
        """Set quotas of an entity; its others stay."""
        self._alter(entity, [{"key": name, "value": float(value), "remove": False} for name, value in quotas.items()])

    def remove(self, entity: Entity, names: Sequence[str] = ()) -> list[str]:
        """Remove quotas of an entity, or all that it has; returns which."""
        found = next((each.quotas for each in self.find(entity) if each.entity == dict(entity)), {})
        removed = list(names) or sorted(found)
        if removed:
            self._alter(entity, [{"key": name, "value": 0.0, "remove": True} for name in removed])
        return [name for name in removed if name in found]

    def _alter(self, entity: Entity, changes: Sequence[Mapping[str, Any]]) -> None:
        named = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
        request = {"entries": [{"entity": named, "ops": list(changes)}], "validate_only": False}

        def ask(cluster: Cluster) -> None:
            for entry in cluster.ask(ALTER_CLIENT_QUOTAS.key, request).entries:
                check_answer(entry, "alter quotas")

        self._trying(ask)

    def _trying(self, ask: Callable[[Cluster], _T]) -> _T:
        with Cluster(self._settings, self._timeout_s) as cluster:
            return cluster.trying(lambda: ask(cluster))


def _info(entry: Any) -> QuotaInfo:
    return QuotaInfo(
        {str(each.entity_type): each.entity_name for each in entry.entity},
        {str(each.key): float(each.value) for each in entry.values},
    )
