"""WriteTxnMarkers, versions 1 and 2: end transactions in partitions of this node.

For coordinators on other nodes, and for operators who abort hanging transactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.transactions.ending import TransactionEnd
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.walking import over_partitions
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.letting_go import let_go_flat
from barnabas.runtime.turns import in_turns
from barnabas.services.access import refusal_of
from barnabas.services.broker import Broker
from barnabas.wire.apis import WRITE_TXN_MARKERS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import write_txn_markers as message


@serves(WRITE_TXN_MARKERS, 1, 2)
async def handle(
    broker: Broker, request: message.WriteTxnMarkersRequest, asked: Asked
) -> message.WriteTxnMarkersResponse:
    """See the module."""
    may = broker.access.allows_unnamed(asked.session, Operation.ALTER, CLUSTER) or broker.access.allows(
        asked.session, Operation.CLUSTER_ACTION, CLUSTER
    )
    return {"markers": [await _write(broker, marker, is_allowed=may) async for marker in in_turns(request.markers)]}


async def _write(
    broker: Broker, marker: message.WritableTxnMarker, *, is_allowed: bool
) -> message.WritableTxnMarkerResult:
    end = TransactionEnd(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )
    places = (TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes)
    names = [name async for name in in_turns(places)]
    results: Mapping[TopicPartition, BarnabasError | None]
    if is_allowed:
        results = await broker.markers.write(end, names)
    else:
        results = dict.fromkeys(names, refusal_of(Operation.CLUSTER_ACTION, CLUSTER))

    def tell(topic: message.WritableTxnMarkerTopic, index: int) -> message.WritableTxnMarkerPartitionResult:
        return {"partition_index": index, "error_code": _code(results[TopicPartition(topic.name, index)])}

    told = await over_partitions(marker.topics, lambda topic: topic.partition_indexes, tell)
    let_go_flat(names, results)
    topics: list[message.WritableTxnMarkerTopicResult] = [
        {"name": topic.name, "partitions": partitions} for topic, partitions in told
    ]
    return {"producer_id": marker.producer_id, "topics": topics}


def _code(error: BarnabasError | None) -> int:
    return 0 if error is None else error.kafka_code
