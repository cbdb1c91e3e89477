"""The transactions of a producer of batches: the requests to their coordinator.

Every request may be repeated without harm. A refusal by the coordinator is `ProducerBroken`, or
`TransactionFenced` if another producer took over the transactional id. For one thread.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from barnabas.client.batch_producer import Producer, failure_of
from barnabas.client.brokers import Brokers, CoordinatorKind
from barnabas.client.coordinators import CodesOf, Coordinators
from barnabas.client.errors import Unreachable, is_passing, words_of
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from barnabas.wire.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
)
from barnabas.wire.writing import Values

_RETRY_S: Final = 0.02
_NOT_KNOWN: Final = 105  # TRANSACTIONAL_ID_NOT_FOUND


class BatchTransaction:
    """The transactions of one id, one after another."""

    def __init__(
        self, coordinators: Coordinators, transactional_id: str, *, timeout_ms: int, patience_s: float
    ) -> None:
        self._coordinators = coordinators
        self.id = transactional_id
        self._timeout_ms = timeout_ms
        self._patience_s = patience_s
        self._partitions: set[TopicPartition] = set()
        self.producer = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

    def initialise(self, patience_s: float) -> None:
        """Take over the id; its open transaction is ended first."""
        self.producer = _new_producer(self._coordinators, self.id, self._timeout_ms, patience_s)
        self._partitions.clear()

    def resume(self, producer: Producer) -> None:
        """Take over the transaction that another producer left open under this id, to end it."""
        self.producer = producer
        self._partitions.clear()

    def add(self, keys: Iterable[TopicPartition]) -> None:
        """Make partitions part of the transaction, before the first batch for each."""
        new = [key for key in keys if key not in self._partitions]
        if not new:
            return
        by_topic: dict[str, list[int]] = {}
        for key in new:
            by_topic.setdefault(key.topic, []).append(key.partition)

        values = {
            "v3_and_below_transactional_id": self.id,
            "v3_and_below_producer_id": self.producer.id,
            "v3_and_below_producer_epoch": self.producer.epoch,
            "v3_and_below_topics": [{"name": name, "partitions": ids} for name, ids in by_topic.items()],
        }

        def codes(answer: Any) -> Iterable[int]:
            for topic in answer.results_by_topic_v3_and_below:
                for each in topic.results_by_partition:
                    yield int(each.partition_error_code)

        self._ask(ADD_PARTITIONS_TO_TXN.key, values, codes, f"write to {new[0]} in a transaction")
        self._partitions.update(new)

    def commit_offset(self, group: str, key: TopicPartition, offset: int, metadata: str) -> None:
        """Commit an offset of a group without members, with the transaction."""
        self.commit_offsets(group, {key: (offset, metadata)})

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit offsets of a group without members, each with its metadata, with the transaction."""
        by_topic: dict[str, list[TopicPartition]] = {}
        for key in sorted(offsets):
            by_topic.setdefault(key.topic, []).append(key)

        transaction = {
            "transactional_id": self.id,
            "producer_id": self.producer.id,
            "producer_epoch": self.producer.epoch,
            "group_id": group,
        }
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": key.partition,
                        "committed_offset": offsets[key][0],
                        "committed_metadata": offsets[key][1],
                    }
                    for key in keys
                ],
            }
            for topic, keys in by_topic.items()
        ]

        def codes(answer: Any) -> Iterable[int]:
            return [int(each.error_code) for topic in answer.topics for each in topic.partitions]

        doing = f"commit offsets of group {group!r} in a transaction"
        self._ask(ADD_OFFSETS_TO_TXN.key, transaction, _one_code, doing)
        self._coordinators.ask(
            CoordinatorKind.GROUP,
            group,
            TXN_OFFSET_COMMIT.key,
            {**transaction, "topics": topics},
            codes,
            doing=doing,
            patience_s=self._patience_s,
        )

    def end(self, *, commit: bool, patience_s: float | None = None) -> None:
        """Commit or abort the transaction."""
        values = {
            "transactional_id": self.id,
            "producer_id": self.producer.id,
            "producer_epoch": self.producer.epoch,
            "committed": commit,
        }
        self._ask(END_TXN.key, values, _one_code, f"{'commit' if commit else 'abort'} a transaction", patience_s)
        self._partitions.clear()

    def is_open(self, patience_s: float | None = None) -> bool:
        """Whether the coordinator has the transaction of this producer open."""
        return self.find_open(patience_s) == self.producer

    def find_open(self, patience_s: float | None = None) -> Producer | None:
        """The producer that has a transaction open under this id; or None."""

        def codes(answer: Any) -> Iterable[int]:
            return [int(each.error_code) for each in answer.transaction_states if int(each.error_code) != _NOT_KNOWN]

        answer = self._ask(
            DESCRIBE_TRANSACTIONS.key,
            {"transactional_ids": [self.id]},
            codes,
            "look at the transaction",
            patience_s,
        )
        (found,) = answer.transaction_states
        if str(found.transaction_state) != "Ongoing":
            return None
        return Producer(int(found.producer_id), int(found.producer_epoch))

    def _ask(
        self,
        api_key: int,
        values: Values,
        codes: CodesOf,
        doing: str,
        patience_s: float | None = None,
    ) -> Any:
        return self._coordinators.ask(
            CoordinatorKind.TRANSACTION,
            self.id,
            api_key,
            values,
            codes,
            doing=f"{doing} of {self.id!r}",
            patience_s=self._patience_s if patience_s is None else patience_s,
        )


def new_producer(brokers: Brokers, patience_s: float) -> Producer:
    """An id for a producer without transactions; any broker assigns one."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            answer = brokers.any().call(INIT_PRODUCER_ID.key, _init_values(None, -1))
            code = int(answer.error_code)
            if code == 0:
                return Producer(int(answer.producer_id), int(answer.producer_epoch))
            problem = failure_of(code, f"cannot get a producer id: {words_of(code)}")
            if not is_passing(code):
                raise problem
        except Unreachable as error:
            brokers.close()
            problem = error
        if time.monotonic() >= deadline:
            raise Unreachable(f"{problem}; is a broker running there?") from None
        time.sleep(_RETRY_S)


def _new_producer(coordinators: Coordinators, transactional_id: str, timeout_ms: int, patience_s: float) -> Producer:
    answer = coordinators.ask(
        CoordinatorKind.TRANSACTION,
        transactional_id,
        INIT_PRODUCER_ID.key,
        _init_values(transactional_id, timeout_ms),
        _one_code,
        doing=f"begin transactions of {transactional_id!r}",
        patience_s=patience_s,
    )
    return Producer(int(answer.producer_id), int(answer.producer_epoch))


def _init_values(transactional_id: str | None, timeout_ms: int) -> Values:
    return {"transactional_id": transactional_id, "transaction_timeout": timeout_ms}


def _one_code(answer: Any) -> Iterable[int]:
    return (int(answer.error_code),)
