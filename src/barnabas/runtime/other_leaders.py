"""What the leaders of partitions on other nodes are asked for, in Kafka's own requests: records, offsets, a write.

The caller has checked that whoever asks may do it: here the node itself asks.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from barnabas.core.errors import BarnabasError, LeaderNotAvailable
from barnabas.core.errors.codes import Refused, refusal_of
from barnabas.core.fetched import CONSUMER
from barnabas.core.model import NO_EPOCH, TopicPartition
from barnabas.runtime.other_brokers import Ask
from barnabas.wire.apis import FETCH, LIST_OFFSETS, PRODUCE
from barnabas.wire.writing import Values

PURPOSE: Final = "edges"
"""The purpose of a connection: what clients of HTTP ask for waits for nothing else, and nothing for it."""
TIMEOUT_S: Final = 10.0
_IDS_FROM: Final = 13
SETTLING_S: Final = 2.0
SETTLE_PAUSE_S: Final = 0.05
NOT_YET: Final = frozenset({3, 5, 6, 75, 76, 100})
"""Codes of a node that does not know a topic, a leader or a leader epoch yet, or knows that of before."""

T = TypeVar("T")


class FetchedBatches(NamedTuple):
    """Batches as they are in the log, and what the leader said of it."""

    records: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] = ()  # producer ids and first offsets of transactions that were aborted


class ListedOffset(NamedTuple):
    """An offset that a leader found, and the time of its record; -1 where there is none."""

    offset: int
    timestamp: int


async def settled(ask: Callable[[], Awaitable[T]]) -> T:
    """What a node answers once it knows what this one knows: of a new topic, or a new leader, it may hear a moment
    later. Nothing is done by a request that is refused like this.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + SETTLING_S
    while True:
        try:
            return await ask()
        except BarnabasError as error:
            code = error.code if isinstance(error, Refused) else error.kafka_code
            if code not in NOT_YET or loop.time() >= give_up_at:
                raise
        await asyncio.sleep(SETTLE_PAUSE_S)


async def fetch(
    others: Ask,
    node_id: int,
    topic_id: UUID,
    name: TopicPartition,
    *,
    offset: int,
    max_bytes: int,
    isolation_level: int,
    max_wait_ms: int = 0,
) -> FetchedBatches:
    """Read batches of a partition from its leader."""
    asked: Values = {"partition": name.partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    values: Values = {
        "replica_id": CONSUMER,
        "max_wait": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": max_bytes,
        "isolation_level": isolation_level,
        "session_epoch": -1,
        "topics": [{"topic_id": topic_id, "partitions": [asked]}],
    }
    timeout_s = TIMEOUT_S + max_wait_ms / 1000
    answer = await others.ask(node_id, FETCH.key, values, timeout_s=timeout_s, purpose=PURPOSE, min_version=_IDS_FROM)
    _check(answer.error_code, name, node_id)
    for each in (part for topic in answer.responses for part in topic.partitions):
        _check(each.error_code, name, node_id)
        return FetchedBatches(
            bytes(each.records or b""),
            int(each.high_watermark),
            int(each.last_stable_offset),
            int(each.log_start_offset),
            tuple((int(one.producer_id), int(one.first_offset)) for one in each.aborted_transactions or ()),
        )
    raise LeaderNotAvailable(f"node {node_id} said nothing of {name}")


async def list_offsets(
    others: Ask, node_id: int, names: Iterable[TopicPartition], *, timestamp: int, isolation_level: int
) -> dict[TopicPartition, ListedOffset | BarnabasError]:
    """Find an offset by time, or the first or the last one, of partitions that a node leads."""
    topics: Mapping[str, list[Any]] = defaultdict(list)
    for topic, partition in names:
        topics[topic].append({"partition_index": partition, "current_leader_epoch": NO_EPOCH, "timestamp": timestamp})
    values: Values = {
        "replica_id": CONSUMER,
        "isolation_level": isolation_level,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }
    answer = await others.ask(node_id, LIST_OFFSETS.key, values, timeout_s=TIMEOUT_S, purpose=PURPOSE, min_version=1)
    found: dict[TopicPartition, ListedOffset | BarnabasError] = {}
    for topic_answer in answer.topics:
        for each in topic_answer.partitions:
            name = TopicPartition(topic_answer.name, int(each.partition_index))
            if each.error_code:
                found[name] = _refusal(int(each.error_code), name, node_id)
            else:
                found[name] = ListedOffset(int(each.offset), int(each.timestamp))
    return found


async def produce(
    others: Ask,
    node_id: int,
    topic_id: UUID,
    name: TopicPartition,
    records: bytes,
    *,
    acks: int,
    timeout_ms: int,
) -> ListedOffset:
    """Have a leader append a batch; returns its first offset, and its time if the log gave it one."""
    values: Values = {
        "transactional_id": None,
        "acks": acks,
        "timeout": timeout_ms,
        "topic_data": [
            {
                "name": name.topic,
                "topic_id": topic_id,  # instead of the name, from version 13 on
                "partition_data": [{"index": name.partition, "records": records}],
            },
        ],
    }
    timeout_s = TIMEOUT_S + timeout_ms / 1000
    answer = await others.ask(node_id, PRODUCE.key, values, timeout_s=timeout_s, purpose=PURPOSE, min_version=9)
    for each in (part for topic in answer.responses for part in topic.partition_responses):
        if each.error_code:
            raise _refusal(int(each.error_code), name, node_id, each.error_message)
        return ListedOffset(int(each.base_offset), _ms_of(each.log_append_time))
    raise LeaderNotAvailable(f"node {node_id} said nothing of {name}")


def _ms_of(value: Any) -> int:
    return -1 if value is None else int(value)


def _check(code: int, name: TopicPartition, node_id: int) -> None:
    if code:
        raise _refusal(int(code), name, node_id)


def _refusal(code: int, name: TopicPartition, node_id: int, message: str | None = None) -> BarnabasError:
    return refusal_of(code, message or f"node {node_id} refused it for {name} with error {code}")
