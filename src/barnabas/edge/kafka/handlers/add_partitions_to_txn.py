"""AddPartitionsToTxn, versions 0 to 5: partitions become part of a transaction.

From version 4 on, which brokers use among themselves, for many transactions at once, or only to verify that they are.

As Kafka does it: if one of them is refused, none is added. Clients may not write to internal topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import CLUSTER, Operation, transactional_id
from barnabas.core.errors import (
    BarnabasError,
    ClusterAuthorizationFailed,
    OperationNotAttempted,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from barnabas.core.metadata.names import is_internal
from barnabas.core.model import TopicPartition
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.fencing import code_of
from barnabas.edge.kafka.handlers.walking import over_partitions
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.letting_go import let_go_flat
from barnabas.runtime.turns import PER_TURN, in_turns, next_turn
from barnabas.services.broker import Broker
from barnabas.services.transactions import EPOCHS_VERSION
from barnabas.wire.apis import ADD_PARTITIONS_TO_TXN

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import add_partitions_to_txn as message

_BATCHED_FROM: Final = 4

Codes = Mapping[TopicPartition, int]


@serves(ADD_PARTITIONS_TO_TXN, 0, 5)
async def handle(
    broker: Broker, request: message.AddPartitionsToTxnRequest, asked: Asked
) -> message.AddPartitionsToTxnResponse:
    """See the module."""
    if asked.version >= _BATCHED_FROM:
        if not broker.access.allows(asked.session, Operation.CLUSTER_ACTION, CLUSTER):
            return {"error_code": ClusterAuthorizationFailed.kafka_code}
        results: list[message.AddPartitionsToTxnResult] = [
            {
                "transactional_id": each.transactional_id,
                "topic_results": await _topics(each.topics, await _add(broker, each, asked)),
            }
            async for each in in_turns(request.transactions, letters=lambda each: len(each.transactional_id))
        ]
        return {"error_code": 0, "results_by_transaction": results}
    single = _Single(request)
    codes = await _add(broker, single, asked)
    return {"results_by_topic_v3_and_below": await _topics(single.topics, codes)}


class _Single:
    """The one transaction of an older version, under the names of the newer ones."""

    def __init__(self, request: message.AddPartitionsToTxnRequest) -> None:
        self.transactional_id = request.v3_and_below_transactional_id
        self.producer_id = request.v3_and_below_producer_id
        self.producer_epoch = request.v3_and_below_producer_epoch
        self.topics = request.v3_and_below_topics
        self.verify_only = False


async def _add(broker: Broker, transaction: message.AddPartitionsToTxnTransaction, asked: Asked) -> Codes:
    version = asked.version
    names: list[TopicPartition] = []
    wrong: dict[TopicPartition, int] = {}
    places = (TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions)
    may_use = version >= _BATCHED_FROM or broker.access.allows(
        asked.session, Operation.WRITE, transactional_id(transaction.transactional_id)
    )
    for number, name in enumerate(places, 1):
        if not number % PER_TURN:
            await next_turn()
        names.append(name)
        code = _wrong(broker, name, asked) if may_use else TransactionalIdAuthorizationFailed.kafka_code
        if code:
            wrong[name] = code
    if wrong:
        return {name: wrong.get(name, OperationNotAttempted.kafka_code) for name in names}
    who = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    try:
        if transaction.verify_only:
            return _codes(await broker.transactions.verify(*who, names))
        is_new = version >= _BATCHED_FROM
        await broker.transactions.add_partitions(*who, names, version=EPOCHS_VERSION if is_new else 0)
    except BarnabasError as refusal:
        return dict.fromkeys(names, code_of(refusal, version))
    return dict.fromkeys(names, 0)


def _wrong(broker: Broker, name: TopicPartition, asked: Asked) -> int:
    is_client = asked.version < _BATCHED_FROM
    if is_client and (
        is_internal(name.topic) or not broker.access.allows_topic(asked.session, Operation.WRITE, name.topic)
    ):
        return TopicAuthorizationFailed.kafka_code
    topic = broker.served.by_name.get(name.topic)
    return 0 if topic is not None and name.partition in topic.partitions else UnknownTopicOrPartition.kafka_code


def _codes(errors: Mapping[TopicPartition, BarnabasError | None]) -> Codes:
    return {name: 0 if error is None else error.kafka_code for name, error in errors.items()}


async def _topics(
    topics: Sequence[message.AddPartitionsToTxnTopic], codes: Codes
) -> Sequence[message.AddPartitionsToTxnTopicResult]:
    def tell(topic: message.AddPartitionsToTxnTopic, index: int) -> message.AddPartitionsToTxnPartitionResult:
        return {"partition_index": index, "partition_error_code": codes[TopicPartition(topic.name, index)]}

    told = await over_partitions(topics, lambda topic: topic.partitions, tell)
    let_go_flat(codes)
    return [{"name": topic.name, "results_by_partition": partitions} for topic, partitions in told]
