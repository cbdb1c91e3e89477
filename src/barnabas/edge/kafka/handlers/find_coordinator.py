"""FindCoordinator, versions 0 to 6: which node coordinates a group or a transactional id. Many at once from 4 on.

Differs from Kafka: the topic of groups or of transactions, if it is not there, is there when the answer is, where Kafka
answers that there is no coordinator yet. Keys of share groups are refused.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError, CoordinatorNotAvailable, InvalidRequest
from barnabas.core.metadata.image import Node
from barnabas.core.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

GROUP: Final = 0
TRANSACTION: Final = 1
_BATCHED_FROM: Final = 4
_PER_TURN: Final = 50
_NO_NODE: Final = {"node_id": -1, "host": "", "port": -1}


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    key_type = getattr(request, "key_type", GROUP)
    if asked.version < _BATCHED_FROM:
        return {"throttle_time": 0, **await _answer(broker, key_type, request.key)}
    coordinators = [
        {"key": key, **await _answer(broker, key_type, key)}
        async for key in in_turns(request.coordinator_keys, per_turn=_PER_TURN, letters=len)
    ]
    return {"throttle_time": 0, "coordinators": coordinators}


async def _answer(broker: Broker, key_type: int, key: str) -> Values:
    try:
        node = await _find(broker, key_type, key)
    except BarnabasError as error:
        return {**_NO_NODE, "error_code": error.kafka_code, "error_message": str(error)}
    return {
        "node_id": node.node_id,
        "host": node.host,
        "port": node.port,
        "error_code": 0,
        "error_message": "NONE",  # what Kafka says
    }


async def _find(broker: Broker, key_type: int, key: str) -> Node:
    if key_type == TRANSACTION:
        topic_name, partition = TRANSACTIONS_TOPIC, await broker.transactions.find_partition(key)
    elif key_type == GROUP:
        topic_name, partition = OFFSETS_TOPIC, await broker.groups.find_partition(key)
    else:
        raise InvalidRequest(f"there are no coordinators of type {key_type}")
    topic = broker.image.topics.get(topic_name)
    node = None if topic is None else broker.image.nodes.get(topic.partitions[partition].leader)
    if node is None:
        raise CoordinatorNotAvailable(f"partition {partition} of '{topic_name}' has no leader")
    return node
