"""InitializeShareGroupState, version 0: make the state of a share partition, or make it anew.

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
from barnabas.wire.apis import INITIALIZE_SHARE_GROUP_STATE

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import initialize_share_group_state as message


@serves(INITIALIZE_SHARE_GROUP_STATE, 0, 0)
async def handle(
    broker: Broker, request: message.InitializeShareGroupStateRequest, asked: Asked
) -> message.InitializeShareGroupStateResponse:
    """See the module."""

    async def do(key: ShareKey, wanted: message.PartitionData) -> message.PartitionResult:
        await broker.shares.states.initialize(key, state_epoch=wanted.state_epoch, start_offset=wanted.start_offset)
        return {"partition": key.partition, **DONE}

    results = await for_each_state(broker, asked, request.group_id, request.topics, do, _refuse)
    return {"results": [{"topic_id": topic_id, "partitions": found} for topic_id, found in results]}


def _refuse(partition: int, error: BarnabasError) -> message.PartitionResult:
    return {"partition": partition, **refused(error)}
