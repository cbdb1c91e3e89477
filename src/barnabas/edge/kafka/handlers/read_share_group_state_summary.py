"""ReadShareGroupStateSummary, versions 0 and 1: where a group reads a partition.

From the coordinator of the group; what it answers is durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.errors import BarnabasError
from barnabas.core.groups.share.persisted import ShareKey
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.handlers.share_state_outcomes import for_each_state
from barnabas.edge.kafka.registry import serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import READ_SHARE_GROUP_STATE_SUMMARY

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import read_share_group_state_summary as message


@serves(READ_SHARE_GROUP_STATE_SUMMARY, 0, 1)
async def handle(
    broker: Broker, request: message.ReadShareGroupStateSummaryRequest, asked: Asked
) -> message.ReadShareGroupStateSummaryResponse:
    """See the module."""

    async def do(key: ShareKey, wanted: message.PartitionData) -> message.PartitionResult:
        state = await broker.shares.states.summarize(key)
        if state is None:  # as Kafka says it
            return {"partition": wanted.partition, **DONE, "start_offset": -1, "delivery_complete_count": -1}
        return {
            "partition": key.partition,
            **DONE,
            "state_epoch": state.state_epoch,
            "leader_epoch": state.leader_epoch,
            "start_offset": state.start_offset,
            "delivery_complete_count": state.complete_count,
        }

    results = await for_each_state(broker, asked, request.group_id, request.topics, do, _refuse)
    return {"results": [{"topic_id": topic_id, "partitions": found} for topic_id, found in results]}


def _refuse(partition: int, error: BarnabasError) -> message.PartitionResult:
    return {"partition": partition, **refused(error)}
