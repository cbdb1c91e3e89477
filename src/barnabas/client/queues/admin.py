"""The administration of queues: how much is in them, what is next, and emptying them.

For share groups. A group's start offset is its first unfinished record; what it has finished behind that counts too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from barnabas.client.brokers import Brokers, CoordinatorKind
from barnabas.client.coordinators import Coordinators
from barnabas.client.errors import check
from barnabas.client.settings import Settings
from barnabas.client.topics import LATEST, Topics
from barnabas.core.model import TopicPartition
from barnabas.wire.apis import ALTER_SHARE_GROUP_OFFSETS, DESCRIBE_SHARE_GROUP_OFFSETS
from barnabas.wire.writing import Values

_UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A partition of a queue: `depth` records are not finished, from `start_offset` on. None where nothing is known,
    as before the first fetch.
    """

    topic: str
    partition: int
    start_offset: int | None
    end_offset: int
    depth: int | None


class QueueAdmin:
    """Asks and changes the queues of one cluster."""

    def __init__(self, settings: Settings, topics: Topics, timeout_s: float) -> None:
        self._settings = settings
        self._topics = topics
        self._timeout_s = timeout_s

    def stats(self, group: str) -> list[QueueStats]:
        """The partitions of a group's queues, by topic."""
        answer = self._ask(
            group,
            DESCRIBE_SHARE_GROUP_OFFSETS.key,
            {"groups": [{"group_id": group, "topics": None}]},
            lambda each: [int(one.error_code) for one in each.groups],
            doing=f"describe queue group {group!r}",
        )
        found = {
            TopicPartition(str(topic.topic_name), int(each.partition_index)): each
            for one in answer.groups
            for topic in one.topics
            for each in topic.partitions
        }
        for key, each in found.items():
            check(each.error_code, f"describe {key} of queue group {group!r}")
        ends = self._topics.offsets_of(sorted(found), LATEST)
        return [self._stats_of(key, found[key], ends[key]) for key in sorted(found)]

    def starts(self, group: str, topic: str) -> dict[int, int]:
        """The first unfinished offset of each partition of a topic that the group has one for."""
        return {
            each.partition: each.start_offset
            for each in self.stats(group)
            if each.topic == topic and each.start_offset is not None
        }

    def purge(self, group: str, topic: str) -> dict[int, int]:
        """Skip all records that a topic has now; refused while the group has members. Returns the new start offsets."""
        partitions = [TopicPartition(topic, each) for each in self._topics.partition_ids(topic)]
        ends = self._topics.offsets_of(partitions, LATEST)
        self._alter(group, topic, ends)
        return {key.partition: end for key, end in sorted(ends.items())}

    def _alter(self, group: str, topic: str, ends: dict[TopicPartition, int]) -> None:
        offsets = [{"partition_index": key.partition, "start_offset": end} for key, end in sorted(ends.items())]

        def codes(answer: Any) -> Iterable[int]:
            partitions = (each for one in answer.responses for each in one.partitions)
            return [int(answer.error_code), *(int(each.error_code) for each in partitions)]

        self._ask(
            group,
            ALTER_SHARE_GROUP_OFFSETS.key,
            {"group_id": group, "topics": [{"topic_name": topic, "partitions": offsets}]},
            codes,
            doing=f"purge topic {topic!r} of queue group {group!r}",
        )

    def _stats_of(self, key: TopicPartition, each: Any, end: int) -> QueueStats:
        start, lag = int(each.start_offset), int(getattr(each, "lag", _UNKNOWN))
        return QueueStats(
            key.topic,
            key.partition,
            None if start == _UNKNOWN else start,
            end,
            None if lag == _UNKNOWN else lag,
        )

    def _ask(self, group: str, api_key: int, values: Values, codes_of: Any, *, doing: str) -> Any:
        brokers = Brokers(self._settings)
        try:
            return Coordinators(brokers).ask(
                CoordinatorKind.GROUP, group, api_key, values, codes_of, doing=doing, patience_s=self._timeout_s
            )
        finally:
            brokers.close()
