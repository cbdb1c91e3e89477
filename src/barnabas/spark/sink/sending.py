"""A librdkafka producer fed with record batches: looks its topics up, waits while its queue is full.

Owns what a failed send means: a refusal is of the row or of the cluster and will come again; a `KafkaException` is of
the producer or of its transaction, and whoever made it decides what becomes of the share.
"""

import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from barnabas.client.errors import DeliveryFailed, Unreachable, translate
from barnabas.core.errors import UnknownTopicOrPartition
from barnabas.spark.sink.columns import Layout, Row

# Ours give way to the user's. Few large batches are what a bulk write is fast with, here and at the broker.
DEFAULTS: Final = {
    "partitioner": "murmur2_random",  # as every other client; librdkafka's own default is another hash
    "linger.ms": "20",
    "message.timeout.ms": "120000",
    # librdkafka forgets its brokers when all are gone, and a transaction then waits for a coordinator which it will
    # never ask again (librdkafka issue 5511).
    "metadata.recovery.strategy": "none",
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": str(128 * 1024),
}
FORCED: Final[dict[str, Any]] = {"enable.idempotence": "true", "acks": "all", "delivery.report.only.error": True}
_ROOM_S: Final = 0.1
_LOOK_S: Final = 15.0
_AGAIN_S: Final = 0.05
_NOT_YET: Final = frozenset({KafkaError.LEADER_NOT_AVAILABLE})
_MISSING: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})


class Sender:
    """Sends the rows of one producer. What was not delivered is told by `flush`, or by the transaction if it is one."""

    def __init__(self, handle: Any, *, contact_s: float, is_transactional: bool) -> None:
        self.handle = handle
        self._contact_s = contact_s
        self._known: set[str] = set()
        self._report = None if is_transactional else self._note
        self._failed_count = 0
        self._first_failure: KafkaError | None = None
        self._failed_topic = ""

    def send(self, batch: Any, layout: Layout) -> None:
        """Queue all rows of a record batch, in their order."""
        for topic in layout.topics_of(batch):
            if topic not in self._known:
                self._look_up(topic)
        if layout.is_plain:
            assert layout.topic is not None
            self._send_plain(layout.topic, layout.pairs(batch))
        else:
            self._send_rows(layout.rows(batch))
        self.handle.poll(0)

    def flush(self, timeout_s: float) -> None:
        """Wait until all is delivered; raises `DeliveryFailed` if something was not."""
        left = self.handle.flush(timeout_s)
        count, first = self._failed_count, self._first_failure
        self._failed_count, self._first_failure = 0, None
        if first is not None:
            reason = translate(first, f"deliver a record to topic {self._failed_topic!r}")
            raise DeliveryFailed(f"{count} record(s) not delivered, the first because: {reason}") from reason
        if left:
            raise DeliveryFailed(f"{left} record(s) not acknowledged within {timeout_s:.0f} s")

    def _send_plain(self, topic: str, pairs: Any) -> None:
        produce, report = self.handle.produce, self._report
        for value, key in pairs:
            try:
                produce(topic, value, key, -1, report)
            except (BufferError, KafkaException) as error:
                self._send_again((topic, value, key, -1, 0, None), error)

    def _send_rows(self, rows: Any) -> None:
        produce, report = self.handle.produce, self._report
        for row in rows:
            topic, value, key, partition, timestamp_ms, headers = row
            try:
                if headers is None:
                    produce(topic, value, key, partition, report, timestamp=timestamp_ms)
                else:
                    produce(topic, value, key, partition, report, timestamp=timestamp_ms, headers=headers)
            except (BufferError, KafkaException) as error:
                self._send_again(row, error)

    def _send_again(self, row: Row, error: BufferError | KafkaException) -> None:
        """Queue a row that there was no room for, or whose partition may be new."""
        topic, value, key, partition, timestamp_ms, headers = row
        has_looked = False
        while True:
            if isinstance(error, BufferError):
                self.handle.poll(_ROOM_S)
            elif error.args[0].code() == KafkaError._UNKNOWN_PARTITION and not has_looked:
                self._look_up(topic)
                has_looked = True
            elif _is_of_the_row(error.args[0]):
                raise translate(error, f"send a row to topic {topic!r}, partition {partition}") from None
            else:
                raise error
            try:
                more = {} if headers is None else {"headers": headers}
                self.handle.produce(topic, value, key, partition, self._report, timestamp=timestamp_ms, **more)
                return
            except (BufferError, KafkaException) as another:
                error = another

    def _look_up(self, topic: str) -> None:
        """Learn of a topic, which a broker that makes topics by itself may need a moment for."""
        deadline = time.monotonic() + _LOOK_S
        while True:
            try:
                found = self.handle.list_topics(topic, self._contact_s).topics[topic]
            except KafkaException as error:
                raise translate(error, f"read topic {topic!r}") from None
            if found.error is None:
                self._known.add(topic)
                return
            if found.error.code() in _MISSING:
                raise UnknownTopicOrPartition(f"topic {topic!r} does not exist")
            if found.error.code() not in _NOT_YET:
                raise translate(found.error, f"read topic {topic!r}")
            if time.monotonic() >= deadline:
                raise Unreachable(f"topic {topic!r} has no leader")
            time.sleep(_AGAIN_S)

    def _note(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            return
        self._failed_count += 1
        if self._first_failure is None:
            self._first_failure, self._failed_topic = error, message.topic()


def _is_of_the_row(error: KafkaError) -> bool:
    """Whether a send failed because of what was sent, not because of how the producer is."""
    return error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._UNKNOWN_PARTITION, KafkaError._INVALID_ARG)
