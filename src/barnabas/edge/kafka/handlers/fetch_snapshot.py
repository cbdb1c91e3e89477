"""FetchSnapshot, versions 0 to 1: a piece of a snapshot of the metadata log.

See `quorum_requests` for what all requests of the quorum have in common. A partition that is not that of the metadata
log is an error of the partition here, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.core.errors import UnknownTopicOrPartition
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.quorum_requests import answer
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.raft_driver.wire_requests import read_fetch_snapshot
from barnabas.services.broker import Broker
from barnabas.wire.apis import FETCH_SNAPSHOT

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import fetch_snapshot as message


@serves(FETCH_SNAPSHOT, 0, 1, on=On.CONTROLLERS)
async def handle(broker: Broker, request: message.FetchSnapshotRequest, asked: Asked) -> message.FetchSnapshotResponse:
    """See the module."""
    answered = await answer(broker, request, asked, read_fetch_snapshot)
    if answered["error_code"] == UnknownTopicOrPartition.kafka_code:
        (topic,) = request.topics
        (partition,) = topic.partitions
        unknown: message.PartitionSnapshotAnswer = {"index": partition.partition, **answered}  # type: ignore[typeddict-item]
        return {"error_code": 0, "topics": [{"name": topic.name, "partitions": [unknown]}]}
    return cast("message.FetchSnapshotResponse", answered)
