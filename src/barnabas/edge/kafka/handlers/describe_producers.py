"""DescribeProducers, version 0: who wrote to partitions, and since where each has a transaction open.

As Kafka does it. A partition that nobody has written to has no log, and so no producers.
"""

from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.core.metadata.names import check_topic_name
from barnabas.core.model import NO_OFFSET
from barnabas.core.replica.producers import Producer
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.handlers.walking import over_partitions
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - there is one version
    """See the module."""
    described = await over_partitions(
        request.topics,
        lambda topic: topic.partition_indexes,
        lambda topic, index: _partition(broker, topic.name, index),
    )
    topics = [{"name": topic.name, "partitions": partitions} for topic, partitions in described]
    return {"throttle_time": 0, "topics": topics}


def _partition(broker: Broker, topic: str, index: int) -> Values:
    try:
        check_topic_name(topic)
        log = broker.served.get_partition(topic, index).find_log()
    except BarnabasError as error:
        return {"partition_index": index, **refused(error), "active_producers": []}
    producers = [] if log is None else [_producer(producer) for producer in log.producers]
    return {"partition_index": index, **DONE, "active_producers": producers}


def _producer(producer: Producer) -> Values:
    start = producer.transaction_start
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "coordinator_epoch": producer.coordinator_epoch,
        "current_txn_start_offset": NO_OFFSET if start is None else start,
    }
