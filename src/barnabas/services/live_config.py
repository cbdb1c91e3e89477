"""The broker's settings as they are now: those it started with, and over them what was altered while it ran.

Follows the metadata image: `apply` is called with every record once it is committed. A part of the node that acts on a
setting which may be altered (`About.is_dynamic`, or the default of a topic setting) subscribes, and is called with all
settings after each change:

    live.subscribe(lambda config: maintenance.configure(maintenance_config(config)))

What was recorded and cannot be had any more, because another start brought other settings, counts as not set.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from barnabas.core.errors import InvalidRequest
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import ALL_NODES, BROKER_RESOURCE, ConfigRecord, MetadataRecord
from barnabas.runtime.log_lines import get_logger
from barnabas.services.broker_config import BrokerConfig
from barnabas.services.catalogue.setting import InvalidSetting

log = get_logger("barnabas.settings")

THREAD_COUNTS: Final = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)

Listener = Callable[[BrokerConfig], None]


class LiveConfig:
    """Holds the settings that count now, and tells who asked when they change."""

    def __init__(self, start: BrokerConfig, image: Image) -> None:
        self._start = start
        self._image = image
        self._listeners: list[Listener] = []
        self._names = (ALL_NODES, str(start.node_id))
        self.current = effective_config(image, start)

    def subscribe(self, listener: Listener) -> None:
        """Have all settings now, and after each change. It is called on the loop and must not wait."""
        self._listeners.append(listener)
        listener(self.current)

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Take records that the image has taken already."""
        if not any(self._is_ours(record) for record in records):
            return
        before, self.current = self.current, effective_config(self._image, self._start)
        if self.current != before:
            for listener in self._listeners:
                listener(self.current)

    def _is_ours(self, record: MetadataRecord) -> bool:
        return (
            isinstance(record, ConfigRecord)
            and record.resource_type == BROKER_RESOURCE
            and record.resource_name in self._names
        )


def dynamic_of(image: Image, node_id: int) -> dict[str, str]:
    """What was altered for all brokers, and over it what was for this one."""
    own = image.config_of(BROKER_RESOURCE, str(node_id))
    return {**image.config_of(BROKER_RESOURCE, ALL_NODES), **own}


def effective_config(image: Image, config: BrokerConfig) -> BrokerConfig:
    """The broker's settings with what was altered while it ran."""
    dynamic = dynamic_of(image, config.node_id)
    return _overlaid(_Same(config), tuple(dynamic.items())) if dynamic else config


class _Same:
    """A configuration as a key: equal is only what is the same object, which takes no time to see."""

    __slots__ = ("config",)

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config

    def __hash__(self) -> int:
        return id(self.config)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.config is self.config


@lru_cache(maxsize=8)  # half a millisecond, and asked for with every topic that is altered
def _overlaid(start: _Same, altered: tuple[tuple[str, str], ...]) -> BrokerConfig:
    dynamic = dict(altered)
    while dynamic:
        try:
            return start.config.with_dynamic(dynamic)
        except InvalidSetting as refusal:
            log.error("a setting that was altered is passed over: %s", refusal)
            if dynamic.pop(refusal.name, None) is None:
                break
    return start.config


def check_thread_counts(before: BrokerConfig, after: BrokerConfig, altered: Mapping[str, str]) -> None:
    """Refuse a number of threads that is less than half, or more than double, of what it is: Kafka's rule."""
    for name in THREAD_COUNTS:
        field = name.replace(".", "_")
        was, wanted = getattr(before, field), getattr(after, field)
        if name in altered and not was // 2 <= wanted <= was * 2:
            raise InvalidRequest(f"{name} cannot go from {was} to {wanted} at once: at least half, at most double")
