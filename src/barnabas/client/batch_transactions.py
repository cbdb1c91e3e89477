"""The transactions of a producer of batches, as their coordinator is asked for them.

Every question may be asked twice without harm. A refusal by the coordinator is `ProducerBroken`, or
`TransactionFenced` if somebody took the transactional id over. For one thread.
"""

import datetime
import time
from collections.abc import Iterable
from typing import Any, Final

from kio.static.primitive import i32Timedelta

from barnabas.client.batch_producer import Producer, failure_of
from barnabas.client.brokers import Brokers, CoordinatorKind
from barnabas.client.connection import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
    make,
)
from barnabas.client.coordinators import Build, CodesOf, Coordinators
from barnabas.client.errors import Unreachable, is_passing, words_of
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

_RETRY_S: Final = 0.02


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
        """Take the id over; what was open under it is ended first."""
        self.producer = _new_producer(self._coordinators, self.id, self._timeout_ms, patience_s)
        self._partitions.clear()

    def add(self, keys: Iterable[TopicPartition]) -> None:
        """Make partitions part of the transaction, before the first batch for each."""
        new = [key for key in keys if key not in self._partitions]
        if not new:
            return
        by_topic: dict[str, list[int]] = {}
        for key in new:
            by_topic.setdefault(key.topic, []).append(key.partition)

        def build(messages: Any) -> Any:
            return messages.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id,
                v3_and_below_producer_id=self.producer.id,
                v3_and_below_producer_epoch=self.producer.epoch,
                v3_and_below_topics=tuple(
                    messages.AddPartitionsToTxnTopic(name=name, partitions=tuple(ids)) for name, ids in by_topic.items()
                ),
            )

        def codes(answer: Any) -> Iterable[int]:
            for topic in answer.results_by_topic_v3_and_below:
                for each in topic.results_by_partition:
                    yield int(each.partition_error_code)

        self._ask(ADD_PARTITIONS_TO_TXN, build, codes, f"write to {new[0]} in a transaction")
        self._partitions.update(new)

    def commit_offset(self, group: str, key: TopicPartition, offset: int, metadata: str) -> None:
        """Commit an offset of a group, of which nobody is a member, with the transaction."""

        def build_add(messages: Any) -> Any:
            return messages.AddOffsetsToTxnRequest(
                transactional_id=self.id,
                producer_id=self.producer.id,
                producer_epoch=self.producer.epoch,
                group_id=group,
            )

        def build_commit(messages: Any) -> Any:
            partition = make(
                messages.TxnOffsetCommitRequestPartition,
                partition_index=key.partition,
                committed_offset=offset,
                committed_metadata=metadata,
            )
            topic = messages.TxnOffsetCommitRequestTopic(name=key.topic, partitions=(partition,))
            return make(
                messages.TxnOffsetCommitRequest,
                transactional_id=self.id,
                group_id=group,
                producer_id=self.producer.id,
                producer_epoch=self.producer.epoch,
                topics=(topic,),
            )

        def codes(answer: Any) -> Iterable[int]:
            return [int(each.error_code) for topic in answer.topics for each in topic.partitions]

        doing = f"commit an offset of group {group!r} in a transaction"
        self._ask(ADD_OFFSETS_TO_TXN, build_add, _one_code, doing)
        self._coordinators.ask(
            CoordinatorKind.GROUP,
            group,
            TXN_OFFSET_COMMIT,
            build_commit,
            codes,
            doing=doing,
            patience_s=self._patience_s,
        )

    def end(self, *, commit: bool, patience_s: float | None = None) -> None:
        """Commit or abort all of it."""

        def build(messages: Any) -> Any:
            return messages.EndTxnRequest(
                transactional_id=self.id,
                producer_id=self.producer.id,
                producer_epoch=self.producer.epoch,
                committed=commit,
            )

        self._ask(END_TXN, build, _one_code, f"{'commit' if commit else 'abort'} a transaction", patience_s)
        self._partitions.clear()

    def _ask(self, api_key: int, build: Build, codes: CodesOf, doing: str, patience_s: float | None = None) -> Any:
        return self._coordinators.ask(
            CoordinatorKind.TRANSACTION,
            self.id,
            api_key,
            build,
            codes,
            doing=f"{doing} of {self.id!r}",
            patience_s=self._patience_s if patience_s is None else patience_s,
        )


def new_producer(brokers: Brokers, patience_s: float) -> Producer:
    """An id for a producer without transactions; any broker gives one."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection = brokers.any()
            answer = connection.call(_init_request(connection.messages(INIT_PRODUCER_ID), None, -1))
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
        INIT_PRODUCER_ID,
        lambda messages: _init_request(messages, transactional_id, timeout_ms),
        _one_code,
        doing=f"begin transactions of {transactional_id!r}",
        patience_s=patience_s,
    )
    return Producer(int(answer.producer_id), int(answer.producer_epoch))


def _init_request(messages: Any, transactional_id: str | None, timeout_ms: int) -> Any:
    return make(
        messages.InitProducerIdRequest,
        transactional_id=transactional_id,
        transaction_timeout=i32Timedelta.parse(datetime.timedelta(milliseconds=timeout_ms)),
    )


def _one_code(answer: Any) -> Iterable[int]:
    return (int(answer.error_code),)
