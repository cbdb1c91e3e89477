"""AddPartitionsToTxn, versions 0 to 5: partitions become part of a transaction.

From version 4 on, which brokers use among themselves, of many transactions at once, or only to ask whether they are.

As Kafka does it: when one of them cannot be, none is. The broker's own topics are not for clients to write to.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from barnabas.core.errors import (
    BarnabasError,
    OperationNotAttempted,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from barnabas.core.metadata.names import is_internal
from barnabas.core.model import TopicPartition
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.fencing import code_of
from barnabas.edge.kafka.handlers.walking import over_partitions
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.transactions import EPOCHS_VERSION
from barnabas.wire.responses import Values

_BATCHED_FROM: Final = 4

Codes = Mapping[TopicPartition, int]


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    if asked.version >= _BATCHED_FROM:
        results = [
            {
                "transactional_id": each.transactional_id,
                "topic_results": await _topics(each.topics, await _add(broker, each, asked.version)),
            }
            async for each in in_turns(request.transactions, letters=lambda each: len(each.transactional_id))
        ]
        return {"throttle_time": 0, "error_code": 0, "results_by_transaction": results}
    single = _Single(request)
    codes = await _add(broker, single, asked.version)
    return {"throttle_time": 0, "results_by_topic_v3_and_below": await _topics(single.topics, codes)}


class _Single:
    """The one transaction of an older version, under the names of the newer ones."""

    def __init__(self, request: Any) -> None:
        self.transactional_id = request.v3_and_below_transactional_id
        self.producer_id = request.v3_and_below_producer_id
        self.producer_epoch = request.v3_and_below_producer_epoch
        self.topics = request.v3_and_below_topics
        self.verify_only = False


async def _add(broker: Broker, transaction: Any, version: int) -> Codes:
    names: list[TopicPartition] = []
    wrong: dict[TopicPartition, int] = {}
    places = (TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions)
    async for name in in_turns(places):
        names.append(name)
        code = _wrong(broker, name, version)
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


def _wrong(broker: Broker, name: TopicPartition, version: int) -> int:
    if is_internal(name.topic) and version < _BATCHED_FROM:
        return TopicAuthorizationFailed.kafka_code
    topic = broker.served.by_name.get(name.topic)
    return 0 if topic is not None and name.partition in topic.partitions else UnknownTopicOrPartition.kafka_code


def _codes(errors: Mapping[TopicPartition, BarnabasError | None]) -> Codes:
    return {name: 0 if error is None else error.kafka_code for name, error in errors.items()}


async def _topics(topics: Sequence[Any], codes: Codes) -> Sequence[Values]:
    told = await over_partitions(
        topics,
        lambda topic: topic.partitions,
        lambda topic, index: {
            "partition_index": index,
            "partition_error_code": codes[TopicPartition(topic.name, index)],
        },
    )
    return [{"name": topic.name, "results_by_partition": partitions} for topic, partitions in told]
