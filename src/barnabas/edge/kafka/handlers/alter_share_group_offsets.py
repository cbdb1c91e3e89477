"""AlterShareGroupOffsets, version 0: where a share group without members reads from now on.

Goes to the coordinator of the group. What was acknowledged behind the new start offset is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import group as group_of
from barnabas.core.access.resources import topic as topic_of
from barnabas.core.errors import BarnabasError, TopicAuthorizationFailed
from barnabas.core.groups.records import NO_TOPIC_ID
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.handlers.sharing import code_of, text_of
from barnabas.edge.kafka.registry import serves
from barnabas.services.access import refusal_of
from barnabas.services.broker import Broker
from barnabas.services.features import check_shares
from barnabas.services.session import Session
from barnabas.wire.apis import ALTER_SHARE_GROUP_OFFSETS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import alter_share_group_offsets as message


@serves(ALTER_SHARE_GROUP_OFFSETS, 0, 0)
async def handle(
    broker: Broker, request: message.AlterShareGroupOffsetsRequest, asked: Asked
) -> message.AlterShareGroupOffsetsResponse:
    """See the module."""
    wanted = {
        topic.topic_name: {each.partition_index: each.start_offset for each in topic.partitions}
        for topic in request.topics
    }
    allowed = {name: found for name, found in wanted.items() if _may(broker, asked.session, name)}
    try:
        check_shares(broker.image)
        broker.access.authorize(asked.session, Operation.READ, group_of(request.group_id))
        outcomes = await broker.shares.groups.alter_offsets(request.group_id, allowed)
    except BarnabasError as error:
        return {**refused(error), "responses": []}
    for name, partitions in wanted.items():
        if name not in allowed:
            refusal = refusal_of(Operation.READ, topic_of(name))
            outcomes |= {(name, index): refusal for index in partitions}
    return {**DONE, "responses": [_topic(broker, name, found, outcomes) for name, found in wanted.items()]}


def _may(broker: Broker, session: Session, name: str) -> bool:
    return broker.access.allows_topic(session, Operation.READ, name)


def _topic(
    broker: Broker, name: str, partitions: dict[int, int], outcomes: dict[tuple[str, int], BarnabasError | None]
) -> message.AlterShareGroupOffsetsResponseTopic:
    refused = any(isinstance(outcomes.get((name, index)), TopicAuthorizationFailed) for index in partitions)
    topic = None if refused else broker.served.by_name.get(name)  # an id would tell that it exists
    return {
        "topic_name": name,
        "topic_id": NO_TOPIC_ID if topic is None else topic.topic_id,
        "partitions": [
            {
                "partition_index": index,
                "error_code": code_of(outcomes.get((name, index))),
                "error_message": text_of(outcomes.get((name, index))),
            }
            for index in partitions
        ],
    }
