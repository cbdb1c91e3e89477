"""WriteShareGroupState, versions 0 and 1: what has changed in a share partition.

From the leader of the partition; what it answers is durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.groups.share.partition import StateBatch, StateWrite
from barnabas.core.groups.share.persisted import ShareKey
from barnabas.core.groups.share.window import Persisted
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.handlers.share_state_outcomes import for_each_state
from barnabas.edge.kafka.registry import serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import WRITE_SHARE_GROUP_STATE

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import write_share_group_state as message


@serves(WRITE_SHARE_GROUP_STATE, 0, 1)
async def handle(
    broker: Broker, request: message.WriteShareGroupStateRequest, asked: Asked
) -> message.WriteShareGroupStateResponse:
    """See the module."""

    async def do(key: ShareKey, wanted: message.PartitionData) -> message.PartitionResult:
        write = StateWrite(
            0,
            wanted.start_offset,
            wanted.delivery_complete_count,
            tuple(
                StateBatch(each.first_offset, each.last_offset, _state(each.delivery_state), each.delivery_count)
                for each in wanted.state_batches
            ),
        )
        await broker.shares.states.write(key, write, state_epoch=wanted.state_epoch, leader_epoch=wanted.leader_epoch)
        return {"partition": key.partition, **DONE}

    results = await for_each_state(broker, asked, request.group_id, request.topics, do, _refuse)
    return {"results": [{"topic_id": topic_id, "partitions": found} for topic_id, found in results]}


def _refuse(partition: int, error: BarnabasError) -> message.PartitionResult:
    return {"partition": partition, **refused(error)}


def _state(number: int) -> Persisted:
    if number not in tuple(Persisted):
        raise InvalidRequest(f"{number} is not a state of records that can be written")
    return Persisted(number)
