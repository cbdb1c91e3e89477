"""Transactions: a bank that moves amounts between accounts, and a topic worked off into another exactly once."""

import random
import threading
from enum import Enum
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.system.chaos.load import RECORDS, Client

ACCOUNTS: Final = "chaos-accounts"
ACCOUNT_PARTITIONS: Final = 4
PROCESSED: Final = "chaos-processed"
PROCESSED_PARTITIONS: Final = 3
PROCESSING_GROUP: Final = "chaos-processing"
_ABORTED_SHARE: Final = 0.2
_PACE_S: Final = 0.1
_CALL_S: Final = 30.0
_SEND_S: Final = 5.0
_BATCH: Final = 200


class Outcome(Enum):
    """What a client knows of its transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Transactional(Client):
    """A client with a transactional producer. One that fails for good is replaced, under the same transactional id."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, name)
        self.replaced = 0
        self._producer: Any = None

    def producer(self) -> Any:
        if self._producer is None:
            made = Producer({**self.settings, "transactional.id": self.name})
            self._persist(lambda: made.init_transactions(_CALL_S))
            self._producer = made
        return self._producer

    def end(self, *, is_committed: bool) -> Outcome:
        """Commit or abort, as often as it takes; what became of it, as far as this client can know."""
        producer = self._producer
        try:
            self._persist(
                lambda: (producer.commit_transaction if is_committed else producer.abort_transaction)(_CALL_S)
            )
        except KafkaException as error:
            self.note_trouble(error)
            if is_committed and error.args[0].txn_requires_abort():
                return self.end(is_committed=False)
            self.replace()
            return Outcome.UNKNOWN if is_committed else Outcome.ABORTED
        return Outcome.COMMITTED if is_committed else Outcome.ABORTED

    def give_up(self, error: KafkaException) -> Outcome:
        """Abort after an error. Nobody has asked to commit: whatever becomes of it, it must never be seen."""
        self.note_trouble(error)
        if error.args[0].fatal():
            self.replace()
            return Outcome.ABORTED
        return self.end(is_committed=False)

    def replace(self) -> None:
        self.replaced += 1
        self._producer = None

    def _persist(self, call: Any) -> None:
        """Repeat a call while librdkafka says that it may be repeated."""
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                self.note_trouble(error)

    def _note_error(self, error: Any) -> None:
        # A transactional producer that is fenced is replaced: that is what transactional ids are for.
        if error.fatal():
            self.troubles[f"fatal {error.name()}"] += 1


class Bank(Transactional):
    """Moves amounts: each transfer is one transaction of two records, to two partitions."""

    def __init__(self, bootstrap: str, name: str, dice: random.Random) -> None:
        super().__init__(bootstrap, name)
        self._dice = dice
        self.outcomes: list[Outcome] = []

    def work(self) -> None:
        producer = self.producer()
        number = len(self.outcomes)
        self.outcomes.append(Outcome.UNKNOWN)
        payer, payee = self._dice.sample(range(ACCOUNT_PARTITIONS), 2)
        amount = self._dice.randrange(1, 1_000)
        is_committed = self._dice.random() >= _ABORTED_SHARE
        try:
            producer.begin_transaction()
            producer.produce(ACCOUNTS, f"{self.name} {number} {-amount}".encode(), partition=payer)
            producer.produce(ACCOUNTS, f"{self.name} {number} {amount}".encode(), partition=payee)
            if not is_committed:
                producer.flush(_CALL_S)  # so that there is something to abort
        except KafkaException as error:
            self.outcomes[number] = self.give_up(error)
            return
        self.outcomes[number] = self.end(is_committed=is_committed)
        if self.outcomes[number] is not Outcome.UNKNOWN:
            self.note_done()
        self._is_over.wait(_PACE_S)

    def finish(self) -> None:
        self._producer = None


class Processor(Transactional):
    """Reads records, writes where each came from, and commits its offsets in the same transaction."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, name)
        self._consumer = Consumer(
            {
                **self.settings,
                "group.id": PROCESSING_GROUP,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([RECORDS])
        self._must_rewind = False

    def work(self) -> None:
        producer = self.producer()
        if self._must_rewind:
            self._rewind()
        batch: list[Any] = [each for each in self._consumer.consume(_BATCH, 0.5) if each.error() is None]
        if not batch:
            return
        ends: dict[int, int] = {}
        self._must_rewind = True  # until this batch is known to be committed
        try:
            producer.begin_transaction()
            for each in batch:
                value = f"{each.partition()} {each.offset()}".encode()
                producer.produce(PROCESSED, value, partition=each.offset() % PROCESSED_PARTITIONS)
                ends[each.partition()] = each.offset() + 1
            offsets = [TopicPartition(RECORDS, partition, end) for partition, end in ends.items()]
            if not self._has_sent(producer, offsets):
                self.replace()
                return
        except KafkaException as error:
            self.give_up(error)
            return
        if self.end(is_committed=True) is Outcome.COMMITTED:
            self._must_rewind = False
            self.note_done(len(batch))

    def finish(self) -> None:
        self._producer = None
        self._consumer.close()

    def _has_sent(self, producer: Any, offsets: list[Any]) -> bool:
        """Whether the offsets were sent; False if librdkafka hangs.

        When the group's coordinator is killed, librdkafka 2.16 may wait forever for its connection to that node, past
        the timeout of the call (librdkafka, issues 5511 and 5456). All that an application can do is to begin anew.
        """
        members = self._consumer.consumer_group_metadata()
        raised: list[KafkaException] = []
        is_over = threading.Event()

        def send() -> None:
            try:
                self._persist(lambda: producer.send_offsets_to_transaction(offsets, members, _SEND_S))
            except KafkaException as error:
                raised.append(error)
            is_over.set()

        threading.Thread(target=send, daemon=True).start()
        if not is_over.wait(3 * _SEND_S):
            self.troubles["librdkafka hangs"] += 1
            return False
        if raised:
            raise raised[0]
        return True

    def _rewind(self) -> None:
        """Go back to what is committed: the batch that was read is not, or perhaps not."""
        for each in self._consumer.committed(self._consumer.assignment(), _CALL_S):
            if each.error is not None:
                raise KafkaException(each.error)
            self._consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))
        self._must_rewind = False
