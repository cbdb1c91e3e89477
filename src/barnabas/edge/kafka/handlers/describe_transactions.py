"""DescribeTransactions, version 0: transactions by their ids.

Differs from Kafka: an id that is named several times is answered once.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.core.transactions.records import TransactionRecord
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

_PER_TURN: Final = 50


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - there is one version
    """See the module."""
    states: dict[str, Values] = {}
    async for transactional_id in in_turns(request.transactional_ids, per_turn=_PER_TURN, letters=len):
        if transactional_id not in states:
            states[transactional_id] = await _describe(broker, transactional_id)
    return {"throttle_time": 0, "transaction_states": list(states.values())}


async def _describe(broker: Broker, transactional_id: str) -> Values:
    try:
        return _state(await broker.transactions.describe(transactional_id))
    except BarnabasError as error:
        return {
            "error_code": error.kafka_code,
            "transactional_id": transactional_id,
            "producer_id": NO_PRODUCER_ID,
            "producer_epoch": NO_PRODUCER_EPOCH,
        }


def _state(record: TransactionRecord) -> Values:
    return {
        "error_code": 0,
        "transactional_id": record.transactional_id,
        "transaction_state": record.state.label,
        "transaction_timeout": record.timeout_ms,
        "transaction_start_time": record.start_ms,
        "producer_id": record.producer_id,
        "producer_epoch": record.epoch,
        "topics": [{"topic": topic, "partitions": list(partitions)} for topic, partitions in record.partitions],
    }
