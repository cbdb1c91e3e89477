"""WriteTxnMarkers, versions 1 and 2: end transactions in partitions of this node.

For coordinators on other nodes, and for operators who end what hangs.
"""

from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.walking import over_partitions
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.markers import TransactionEnd
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - fields have defaults
    """See the module."""
    return {"markers": [await _write(broker, marker) async for marker in in_turns(request.markers)]}


async def _write(broker: Broker, marker: Any) -> Values:
    end = TransactionEnd(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        getattr(marker, "transaction_version", 0),
    )
    places = (TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes)
    names = [name async for name in in_turns(places)]
    results = await broker.markers.write(end, names)
    told = await over_partitions(
        marker.topics,
        lambda topic: topic.partition_indexes,
        lambda topic, index: {
            "partition_index": index,
            "error_code": _code(results[TopicPartition(topic.name, index)]),
        },
    )
    topics = [{"name": topic.name, "partitions": partitions} for topic, partitions in told]
    return {"producer_id": marker.producer_id, "topics": topics}


def _code(error: BarnabasError | None) -> int:
    return 0 if error is None else error.kafka_code
