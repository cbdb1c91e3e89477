"""OffsetForLeaderEpoch, versions 2 to 4: where a leader epoch ended, so that a reader notices what was cut off.

As Kafka does it; a replica asks as any reader does.
"""

from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.core.model import NO_EPOCH
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.walking import over_partitions
from barnabas.services.broker import Broker
from barnabas.services.fetch import check_leader_epoch
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    ends = await over_partitions(
        request.topics,
        lambda topic: topic.partitions,
        lambda topic, wanted: _end(broker, topic.topic, wanted),
    )
    topics = [{"topic": topic.topic, "partitions": partitions} for topic, partitions in ends]
    return {"throttle_time": 0, "topics": topics}


def _end(broker: Broker, topic: str, wanted: Any) -> Values:
    try:
        partition = broker.served.get_partition(topic, wanted.partition)
        check_leader_epoch(partition, getattr(wanted, "current_leader_epoch", NO_EPOCH))
        epoch, end_offset = partition.epoch_end(wanted.leader_epoch)
    except BarnabasError as error:
        return {"partition": wanted.partition, "error_code": error.kafka_code}
    return {"partition": wanted.partition, "error_code": 0, "leader_epoch": epoch, "end_offset": end_offset}
