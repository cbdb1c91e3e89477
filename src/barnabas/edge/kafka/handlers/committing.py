"""Offsets of a request to commit: what both ways to commit share, inside of a transaction and outside.

As Kafka does it: what is not there is refused by itself, and what is there is still committed.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from barnabas.core.errors import UnknownTopicId, UnknownTopicOrPartition
from barnabas.core.groups.offsets import NewOffset
from barnabas.core.model import NO_EPOCH
from barnabas.services.broker import Broker
from barnabas.services.served import ServedTopic
from barnabas.wire.responses import Values


class Asked:
    """The topics of a request, and which of their offsets can be committed."""

    def __init__(self, broker: Broker, topics: Sequence[Any], *, by_id: bool = False) -> None:
        self.new_offsets: list[NewOffset] = []
        self._topics = topics
        self._by_id = by_id
        # The code of each partition of each topic, in the order of the request; None while it is not known.
        self._codes = [self._take(broker, topic) for topic in topics]

    def _take(self, broker: Broker, topic: Any) -> list[int | None]:
        served = self._find(broker, topic)
        if served is None:
            error = UnknownTopicId if self._by_id else UnknownTopicOrPartition
            return [error.kafka_code] * len(topic.partitions)
        codes: list[int | None] = []
        for partition in topic.partitions:
            if partition.partition_index not in served.partitions:
                codes.append(UnknownTopicOrPartition.kafka_code)
                continue
            codes.append(None)
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
        return codes

    def _find(self, broker: Broker, topic: Any) -> ServedTopic | None:
        if self._by_id:
            return None if topic.topic_id is None else broker.served.by_id.get(topic.topic_id)
        return broker.served.by_name.get(topic.name)

    def answer(self, committed: Iterable[int]) -> list[Values]:
        """The topics of the answer, with what became of `new_offsets`."""
        rest = iter(committed)
        return [
            {
                **({"topic_id": topic.topic_id} if self._by_id else {"name": topic.name}),
                "partitions": [
                    {
                        "partition_index": partition.partition_index,
                        "error_code": next(rest) if code is None else code,
                    }
                    for partition, code in zip(topic.partitions, codes, strict=True)
                ],
            }
            for topic, codes in zip(self._topics, self._codes, strict=True)
        ]
