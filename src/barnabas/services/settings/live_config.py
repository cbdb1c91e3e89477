"""The broker's current settings: those it started with, overlaid by dynamic ones.

Follows the metadata image: `apply` is called with every record once it is committed. A part of the node that acts on a
setting which may be altered (`About.is_dynamic`, or the default of a topic setting) subscribes, and is called with all
settings after each change:

    live.subscribe(lambda config: maintenance.configure(maintenance_config(config)))
"""

from collections.abc import Callable, Sequence

from barnabas.core.metadata.records import ALL_NODES, BROKER_RESOURCE, ConfigRecord, MetadataRecord
from barnabas.runtime.cluster_metadata import ImageSource
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.resolution import effective_config, topic_config
from barnabas.services.settings.topic_config import TopicConfig

Listener = Callable[[BrokerConfig], None]


class LiveConfig:
    """Holds the current settings, and notifies subscribers of changes."""

    def __init__(self, start: BrokerConfig, metadata: ImageSource) -> None:
        self._start = start
        self._metadata = metadata
        self._listeners: list[Listener] = []
        self._names = (ALL_NODES, str(start.node_id))
        self.current = effective_config(metadata.image, start)

    def topic_config(self, name: str) -> TopicConfig:
        """The effective settings of a topic."""
        return topic_config(self._metadata.image, self.current, name)

    def subscribe(self, listener: Listener) -> None:
        """Call with all settings now, and after each change. The callback runs on the loop and must not wait."""
        self._listeners.append(listener)
        listener(self.current)

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Apply records that are already applied to the image."""
        if not any(self._is_ours(record) for record in records):
            return
        before, self.current = self.current, effective_config(self._metadata.image, self._start)
        if self.current != before:
            for listener in self._listeners:
                listener(self.current)

    def _is_ours(self, record: MetadataRecord) -> bool:
        return (
            isinstance(record, ConfigRecord)
            and record.resource_type == BROKER_RESOURCE
            and record.resource_name in self._names
        )
