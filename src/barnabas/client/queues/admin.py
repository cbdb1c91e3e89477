"""The administration of queues: how much is in them, what is next, emptying them, and their dead letters.

For share groups. A group's start offset is its first unfinished record; what it has finished behind that counts too.
What is to be delivered again is read from the state that the share coordinators keep, for those who may (as a broker
does: ClusterAction).
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from barnabas.client.brokers import Brokers, CoordinatorKind
from barnabas.client.connection import BrokerConnection
from barnabas.client.coordinators import Coordinators
from barnabas.client.errors import Unreachable, check
from barnabas.client.queues.redrive import Reading, Redrive, Redriven
from barnabas.client.settings import Settings
from barnabas.client.topics import LATEST, Topics
from barnabas.client.transactions import TransactionalProducers
from barnabas.core.errors import InvalidRequest, LeaderNotAvailable, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.wire.apis import (
    ALTER_SHARE_GROUP_OFFSETS,
    DESCRIBE_CONFIGS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    READ_SHARE_GROUP_STATE,
)
from barnabas.wire.writing import Values

_UNKNOWN: Final = -1
_AVAILABLE: Final = 0  # states of records, as share coordinators keep them
_ARCHIVING: Final = 3
_GROUP_RESOURCE: Final = 32
_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A partition of a queue: `depth` records are not finished, from `start_offset` on. None where nothing is known,
    as before the first fetch.

    Of these, `retrying` were delivered before and came back: they wait for a worker, or for their time. The dead
    letters of `archiving` are yet to be written. A partition of the dead-letter topic (`is_letters`) has the letters
    that were not redriven.
    """

    topic: str
    partition: int
    start_offset: int | None
    end_offset: int
    depth: int | None
    retrying: int | None = None
    archiving: int | None = None
    is_letters: bool = False


class QueueAdmin:
    """Asks and changes the queues of one cluster."""

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        timeout_s: float,
        *,
        bus: Reading,
        transactions: TransactionalProducers,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._timeout_s = timeout_s
        self._redrive = Redrive(bus, transactions, settings=settings, topics=topics, timeout_s=timeout_s)

    def stats(self, group: str) -> list[QueueStats]:
        """The partitions of a group's queues, by topic, and then those of its dead-letter topic."""
        return [*self._queue_stats(group), *self._letter_stats(group)]

    def letter_topic(self, group: str) -> str | None:
        """The dead-letter topic of a group; None if it has none."""
        brokers = Brokers(self._settings)
        try:
            resource: Values = {
                "resource_type": _GROUP_RESOURCE,
                "resource_name": group,
                "configuration_keys": [_LETTER_TOPIC],
            }
            answer = brokers.any().call(DESCRIBE_CONFIGS.key, {"resources": [resource]})
        finally:
            brokers.close()
        (result,) = answer.results
        check(result.error_code, f"read the settings of queue group {group!r}")
        return next((each.value for each in result.configs if each.name == _LETTER_TOPIC and each.value), None)

    def redrive(self, group: str, *, limit: int | None = None, dry_run: bool = False) -> Redriven:
        """Send the dead letters of a group back to the topics of their records, to the same partitions: `limit` of
        them at most. Each is sent once, however often this is called. With `dry_run` nothing is sent.
        """
        topic = self.letter_topic(group)
        if topic is None:
            raise InvalidRequest(f"queue group {group!r} has no dead letters: {_LETTER_TOPIC} is not set")
        return self._redrive.run(group, topic, limit=limit, is_dry=dry_run)

    def _letter_stats(self, group: str) -> list[QueueStats]:
        topic = self.letter_topic(group)
        if topic is None:
            return []
        try:
            found = self._redrive.progress(group, topic)
        except (UnknownTopicOrPartition, LeaderNotAvailable, Unreachable):
            return []  # it is created with the first letter, or is missing, or away: the rest counts all the same
        return [
            QueueStats(topic, partition, start, end, max(end - start, 0), is_letters=True)
            for partition, (start, end) in sorted(found.items())
        ]

    def _queue_stats(self, group: str) -> list[QueueStats]:
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
        ids = {str(topic.topic_name): topic.topic_id for one in answer.groups for topic in one.topics}
        for key, each in found.items():
            check(each.error_code, f"describe {key} of queue group {group!r}")
        ends = self._topics.offsets_of(sorted(found), LATEST)
        kept = self._kept(group, {key: ids[key.topic] for key in sorted(found)})
        return [self._stats_of(key, found[key], ends[key], kept.get(key)) for key in sorted(found)]

    def _kept(self, group: str, ids: dict[TopicPartition, UUID]) -> dict[TopicPartition, tuple[int, int]]:
        """How many records of each partition are to be delivered again, and how many wait for their dead letters.

        Every broker is asked for all: each knows those that it coordinates. Nothing is known to who may not ask.
        """
        names = {topic_id: key.topic for key, topic_id in ids.items()}
        wanted: dict[UUID, list[Values]] = {}
        for key, topic_id in ids.items():
            wanted.setdefault(topic_id, []).append({"partition": key.partition, "leader_epoch": _UNKNOWN})
        topics: list[Values] = [
            {"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in wanted.items()
        ]
        found: dict[TopicPartition, tuple[int, int]] = {}
        brokers = Brokers(self._settings)
        try:
            for broker in brokers.metadata([]).brokers if topics else ():
                with suppress(Unreachable):  # what it coordinates is not known for now
                    for topic_id, each in _ask_state(brokers.at(broker.address), group, topics):
                        key = TopicPartition(names[topic_id], int(each.partition))
                        found[key] = _count(each.state_batches)
        finally:
            brokers.close()
        return found

    def starts(self, group: str, topic: str) -> dict[int, int]:
        """The first unfinished offset of each partition of a topic that the group has one for."""
        return {
            each.partition: each.start_offset
            for each in self.stats(group)
            if each.topic == topic and each.start_offset is not None and not each.is_letters
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

    def _stats_of(self, key: TopicPartition, each: Any, end: int, kept: tuple[int, int] | None) -> QueueStats:
        start, lag = int(each.start_offset), int(getattr(each, "lag", _UNKNOWN))
        return QueueStats(
            key.topic,
            key.partition,
            None if start == _UNKNOWN else start,
            end,
            None if lag == _UNKNOWN else lag,
            *(kept or (None, None)),
        )

    def _ask(self, group: str, api_key: int, values: Values, codes_of: Any, *, doing: str) -> Any:
        brokers = Brokers(self._settings)
        try:
            return Coordinators(brokers).ask(
                CoordinatorKind.GROUP, group, api_key, values, codes_of, doing=doing, patience_s=self._timeout_s
            )
        finally:
            brokers.close()


def _ask_state(connection: BrokerConnection, group: str, topics: list[Values]) -> Iterator[tuple[UUID, Any]]:
    """The states that a broker has."""
    if connection.serves(READ_SHARE_GROUP_STATE.key):
        answer = connection.call(READ_SHARE_GROUP_STATE.key, {"group_id": group, "topics": topics})
        for result in answer.results:
            yield from ((result.topic_id, each) for each in result.partitions if not int(each.error_code))


def _count(batches: Iterable[Any]) -> tuple[int, int]:
    counts = {_AVAILABLE: 0, _ARCHIVING: 0}
    for batch in batches:
        state = int(batch.delivery_state)
        if state == _ARCHIVING or (state == _AVAILABLE and int(batch.delivery_count)):
            counts[state] += int(batch.last_offset) - int(batch.first_offset) + 1
    return counts[_AVAILABLE], counts[_ARCHIVING]
