"""Settings of topics, groups, brokers and their loggers: describe and alter them, over our own connections, since
librdkafka has no loggers, and asks no broker but the one it names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from barnabas.client.cluster import Cluster
from barnabas.client.errors import check_answer
from barnabas.client.settings import Settings
from barnabas.core.errors import InvalidRequest
from barnabas.wire.apis import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS

_SET: Final = 0
_DELETE: Final = 1
ALL_BROKERS: Final = ""
"""The name of what holds for every broker that has no setting of its own."""


class ConfigKind(IntEnum):
    """What has settings; the values are those of the protocol."""

    TOPIC = 2
    BROKER = 4
    LOGGER = 8
    GROUP = 32


# Where a value comes from, by the number in the protocol, in the words of Kafka's tools.
SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "file",
    5: "default",
    6: "logger",
    7: "client",
    8: "group",
}


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """A setting: its value, unless it is secret, and where that comes from."""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_secret: bool
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source == "default"


class ConfigAdmin:
    """The settings of one cluster. Each call has its own connections, and retries what may pass."""

    def __init__(self, settings: Settings, timeout_s: float = 30.0) -> None:
        self._settings = settings
        self._timeout_s = timeout_s

    def describe(self, kind: ConfigKind, name: str, *, names: Iterable[str] | None = None) -> list[ConfigInfo]:
        """The settings of a topic, group or broker (by its id; see `ALL_BROKERS`), or the levels of a broker's loggers;
        all, or those of these names.
        """
        keys = None if names is None else list(names)
        resource = {"resource_type": int(kind), "resource_name": name, "configuration_keys": keys}
        request = {"resources": [resource], "include_synonyms": False, "include_documentation": True}
        found = self._ask(kind, name, DESCRIBE_CONFIGS.key, request, f"describe {_words(kind, name)}")
        return sorted((_info(each) for each in found.configs), key=lambda each: each.name)

    def alter(
        self,
        kind: ConfigKind,
        name: str,
        *,
        set_: Mapping[str, str] | None = None,
        unset: Iterable[str] = (),
        dry_run: bool = False,
    ) -> None:
        """Set settings, and let others have their defaults again; all or none. With `dry_run`, only say whether that
        would be accepted.
        """
        changes = [{"name": key, "config_operation": _SET, "value": value} for key, value in (set_ or {}).items()]
        changes += [{"name": key, "config_operation": _DELETE, "value": None} for key in unset]
        if not changes:
            raise InvalidRequest("nothing to alter: name a setting")
        resource = {"resource_type": int(kind), "resource_name": name, "configs": changes}
        request = {"resources": [resource], "validate_only": dry_run}
        self._ask(kind, name, INCREMENTAL_ALTER_CONFIGS.key, request, f"alter {_words(kind, name)}")

    def _ask(self, kind: ConfigKind, name: str, api_key: int, request: Mapping[str, Any], doing: str) -> Any:
        """The answer for the one resource that is asked for."""

        def ask(cluster: Cluster) -> Any:
            answer = send(cluster)
            [one] = answer.results if api_key == DESCRIBE_CONFIGS.key else answer.responses
            check_answer(one, doing)
            return one

        def send(cluster: Cluster) -> Any:
            """A broker speaks for itself alone; for all else any of them does."""
            if kind not in (ConfigKind.BROKER, ConfigKind.LOGGER) or name == ALL_BROKERS:
                return cluster.ask(api_key, request)
            brokers = {str(broker.node_id): broker for broker in cluster.brokers()}
            if name not in brokers:
                known = ", ".join(sorted(brokers))
                raise InvalidRequest(f"there is no broker {name!r} in the cluster; there is {known}")
            return cluster.connect(brokers[name]).call(api_key, request, timeout_s=self._timeout_s)

        with Cluster(self._settings, self._timeout_s) as cluster:
            return cluster.trying(lambda: ask(cluster))


def _info(entry: Any) -> ConfigInfo:
    return ConfigInfo(
        name=str(entry.name),
        value=entry.value,
        source=SOURCES.get(int(entry.config_source), "unknown"),
        is_read_only=bool(entry.read_only),
        is_secret=bool(entry.is_sensitive),
        documentation=entry.documentation,
    )


def _words(kind: ConfigKind, name: str) -> str:
    if kind is ConfigKind.BROKER and name == ALL_BROKERS:
        return "the settings of all brokers"
    if kind is ConfigKind.LOGGER:
        return f"the loggers of broker {name}"
    return f"the settings of {kind.name.lower()} {name!r}"
