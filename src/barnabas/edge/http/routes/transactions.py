"""Transactions of the whole cluster."""

from typing import Any

from barnabas.core.access.resources import Operation, transactional_id
from barnabas.core.errors import BarnabasError, TransactionalIdNotFound
from barnabas.core.metadata.names import TRANSACTIONS_TOPIC
from barnabas.edge.http import models
from barnabas.edge.http.calling import Call, Param, Route
from barnabas.edge.http.context import Context, check
from barnabas.wire.apis import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS
from barnabas.wire.writing import Values


async def list_transactions(context: Context, call: Call) -> models.Transactions:
    """Transactions of all nodes, by state and by how long they have been open."""
    values: Values = {
        "state_filters": call.texts("state"),
        "producer_id_filters": [],
        "duration_filter": call.number("longer_than_ms", -1, at_least=-1),
        "transactional_id_pattern": None,
    }
    answers = await context.ask_all(call.session, LIST_TRANSACTIONS.key, values)
    found: list[models.Transaction] = []
    errors: dict[int, str] = {}
    for node_id, answer in answers.items():
        try:
            if isinstance(answer, BarnabasError):
                raise answer
            check(answer.error_code)
        except BarnabasError as error:
            errors[node_id] = str(error)
            continue
        found += [
            models.Transaction(
                transactional_id=each.transactional_id,
                state=each.transaction_state,
                producer_id=int(each.producer_id),
                coordinator=node_id,
            )
            for each in answer.transaction_states
            if context.allows(call.session, Operation.DESCRIBE, transactional_id(each.transactional_id))
        ]
    return models.Transactions(transactions=sorted(found, key=lambda each: each.transactional_id), errors=errors)


async def describe_transaction(context: Context, call: Call) -> models.Transaction:
    """One transactional id: its producer, and the partitions of its open transaction."""
    name = call.path["id"]
    context.authorize(call.session, Operation.DESCRIBE, transactional_id(name))
    if TRANSACTIONS_TOPIC not in context.broker.image.topics:
        raise TransactionalIdNotFound(f"there is no transactional id '{name}'")
    coordinator = context.coordinator_of(name, of=TRANSACTIONS_TOPIC)
    answer = await context.ask(call.session, coordinator, DESCRIBE_TRANSACTIONS.key, {"transactional_ids": [name]})
    (each,) = answer.transaction_states
    check(each.error_code, f"there is no transactional id '{name}'")
    return models.Transaction(
        transactional_id=name,
        state=each.transaction_state,
        producer_id=int(each.producer_id),
        coordinator=coordinator,
        producer_epoch=int(each.producer_epoch),
        timeout_ms=_ms(each.transaction_timeout),
        start_ms=_ms(each.transaction_start_time),
        partitions=[
            models.TopicPartitions(topic=topic.topic, partitions=[int(number) for number in topic.partitions])
            for topic in each.topics
            if context.broker.access.allows_topic(call.session, Operation.DESCRIBE, topic.topic)
        ],
    )


def _ms(value: Any) -> int | None:
    """Milliseconds of a time or of a span of time; None where there is none."""
    if value is None:
        return None
    seconds = value.total_seconds() if hasattr(value, "total_seconds") else value.timestamp()
    return None if seconds < 0 else round(seconds * 1000)


ROUTES = (
    Route(
        "GET",
        "/transactions",
        list_transactions,
        "Transactions of the whole cluster.",
        models.Transactions,
        params=(
            Param("state", "array", "Only those in this state, as in Ongoing."),
            Param("longer_than_ms", "integer", "Only those that have been open for so long."),
        ),
    ),
    Route("GET", "/transactions/{id}", describe_transaction, "One transactional id.", models.Transaction),
)
