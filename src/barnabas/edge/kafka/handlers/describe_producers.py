"""DescribeProducers, version 0: the producers of partitions, with the start offsets of their open transactions.

As Kafka does it. A partition that was never written to has no log, and so no producers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import Operation
from barnabas.core.errors import BarnabasError
from barnabas.core.metadata.names import check_topic_name
from barnabas.core.model import NO_OFFSET
from barnabas.core.replica.producers import Producer
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.handlers.walking import over_partitions
from barnabas.edge.kafka.registry import serves
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.apis import DESCRIBE_PRODUCERS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import describe_producers as message


@serves(DESCRIBE_PRODUCERS, 0, 0)
async def handle(
    broker: Broker, request: message.DescribeProducersRequest, asked: Asked
) -> message.DescribeProducersResponse:
    """See the module."""

    def describe(topic: message.TopicRequest, index: int) -> message.PartitionResponse:
        return _partition(broker, asked.session, topic.name, index)

    described = await over_partitions(request.topics, lambda topic: topic.partition_indexes, describe)
    topics: list[message.TopicResponse] = [
        {"name": topic.name, "partitions": partitions} for topic, partitions in described
    ]
    return {"topics": topics}


def _partition(broker: Broker, session: Session, topic: str, index: int) -> message.PartitionResponse:
    try:
        broker.access.authorize_topic(session, Operation.READ, topic)
        check_topic_name(topic)
        log = broker.served.get_partition(topic, index).find_log()
    except BarnabasError as error:
        return {"partition_index": index, **refused(error), "active_producers": []}
    producers = [] if log is None else [_producer(producer) for producer in log.producers]
    return {"partition_index": index, **DONE, "active_producers": producers}


def _producer(producer: Producer) -> message.ProducerState:
    start = producer.transaction_start
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "coordinator_epoch": producer.coordinator_epoch,
        "current_txn_start_offset": NO_OFFSET if start is None else start,
    }
