"""ListTransactions, versions 0 to 2: the transactions that this node coordinates. Version 1 can ask for those that have
lasted for some time, version 2 for ids that match a regular expression.
"""

from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.core.transactions.listing import unknown_states
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - fields have defaults
    """See the module."""
    try:
        found = await broker.transactions.list_transactions(
            states=request.state_filters,
            producer_ids=request.producer_id_filters,
            longer_than_ms=getattr(request, "duration_filter", -1),
            id_pattern=getattr(request, "transactional_id_pattern", None),
        )
    except BarnabasError as error:
        return {"throttle_time": 0, "error_code": error.kafka_code}
    return {
        "throttle_time": 0,
        "error_code": 0,
        "unknown_state_filters": unknown_states(request.state_filters),
        "transaction_states": [
            {
                "transactional_id": record.transactional_id,
                "producer_id": record.producer_id,
                "transaction_state": record.state.label,
            }
            async for record in in_turns(found)
        ],
    }
