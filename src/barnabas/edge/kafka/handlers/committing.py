"""Offsets of a request to commit: what both ways to commit share, inside of a transaction and outside.

As Kafka does it: what is not there is refused by itself, and what is there is still committed.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Self

from barnabas.core.errors import UnknownTopicId, UnknownTopicOrPartition
from barnabas.core.groups.offsets import NewOffset
from barnabas.core.model import NO_EPOCH
from barnabas.edge.kafka.handlers.walking import over_partitions
from barnabas.services.broker import Broker
from barnabas.services.served import ServedTopic
from barnabas.wire.responses import Values


class Asked:
    """The topics of a request, and which of their offsets can be committed."""

    def __init__(self, topics: Sequence[Any], *, by_id: bool) -> None:
        self.new_offsets: list[NewOffset] = []
        self._topics = topics
        self._by_id = by_id
        # The code of each partition of each topic, in the order of the request; None while it is not known.
        self._codes: list[list[int | None]] = []

    @classmethod
    async def take(cls, broker: Broker, topics: Sequence[Any], *, by_id: bool = False) -> Self:
        """What a request asks for."""
        asked = cls(topics, by_id=by_id)
        looked = await over_partitions(
            topics, lambda topic: topic.partitions, lambda topic, partition: asked._look(broker, topic, partition)
        )
        asked._codes = [codes for _, codes in looked]
        return asked

    def _look(self, broker: Broker, topic: Any, partition: Any) -> int | None:
        served = self._find(broker, topic)
        if served is None:
            return (UnknownTopicId if self._by_id else UnknownTopicOrPartition).kafka_code
        if partition.partition_index not in served.partitions:
            return UnknownTopicOrPartition.kafka_code
        self.new_offsets.append(
            NewOffset(
                served.name,
                partition.partition_index,
                partition.committed_offset,
                getattr(partition, "committed_leader_epoch", NO_EPOCH),
                partition.committed_metadata,
                served.topic_id,
            )
        )
        return None

    def _find(self, broker: Broker, topic: Any) -> ServedTopic | None:
        if self._by_id:
            return None if topic.topic_id is None else broker.served.by_id.get(topic.topic_id)
        return broker.served.by_name.get(topic.name)

    async def answer(self, committed: Iterable[int]) -> list[Values]:
        """The topics of the answer, with what became of `new_offsets`."""
        rest = iter(committed)
        codes = (code for of_topic in self._codes for code in of_topic)

        def tell(_: Any, partition: Any) -> Values:
            code = next(codes)
            return {
                "partition_index": partition.partition_index,
                "error_code": next(rest) if code is None else code,
            }

        told = await over_partitions(self._topics, lambda topic: topic.partitions, tell)
        return [
            {**({"topic_id": topic.topic_id} if self._by_id else {"name": topic.name}), "partitions": partitions}
            for topic, partitions in told
        ]
