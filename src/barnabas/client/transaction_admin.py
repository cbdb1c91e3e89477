"""Administration of transactions: listing and describing them, finding hanging ones, and aborting them. librdkafka has
none of these requests, so they go over our own connections, the way Kafka's tools send them: ListTransactions to every
broker, the rest to coordinators and leaders.

A transaction hangs when it is open in a partition and its coordinator does not know of it, so it will never be ended:
its producer id belongs to no transactional id, or the transaction of that id is not in this partition.
"""

import re
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

from barnabas.client.cluster import Cluster
from barnabas.client.errors import check
from barnabas.client.settings import Settings
from barnabas.client.transaction_infos import HangingTransaction, TransactionDetails, TransactionInfo
from barnabas.core.errors import InvalidRequest, InvalidTxnState, TransactionalIdNotFound, UnsupportedVersion
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from barnabas.wire.apis import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
)

_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
_LEGACY: Final = 0  # the version of transactions whose markers carry the epoch of the producer


class TransactionAdmin:
    """The transactions of one cluster. Each call has its own connections."""

    def __init__(self, settings: Settings, timeout_s: float) -> None:
        self._settings = settings
        self._timeout_s = timeout_s

    def list_all(
        self, states: Sequence[str], longer_than_s: float | None, pattern: str | None
    ) -> list[TransactionInfo]:
        matches = _compiled(pattern)
        if longer_than_s is not None and not states:
            states = _OPEN  # a broker counts from the beginning of those that have ended as well
        with self._cluster() as cluster:
            found = cluster.trying(lambda: _list(cluster, states=states, longer_than_s=longer_than_s, pattern=pattern))
        return [each for each in found if matches is None or matches.fullmatch(each.transactional_id)]

    def describe(self, transactional_id: str) -> TransactionDetails:
        with self._cluster() as cluster:
            return cluster.trying(lambda: _describe(cluster, transactional_id))

    def find_hanging(self, topic: str | None, older_than_s: float) -> list[HangingTransaction]:
        with self._cluster() as cluster:
            topics = None if topic is None else [topic]
            return cluster.trying(lambda: _find_hanging(cluster, topics, older_than_s))

    def abort(self, transactional_id: str) -> TransactionDetails:
        """Fence the producer, which aborts its transaction; returns the state afterwards."""
        with self._cluster() as cluster:
            before = cluster.trying(lambda: _describe(cluster, transactional_id))
            cluster.trying(lambda: _fence(cluster, transactional_id, before.timeout_ms))
            return cluster.trying(lambda: _describe(cluster, transactional_id))

    def abort_hanging(self, key: TopicPartition, start_offset: int) -> HangingTransaction:
        with self._cluster() as cluster:
            hanging = cluster.trying(lambda: _open_at(cluster, key, start_offset))
            known = cluster.trying(lambda: _coordinated(cluster, [hanging]))
            if hanging.producer_id in known and key in known[hanging.producer_id].partitions:
                name = known[hanging.producer_id].transactional_id
                raise InvalidTxnState(
                    f"the transaction in {key} at {start_offset} does not hang: abort {name!r} instead"
                )
            cluster.trying(lambda: _write_abort(cluster, hanging))
            return hanging

    def _cluster(self) -> Cluster:
        return Cluster(self._settings, self._timeout_s)


def _compiled(pattern: str | None) -> "re.Pattern[str] | None":
    try:
        return None if not pattern else re.compile(pattern)
    except re.error as error:
        raise InvalidRequest(f"{pattern!r} is not a regular expression: {error}") from None


def _list(
    cluster: Cluster,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_s: float | None = None,
    pattern: str | None = None,
) -> list[TransactionInfo]:
    """List from all brokers, since each knows only what it coordinates; old brokers leave a pattern to the caller."""
    found = []
    for broker in cluster.brokers():
        connection = cluster.connect(broker)
        if longer_than_s is not None and connection.version(LIST_TRANSACTIONS.key) < 1:
            raise UnsupportedVersion(f"broker {broker.node_id} is too old to filter transactions by duration")
        answer = connection.call(
            LIST_TRANSACTIONS.key,
            {
                "state_filters": states,
                "producer_id_filters": producer_ids,
                "duration_filter": -1 if longer_than_s is None else round(longer_than_s * 1000),
                "transactional_id_pattern": pattern,
            },
        )
        check(answer.error_code, "list the transactions")
        if answer.unknown_state_filters:
            raise InvalidRequest(f"transactions have no state {answer.unknown_state_filters[0]!r}")
        found += [
            TransactionInfo(
                str(each.transactional_id), str(each.transaction_state), int(each.producer_id), broker.node_id
            )
            for each in answer.transaction_states
        ]
    return sorted(found, key=lambda each: each.transactional_id)


def _describe(cluster: Cluster, transactional_id: str) -> TransactionDetails:
    broker = cluster.coordinator(transactional_id)
    answer = cluster.connect(broker).call(DESCRIBE_TRANSACTIONS.key, {"transactional_ids": [transactional_id]})
    (found,) = answer.transaction_states
    if int(found.error_code) == TransactionalIdNotFound.kafka_code:
        raise TransactionalIdNotFound(f"transactional id {transactional_id!r} does not exist")
    check(found.error_code, f"describe transactional id {transactional_id!r}")
    began = found.transaction_start_time  # None where no transaction is open
    start_ms = 0 if began is None else round(began.timestamp() * 1000)
    is_open = began is not None and bool(found.topics)
    return TransactionDetails(
        transactional_id=transactional_id,
        state=str(found.transaction_state),
        producer_id=int(found.producer_id),
        producer_epoch=int(found.producer_epoch),
        timeout_ms=found.transaction_timeout // timedelta(milliseconds=1),
        start_ms=start_ms if is_open else None,
        age_seconds=_age_s(start_ms) if is_open else None,
        partitions=tuple(
            sorted(TopicPartition(str(each.topic), int(index)) for each in found.topics for index in each.partitions)
        ),
        coordinator=broker.node_id,
    )


def _age_s(since_ms: int) -> float:
    return max(time.time() - since_ms / 1000, 0.0)


def _find_hanging(cluster: Cluster, topics: list[str] | None, older_than_s: float) -> list[HangingTransaction]:
    candidates = [each for each in _open_transactions(cluster, topics) if each.age_seconds > older_than_s]
    known = _coordinated(cluster, candidates)
    hanging = []
    for each in candidates:
        details = known.get(each.producer_id)
        if details is None:
            hanging.append(each)
        elif TopicPartition(each.topic, each.partition) not in details.partitions:
            hanging.append(_named(each, details.transactional_id))
    return hanging


def _named(found: HangingTransaction, transactional_id: str) -> HangingTransaction:
    return HangingTransaction(
        found.topic,
        found.partition,
        found.start_offset,
        found.producer_id,
        found.producer_epoch,
        found.coordinator_epoch,
        found.age_seconds,
        transactional_id,
    )


def _coordinated(cluster: Cluster, found: Iterable[HangingTransaction]) -> dict[int, TransactionDetails]:
    """The transactions that coordinators know for these producers, by producer id."""
    producer_ids = sorted({each.producer_id for each in found})
    if not producer_ids:
        return {}
    listed = _list(cluster, producer_ids=producer_ids)
    return {each.producer_id: _describe(cluster, each.transactional_id) for each in listed}


def _open_transactions(cluster: Cluster, topics: list[str] | None) -> list[HangingTransaction]:
    """Every transaction that is open in a partition, whether it hangs or not."""
    by_leader: dict[Any, list[TopicPartition]] = {}
    for key, leader in sorted(cluster.leaders(topics).items()):
        by_leader.setdefault(leader, []).append(key)
    found = []
    for leader, keys in by_leader.items():
        found += _ask_producers(cluster, leader, keys)
    return sorted(found, key=lambda each: (each.topic, each.partition, each.start_offset))


def _ask_producers(cluster: Cluster, leader: Any, keys: Sequence[TopicPartition]) -> list[HangingTransaction]:
    by_topic: dict[str, list[int]] = {}
    for key in keys:
        by_topic.setdefault(key.topic, []).append(key.partition)
    topics = [{"name": name, "partition_indexes": ids} for name, ids in by_topic.items()]
    found = []
    for topic in cluster.connect(leader).call(DESCRIBE_PRODUCERS.key, {"topics": topics}).topics:
        for partition in topic.partitions:
            check(partition.error_code, f"read the producers of {topic.name}-{partition.partition_index}")
            found += [
                HangingTransaction(
                    topic=str(topic.name),
                    partition=int(partition.partition_index),
                    start_offset=int(each.current_txn_start_offset),
                    producer_id=int(each.producer_id),
                    producer_epoch=int(each.producer_epoch),
                    coordinator_epoch=int(each.coordinator_epoch),
                    age_seconds=_age_s(int(each.last_timestamp)),
                    transactional_id=None,
                )
                for each in partition.active_producers
                if int(each.current_txn_start_offset) >= 0
            ]
    return found


def _open_at(cluster: Cluster, key: TopicPartition, start_offset: int) -> HangingTransaction:
    for each in _ask_producers(cluster, cluster.leader(key), [key]):
        if each.start_offset == start_offset:
            return each
    raise InvalidTxnState(f"no transaction is open in {key} since offset {start_offset}")


def _fence(cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
    answer = cluster.connect(cluster.coordinator(transactional_id)).call(
        INIT_PRODUCER_ID.key,
        {
            "transactional_id": transactional_id,
            "transaction_timeout": timeout_ms,
            "producer_id": NO_PRODUCER_ID,
            "producer_epoch": NO_PRODUCER_EPOCH,
        },
    )
    check(answer.error_code, f"fence the producer of {transactional_id!r}")


def _write_abort(cluster: Cluster, hanging: HangingTransaction) -> None:
    key = TopicPartition(hanging.topic, hanging.partition)
    marker = {
        "producer_id": hanging.producer_id,
        "producer_epoch": hanging.producer_epoch,
        "transaction_result": False,
        "topics": [{"name": key.topic, "partition_indexes": [key.partition]}],
        "coordinator_epoch": max(hanging.coordinator_epoch, 0),  # none yet: no marker of it was ever written
        "transaction_version": _LEGACY,
    }
    answer = cluster.connect(cluster.leader(key)).call(WRITE_TXN_MARKERS.key, {"markers": [marker]})
    for result in answer.markers:
        for topic in result.topics:
            for partition in topic.partitions:
                check(partition.error_code, f"abort the transaction in {key} at offset {hanging.start_offset}")
