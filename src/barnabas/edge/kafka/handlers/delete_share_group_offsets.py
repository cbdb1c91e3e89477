"""DeleteShareGroupOffsets, version 0: a share group without members forgets topics, and what it has done with them.

Goes to the coordinator of the group. Should the group read such a topic again, it begins where
`share.auto.offset.reset` says.
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
from barnabas.wire.apis import DELETE_SHARE_GROUP_OFFSETS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import delete_share_group_offsets as message


@serves(DELETE_SHARE_GROUP_OFFSETS, 0, 0)
async def handle(
    broker: Broker, request: message.DeleteShareGroupOffsetsRequest, asked: Asked
) -> message.DeleteShareGroupOffsetsResponse:
    """See the module."""
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    allowed = [name for name in names if broker.access.allows_topic(asked.session, Operation.READ, name)]
    try:
        broker.access.authorize(asked.session, Operation.DELETE, group_of(request.group_id))
        outcomes = await broker.shares.groups.delete_offsets(request.group_id, allowed)
    except BarnabasError as error:
        return {**refused(error), "responses": []}
    for name in names:
        if name not in allowed:
            outcomes[name] = refusal_of(Operation.READ, topic_of(name))
    return {**DONE, "responses": [_topic(broker, name, outcomes[name]) for name in names]}


def _topic(broker: Broker, name: str, error: BarnabasError | None) -> message.DeleteShareGroupOffsetsResponseTopic:
    refused = isinstance(error, TopicAuthorizationFailed)
    topic = None if refused else broker.served.by_name.get(name)  # an id would tell that it exists
    return {
        "topic_name": name,
        "topic_id": NO_TOPIC_ID if topic is None else topic.topic_id,
        "error_code": code_of(error),
        "error_message": text_of(error),
    }
