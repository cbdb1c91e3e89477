"""Every topic of the cluster, as the assignors of groups need it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas.core.metadata.image import Topic
from barnabas.runtime.cluster_metadata import ImageSource

if TYPE_CHECKING:
    from barnabas.core.groups.consumer.placing import TopicInfo


class TopicInfos(Mapping[str, "TopicInfo"]):
    """Every topic of the cluster, as assignors need it. Lookups are cached until `forget`."""

    def __init__(self, metadata: ImageSource) -> None:
        self._metadata = metadata
        self._found: dict[str, TopicInfo] = {}

    def forget(self) -> None:
        """The image has changed."""
        self._found.clear()

    def __getitem__(self, name: str) -> TopicInfo:
        info = self._found.get(name)
        if info is None:
            from barnabas.core.groups.consumer.placing import TopicInfo  # noqa: PLC0415 - loaded with the first group

            topic = self._metadata.image.topics[name]
            info = self._found[name] = TopicInfo(topic.topic_id, len(topic.partitions), self._racks_of(topic))
        return info

    def _racks_of(self, topic: Topic) -> list[frozenset[str]] | None:
        """The racks of each partition's replicas; None if no replica's rack is known."""
        racks = {node_id: node.rack for node_id, node in self._metadata.image.nodes.items() if node.rack is not None}
        if not racks:
            return None
        found = [
            frozenset(racks[replica] for replica in topic.partitions[partition].replicas if replica in racks)
            for partition in range(len(topic.partitions))
        ]
        return found if any(found) else None

    def __iter__(self) -> Iterator[str]:
        return iter(self._metadata.image.topics)

    def __len__(self) -> int:
        return len(self._metadata.image.topics)
