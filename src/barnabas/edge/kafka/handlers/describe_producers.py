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
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - there is one version
    """See the module."""
    topics = [
        {"name": topic.name, "partitions": [_partition(broker, topic.name, each) for each in topic.partition_indexes]}
        for topic in request.topics
    ]
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
