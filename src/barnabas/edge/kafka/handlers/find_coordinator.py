"""FindCoordinator, versions 0 to 6: which node coordinates a group, a transactional id, or (from 6 on) the state of a
share partition. Many at once from 4 on.

Differs from Kafka: the internal topic is created, if it does not exist, before the answer, where Kafka answers that
there is no coordinator yet. A node that is cut off from the others names who most likely coordinates in its place
(decision 25).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import CLUSTER, Operation, group, transactional_id
from barnabas.core.errors import BarnabasError, CoordinatorNotAvailable, InvalidRequest
from barnabas.core.metadata.electing import stand_in
from barnabas.core.metadata.image import Node, Topic
from barnabas.core.metadata.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.apis import FIND_COORDINATOR

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    from barnabas.edge.kafka.messages import find_coordinator as message

    class _Found(TypedDict, closed=True):
        """The answer for one coordinator."""

        node_id: int
        host: str
        port: int
        error_code: int
        error_message: str | None


GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
_SHARES_FROM: Final = 6
_SHARE_KEY: Final = re.compile(r".+:[A-Za-z0-9_-]{22}:[0-9]+", re.DOTALL)
_BATCHED_FROM: Final = 4
_PER_TURN: Final = 20


@serves(FIND_COORDINATOR, 0, 6)
async def handle(
    broker: Broker, request: message.FindCoordinatorRequest, asked: Asked
) -> message.FindCoordinatorResponse:
    """See the module."""
    key_type = request.key_type
    if asked.version < _BATCHED_FROM:
        return {**await _answer(broker, key_type, request.key, asked)}
    coordinators: list[message.Coordinator] = [
        {"key": key, **await _answer(broker, key_type, key, asked)}
        async for key in in_turns(request.coordinator_keys, per_turn=_PER_TURN, letters=len)
    ]
    return {"coordinators": coordinators}


async def _answer(broker: Broker, key_type: int, key: str, asked: Asked) -> _Found:
    session = asked.session
    try:
        node = await _find(broker, key_type, key, session, version=asked.version)
    except BarnabasError as error:
        return {"node_id": -1, "host": "", "port": -1, "error_code": error.kafka_code, "error_message": str(error)}
    endpoint = node.endpoint(session.listener)
    return {
        "node_id": node.node_id,
        "host": endpoint.host,
        "port": endpoint.port,
        "error_code": 0,
        "error_message": "NONE",  # what Kafka says
    }


def _leader(broker: Broker, topic: Topic, partition: int) -> int:
    """Who leads, or, of what this node leads while it is cut off from the others, most likely leads by now."""
    state = topic.partitions[partition]
    if (topic.name, partition) in broker.logs.replicas.cut_off:
        return stand_in(broker.image, state)
    return state.leader


async def _find(broker: Broker, key_type: int, key: str, session: Session, *, version: int) -> Node:
    if key_type == TRANSACTION:
        broker.access.authorize(session, Operation.DESCRIBE, transactional_id(key))
        topic_name, partition = TRANSACTIONS_TOPIC, await broker.transactions.find_partition(key)
    elif key_type == GROUP:
        broker.access.authorize(session, Operation.DESCRIBE, group(key))
        topic_name, partition = OFFSETS_TOPIC, await broker.groups.find_partition(key)
    elif key_type == SHARE and version >= _SHARES_FROM:
        broker.access.authorize(session, Operation.CLUSTER_ACTION, CLUSTER)
        if not _SHARE_KEY.fullmatch(key):
            raise InvalidRequest("the key of a share partition is its group, topic id and number: group:topicId:0")
        topic_name, partition = SHARE_STATE_TOPIC, await broker.shares.states.find_partition(key)
    else:
        raise InvalidRequest(f"there are no coordinators of type {key_type}")
    topic = broker.image.topics.get(topic_name)
    node = None if topic is None else broker.image.nodes.get(_leader(broker, topic, partition))
    if node is None or node.is_fenced:
        raise CoordinatorNotAvailable(f"partition {partition} of '{topic_name}' has no leader")
    return node
