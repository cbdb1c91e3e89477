"""The offsets of a commit request: shared by the commits inside and outside a transaction.

As Kafka does it: unknown partitions are refused individually, and the others are still committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

from barnabas.core.access.resources import Operation
from barnabas.core.errors import BarnabasError, TopicAuthorizationFailed, UnknownTopicId, UnknownTopicOrPartition
from barnabas.core.groups.offsets import NewOffset
from barnabas.edge.kafka.handlers.walking import over_partitions
from barnabas.services.broker import Broker
from barnabas.services.served import ServedTopic
from barnabas.services.session import Session

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import offset_commit, txn_offset_commit

# Those of OffsetCommit have an id beside.
Topic = TypeVar("Topic", bound="txn_offset_commit.TxnOffsetCommitRequestTopic")


class OffsetsToCommit(Generic[Topic]):
    """The topics of a request, by name, and which of their offsets can be committed."""

    _unknown_code: ClassVar = UnknownTopicOrPartition.kafka_code

    def __init__(self, topics: Sequence[Topic]) -> None:
        self.new_offsets: list[NewOffset] = []
        self._topics = topics
        # The code of each partition of each topic, in the order of the request; None while it is not known.
        self._codes: list[list[int | None]] = []

    @classmethod
    async def take(cls, broker: Broker, session: Session, topics: Sequence[Topic]) -> Self:
        """What a request asks for."""
        asked = cls(topics)

        def look(topic: Topic, partition: txn_offset_commit.TxnOffsetCommitRequestPartition) -> int | None:
            return asked._look(broker, session, topic, partition)

        looked = await over_partitions(topics, lambda topic: topic.partitions, look)
        asked._codes = [codes for _, codes in looked]
        return asked

    def _look(
        self,
        broker: Broker,
        session: Session,
        topic: Topic,
        partition: txn_offset_commit.TxnOffsetCommitRequestPartition,
    ) -> int | None:
        served = self._find(broker, topic)
        name = topic.name if served is None else served.name
        if name and not broker.access.allows_topic(session, Operation.READ, name):  # one by an unknown id has no name
            return TopicAuthorizationFailed.kafka_code
        if served is None:
            return self._unknown_code
        if partition.partition_index not in served.partitions:
            return UnknownTopicOrPartition.kafka_code
        self.new_offsets.append(
            NewOffset(
                served.name,
                partition.partition_index,
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.committed_metadata,
                served.topic_id,
            )
        )
        return None

    def _find(self, broker: Broker, topic: Topic) -> ServedTopic | None:
        return broker.served.by_name.get(topic.name)

    def refuse(self, error: BarnabasError) -> None:
        """Refuse all offsets for this reason."""
        self.new_offsets.clear()
        self._codes = [[error.kafka_code] * len(codes) for codes in self._codes]

    async def answer(self, committed: Iterable[int]) -> list[offset_commit.OffsetCommitResponseTopic]:
        """The topics of the answer, with the results of `new_offsets`."""
        rest = iter(committed)
        codes = (code for of_topic in self._codes for code in of_topic)

        def tell(
            _: Topic, partition: txn_offset_commit.TxnOffsetCommitRequestPartition
        ) -> offset_commit.OffsetCommitResponsePartition:
            code = next(codes)
            return {
                "partition_index": partition.partition_index,
                "error_code": next(rest) if code is None else code,
            }

        told = await over_partitions(self._topics, lambda topic: topic.partitions, tell)
        return [self._tell(topic, partitions) for topic, partitions in told]

    def _tell(
        self, topic: Topic, partitions: list[offset_commit.OffsetCommitResponsePartition]
    ) -> offset_commit.OffsetCommitResponseTopic:
        return {"name": topic.name, "partitions": partitions}


class OffsetsToCommitById(OffsetsToCommit["offset_commit.OffsetCommitRequestTopic"]):
    """The same for a request that has topic ids instead of names."""

    _unknown_code = UnknownTopicId.kafka_code

    def _find(self, broker: Broker, topic: offset_commit.OffsetCommitRequestTopic) -> ServedTopic | None:
        return None if topic.topic_id is None else broker.served.by_id.get(topic.topic_id)

    def _tell(
        self,
        topic: offset_commit.OffsetCommitRequestTopic,
        partitions: list[offset_commit.OffsetCommitResponsePartition],
    ) -> offset_commit.OffsetCommitResponseTopic:
        return {"topic_id": topic.topic_id, "partitions": partitions}
