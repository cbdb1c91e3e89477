"""DescribeTransactions, version 0: transactions by their ids.

Differs from Kafka: an id that is named several times is answered once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import transactional_id as id_of
from barnabas.core.errors import BarnabasError
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.core.transactions.records import TransactionRecord
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.apis import DESCRIBE_TRANSACTIONS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import describe_transactions as message

_PER_TURN: Final = 20


@serves(DESCRIBE_TRANSACTIONS, 0, 0)
async def handle(
    broker: Broker, request: message.DescribeTransactionsRequest, asked: Asked
) -> message.DescribeTransactionsResponse:
    """See the module."""
    states: dict[str, message.TransactionState] = {}
    async for transactional_id in in_turns(request.transactional_ids, per_turn=_PER_TURN, letters=len):
        if transactional_id not in states:
            states[transactional_id] = await _describe(broker, transactional_id, asked.session)
    return {"transaction_states": list(states.values())}


async def _describe(broker: Broker, transactional_id: str, session: Session) -> message.TransactionState:
    try:
        broker.access.authorize(session, Operation.DESCRIBE, id_of(transactional_id))
        record = await broker.transactions.describe(transactional_id)
    except BarnabasError as error:
        return {
            "error_code": error.kafka_code,
            "transactional_id": transactional_id,
            "producer_id": NO_PRODUCER_ID,
            "producer_epoch": NO_PRODUCER_EPOCH,
        }
    seen = [each for each in record.partitions if broker.access.sees_topic(session, Operation.DESCRIBE, each[0])]
    return {**_state(record), "topics": [{"topic": topic, "partitions": list(indexes)} for topic, indexes in seen]}


def _state(record: TransactionRecord) -> message.TransactionState:
    return {
        "error_code": 0,
        "transactional_id": record.transactional_id,
        "transaction_state": record.state.label,
        "transaction_timeout": record.timeout_ms,
        "transaction_start_time": record.start_ms,
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
    }
