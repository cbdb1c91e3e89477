"""How far the shares of a query are published: read back from its consumer group, and the topic that is for.

Only stable offsets are read: one that is part of a transaction which has not ended is waited for.
"""

import time
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition

from barnabas.client.errors import translate
from barnabas.client.settings import Settings
from barnabas.client.topics import Topics
from barnabas.core.errors import InvalidConfig
from barnabas.spark.sink.shares import PROGRESS_PARTITIONS, Progress, Share

_ASK_S: Final = 10.0
_RETRY_S: Final = 0.05
_known_topics: set[tuple[str, str]] = set()  # of this process


def ensure_topic(settings: Settings, topic: str, *, contact_s: float) -> None:
    """Make the progress topic unless it is there; asked once in a process."""
    key = (settings.bootstrap, topic)
    if key in _known_topics:
        return
    made = Topics(settings.admin(), contact_s).create(topic, partitions=PROGRESS_PARTITIONS, exist_ok=True)
    if made.partition_count < PROGRESS_PARTITIONS:
        raise InvalidConfig(
            f"topic {topic!r} has {made.partition_count} partitions; progress is kept for {PROGRESS_PARTITIONS}"
        )
    _known_topics.add(key)


class ProgressGroup:
    """The consumer group of a share's progress. Nobody ever joins it."""

    def __init__(self, settings: Settings, share: Share, *, prefix: str, topic: str) -> None:
        self._group = share.group(prefix)
        self._topic = topic
        self._partition = share.progress_partition
        self._consumer: Any = settings.member(self._group, "error")

    @property
    def metadata(self) -> Any:
        """How a transaction names the group."""
        return self._consumer.consumer_group_metadata()

    def offsets(self, progress: Progress) -> list[TopicPartition]:
        """What a transaction commits to say how far the share's task has come."""
        return [TopicPartition(self._topic, self._partition, progress.offset, progress.metadata)]

    def read(self, timeout_s: float) -> Progress | None:
        """How far the share's task had come; None if there is nothing of it."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                (found,) = self._consumer.committed([TopicPartition(self._topic, self._partition)], _ASK_S)
                if found.error is not None:
                    raise KafkaException(found.error)
                return Progress.parse(found.offset, found.metadata)
            except KafkaException as error:
                # librdkafka calls no failure of this one retriable, and all that matter are of the connection.
                if time.monotonic() >= deadline:
                    raise translate(error, f"read the progress of group {self._group!r}") from None
                time.sleep(_RETRY_S)

    def close(self) -> None:
        self._consumer.close()
