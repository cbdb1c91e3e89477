"""ListTransactions, versions 0 to 2: the transactions that this node coordinates. Version 1 can ask for those that have
lasted for some time, version 2 for ids that match a regular expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import Operation, transactional_id
from barnabas.core.errors import BarnabasError
from barnabas.core.transactions.listing import unknown_states
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import LIST_TRANSACTIONS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import list_transactions as message


@serves(LIST_TRANSACTIONS, 0, 2)
async def handle(
    broker: Broker, request: message.ListTransactionsRequest, asked: Asked
) -> message.ListTransactionsResponse:
    """See the module."""
    try:
        found = await broker.transactions.list_transactions(
            states=request.state_filters,
            producer_ids=request.producer_id_filters,
            longer_than_ms=request.duration_filter,
            id_pattern=request.transactional_id_pattern,
        )
    except BarnabasError as error:
        return {"error_code": error.kafka_code}
    return {
        "error_code": 0,
        "unknown_state_filters": unknown_states(request.state_filters),
        "transaction_states": [
            {
                "transactional_id": record.transactional_id,
                "producer_id": record.producer_id,
                "transaction_state": record.state.label,
            }
            async for record in in_turns(found)
            if broker.access.allows_unnamed(
                asked.session, Operation.DESCRIBE, transactional_id(record.transactional_id)
            )
        ],
    }
