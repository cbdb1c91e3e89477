"""How far the shares of a query are published: read back from its consumer group, and the topic that is for.

An offset that is part of a transaction which has not ended is waited for, unless the caller knows better.
"""

from typing import Final

from barnabas.client.batch_transactions import BatchTransaction
from barnabas.client.coordinators import Coordinators, read_committed_offsets
from barnabas.client.settings import Settings
from barnabas.client.topics import Topics
from barnabas.core.errors import InvalidConfig
from barnabas.core.model import TopicPartition
from barnabas.spark.sink.shares import PROGRESS_PARTITIONS, Progress, Share

PATIENCE_S: Final = 60.0  # with coordinators, once the cluster was reached
_known_topics: Final[set[tuple[str, str]]] = set()  # of this process


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
    """The consumer group of a share's progress. It never has members."""

    def __init__(self, coordinators: Coordinators, share: Share, *, prefix: str, topic: str) -> None:
        self._coordinators = coordinators
        self._group = share.group(prefix)
        self._key = TopicPartition(topic, share.progress_partition)

    def read(self, timeout_s: float, *, require_stable: bool = True) -> Progress | None:
        """How far the share's task had come; None if there is nothing of it."""
        found = read_committed_offsets(
            self._coordinators, self._group, [self._key], timeout_s, require_stable=require_stable
        ).get(self._key)
        return None if found is None else Progress.parse(*found)

    def write(self, transaction: BatchTransaction, progress: Progress) -> None:
        """Say how far the share's task has come, in a transaction."""
        transaction.commit_offset(self._group, self._key, progress.offset, progress.metadata)
