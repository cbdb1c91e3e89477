"""OffsetForLeaderEpoch, versions 2 to 4: where a leader epoch ended, so that a reader notices a truncation.

As Kafka does it; a replica is answered like any reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.walking import over_partitions
from barnabas.edge.kafka.registry import serves
from barnabas.services.broker import Broker
from barnabas.services.fetch import check_leader_epoch
from barnabas.services.session import Session
from barnabas.wire.apis import OFFSET_FOR_LEADER_EPOCH

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import offset_for_leader_epoch as message


@serves(OFFSET_FOR_LEADER_EPOCH, 2, 4)
async def handle(
    broker: Broker, request: message.OffsetForLeaderEpochRequest, asked: Asked
) -> message.OffsetForLeaderEpochResponse:
    """See the module."""

    def find(topic: message.OffsetForLeaderTopic, wanted: message.OffsetForLeaderPartition) -> message.EpochEndOffset:
        return _end(broker, asked.session, topic.topic, wanted)

    ends = await over_partitions(request.topics, lambda topic: topic.partitions, find)
    topics: list[message.OffsetForLeaderTopicResult] = [
        {"topic": topic.topic, "partitions": partitions} for topic, partitions in ends
    ]
    return {"topics": topics}


def _end(
    broker: Broker, session: Session, topic: str, wanted: message.OffsetForLeaderPartition
) -> message.EpochEndOffset:
    try:
        if not broker.access.allows_unnamed(session, Operation.CLUSTER_ACTION, CLUSTER):
            broker.access.authorize_topic(session, Operation.DESCRIBE, topic)
        partition = broker.served.get_partition(topic, wanted.partition)
        check_leader_epoch(partition, wanted.current_leader_epoch)
        epoch, end_offset = partition.epoch_end(wanted.leader_epoch)
    except BarnabasError as error:
        return {"partition": wanted.partition, "error_code": error.kafka_code}
    return {"partition": wanted.partition, "error_code": 0, "leader_epoch": epoch, "end_offset": end_offset}
