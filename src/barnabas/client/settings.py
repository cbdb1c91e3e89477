"""How to reach a cluster, and the librdkafka handles made from that.

Owns the settings of every handle; a caller's `config` overrides them. librdkafka is kept from writing to stderr: errors
are raised. `config={"log_level": "6"}` brings its lines back.
"""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from barnabas.client.config_file import bootstrap_in_file, completed
from barnabas.client.errors import translate
from barnabas.core.errors import InvalidConfig

_Handle = TypeVar("_Handle")

Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
READ_COMMITTED: Final = "read_committed"
Consistency: TypeAlias = Literal["leader", "committed", "any"]

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE: Final = "BARNABAS_BOOTSTRAP"

_DEFAULT_PORT: Final = "9092"
_GROUP: Final = "barnabas-reader"  # librdkafka wants a name; nothing is committed under it
_READER: Final = {
    "group.id": _GROUP,
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",  # an offset that is gone is said so, never silently replaced
    "allow.auto.create.topics": "false",
}
# A consumer whose queue is full stops fetching, for a whole second unless it is told otherwise.
_QUICK: Final = {"fetch.queue.backoff.ms": "10"}
# Left to itself librdkafka hands out a damaged batch as if nothing were wrong with it.
_CHECKING: Final = {"check.crcs": "true"}
_CONSUMER: Final = {**_QUICK, **_CHECKING}
_MEMBER: Final = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
}
# librdkafka writes what is fatal to a handle to stderr at every log level, unless somebody takes its lines.
_NOBODY: Final = logging.Logger("barnabas.librdkafka", logging.CRITICAL + 1)
_ISOLATION: Final = "isolation.level"
_RACK: Final = "client.rack"


def default_bootstrap() -> str:
    """The address in the environment, or in the client file, or the local default."""
    return os.environ.get(BOOTSTRAP_VARIABLE) or bootstrap_in_file() or DEFAULT_BOOTSTRAP


def parse_bootstrap(bootstrap: str) -> list[tuple[str, int]]:
    """The hosts and ports of an address list, as librdkafka reads it; at least one."""
    found = []
    for part in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = part.rpartition("://")[2].rpartition(":")
        if not colon or port.endswith("]"):  # no port, perhaps of an IPv6 address
            host, port = f"{host}{colon}{port}", _DEFAULT_PORT
        if not host or not port.isdecimal() or int(port) > 65535:
            raise InvalidConfig(f"bootstrap address {part!r} is not host:port")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise InvalidConfig("no bootstrap address was given")
    return found


@dataclass(frozen=True, slots=True)
class Settings:
    """A cluster's address and the caller's own librdkafka settings, over those of the client file."""

    bootstrap: str
    client_id: str = "barnabas"
    config: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords are in it
    is_complete: bool = False  # whether the client file was taken into account already

    def __post_init__(self) -> None:
        if not self.is_complete:
            object.__setattr__(self, "config", completed(self.config))
            object.__setattr__(self, "is_complete", True)

    def isolation(self, wanted: Isolation | None) -> Isolation:
        """The isolation level of a reader: its own, else the one in the caller's settings, else read_committed."""
        level = wanted or self.config.get(_ISOLATION, READ_COMMITTED)
        for known in get_args(Isolation):
            if level == known:
                return known  # type: ignore[no-any-return]
        raise InvalidConfig(f"isolation is {level!r}; it may be {' or '.join(get_args(Isolation))}")

    def reading(self, consistency: Consistency | None) -> "Settings":
        """These settings for a reader of this consistency: `any` reads from the replica in its `client.rack`, the
        others from the leader. None: as the caller's settings have it.
        """
        if consistency is None:
            return self
        if consistency not in get_args(Consistency):
            raise InvalidConfig(f"consistency is {consistency!r}; it may be {', '.join(get_args(Consistency))}")
        if consistency == "any":
            if not self.reads_from_any:
                raise InvalidConfig(f"consistency 'any' needs to know where this client is: set {_RACK}")
            return self
        return replace(self, config={name: text for name, text in self.config.items() if name != _RACK})

    @property
    def reads_from_any(self) -> bool:
        """Whether readers may be sent to a replica that does not lead, and may be behind the leader."""
        return bool(self.config.get(_RACK))

    def admin(self) -> AdminClient:
        # An admin handle that asks about a topic would otherwise create it.
        return self._make(AdminClient, {"allow.auto.create.topics": "false"})

    def producer(self, defaults: Mapping[str, str], forced: Mapping[str, str]) -> Producer:
        """A producer: the caller's settings override `defaults`, but not `forced`."""
        return self._make(Producer, defaults, forced)

    def reader(self, defaults: Mapping[str, str] | None = None, isolation: Isolation = READ_COMMITTED) -> Consumer:
        """A consumer with assigned partitions that commits nothing."""
        return self._make(Consumer, {**_CONSUMER, **(defaults or {})}, {**_READER, _ISOLATION: isolation})

    def member(
        self,
        group: str,
        start: str,
        *,
        isolation: Isolation = READ_COMMITTED,
        defaults: Mapping[str, str] | None = None,
        instance: str | None = None,
    ) -> Consumer:
        """A consumer in a group that commits only explicitly; `start` is where it begins without a committed offset."""
        forced = {**_MEMBER, "group.id": group, "auto.offset.reset": start, _ISOLATION: isolation}
        if instance is not None:
            forced["group.instance.id"] = instance
        return self._make(Consumer, {**_CONSUMER, **(defaults or {})}, forced)

    def _make(
        self, kind: Callable[..., _Handle], defaults: Mapping[str, str], forced: Mapping[str, str] | None = None
    ) -> _Handle:
        settings: dict[str, Any] = {"log_level": "0", **defaults, **self.config, **(forced or {})}
        if settings["log_level"] == "0":
            settings["logger"] = _NOBODY
        settings |= {"bootstrap.servers": self.bootstrap, "client.id": self.client_id}
        try:
            return kind(settings)
        except KafkaException as error:
            raise translate(error, "use these settings") from None
