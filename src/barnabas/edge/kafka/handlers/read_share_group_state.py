"""ReadShareGroupState, version 0: the state of a share partition, for a leader that begins to lead it.

From the leader of the partition; what it answers is durable.
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
from barnabas.wire.apis import READ_SHARE_GROUP_STATE

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import read_share_group_state as message


@serves(READ_SHARE_GROUP_STATE, 0, 0)
async def handle(
    broker: Broker, request: message.ReadShareGroupStateRequest, asked: Asked
) -> message.ReadShareGroupStateResponse:
    """See the module."""

    async def do(key: ShareKey, wanted: message.PartitionData) -> message.PartitionResult:
        state = await broker.shares.states.read(key, leader_epoch=wanted.leader_epoch)
        return {
            "partition": key.partition,
            **DONE,
            "state_epoch": state.state_epoch,
            "start_offset": state.start_offset,
            "state_batches": [
                {
                    "first_offset": each.first,
                    "last_offset": each.last,
                    "delivery_state": int(each.state),
                    "delivery_count": each.delivery_count,
                }
                for each in state.batches
            ],
        }

    results = await for_each_state(broker, asked, request.group_id, request.topics, do, _refuse)
    return {"results": [{"topic_id": topic_id, "partitions": found} for topic_id, found in results]}


def _refuse(partition: int, error: BarnabasError) -> message.PartitionResult:
    return {"partition": partition, **refused(error)}
