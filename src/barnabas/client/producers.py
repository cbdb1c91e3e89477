"""Sending: one librdkafka producer per delivery profile, made when first needed.

Owns the delivery guarantee of a topic's records, back pressure on senders, and the outcome of each record. A topic's
`delivery.semantics` is read at its first send and kept: the records of a topic never go through two producers, which
could reorder them. If it is not set or cannot be read, the strictest guarantee applies, which is right for every topic:
acknowledged by all in-sync replicas, and a retry makes no duplicate.

A thread per producer processes delivery reports. A full queue makes `send` wait; nothing is ever dropped.
"""

import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from barnabas.client.errors import DeliveryFailed, Unreachable, translate
from barnabas.client.message import HeadersLike, RecordPlace, header_list
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError, InvalidConfig, RecordTooLarge, UnknownTopicOrPartition
from barnabas.core.model import NO_OFFSET

ANY_PARTITION: Final = -1
_POLL_S: Final = 0.05  # also how long closing takes
_JOIN_S: Final = 5.0
_ROOM_S: Final = 0.01
_LOOK_S: Final = 10.0
_FLUSH_S: Final = 0.25


class Delivery(Enum):
    """How often a record may arrive; the values of the topic setting `delivery.semantics`."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"

    @classmethod
    def parse(cls, text: str) -> "Delivery":
        try:
            return cls(text)
        except ValueError:
            known = ", ".join(delivery.value for delivery in cls)
            raise InvalidConfig(f"delivery.semantics is {text!r}; it may be {known}") from None


DEFAULTS: Final = {
    "partitioner": "murmur2_random",  # as every other client; librdkafka's own default is another hash
    "linger.ms": "5",
    # How large a record may be, its topic says; this is what a broker takes in one request. Batches of several records
    # are bounded by batch.size.
    "message.max.bytes": "100000000",
    "acks": "all",
    "enable.idempotence": "true",
}
_PROFILES: Final = {
    Delivery.AT_MOST_ONCE: {"enable.idempotence": "false", "acks": "0", "message.send.max.retries": "0"},
    Delivery.AT_LEAST_ONCE: {"enable.idempotence": "false", "acks": "all"},
    Delivery.EXACTLY_ONCE: {"enable.idempotence": "true", "acks": "all"},
}


def settings_for(delivery: Delivery | None) -> dict[str, str]:
    """The producer settings that a topic requires; none if it sets nothing."""
    return {} if delivery is None else dict(_PROFILES[delivery])


class Sent:
    """A record being sent: `result()` waits for where it was written, or raises why it was not."""

    __slots__ = ("_changed", "_error", "_on_done", "_place", "_topic")

    def __init__(self, topic: str, changed: threading.Condition) -> None:
        self._topic = topic
        self._changed = changed
        self._place: RecordPlace | None = None
        self._error: BarnabasError | None = None
        self._on_done: tuple[Callable[[], None], ...] = ()

    def done(self) -> bool:
        return self._place is not None or self._error is not None

    def result(self, timeout: float | None = None) -> RecordPlace:
        if not self.done():
            with self._changed:
                self._changed.wait_for(self.done, timeout)
        if self._error is not None:
            raise self._error
        if self._place is None:
            raise Unreachable(f"record for topic {self._topic!r} was not acknowledged within {timeout} s")
        return self._place

    def call_when_done(self, callback: Callable[[], None]) -> None:
        """Call back, from any thread and without waiting there, once the outcome is known."""
        with self._changed:
            if not self.done():
                self._on_done = (*self._on_done, callback)
                return
        callback()

    def settle(self, *, place: RecordPlace | None = None, error: BarnabasError | None = None) -> None:
        """Set the outcome of the record; its waiters are woken by the holder of the condition."""
        self._place, self._error = place, error
        for callback in self._on_done:
            callback()


class DeliveringProducer:
    """A librdkafka producer with the thread that processes its delivery reports."""

    def __init__(self, producer: Producer, limit_of: Callable[[str], int | None] = lambda _topic: None) -> None:
        self._producer = producer
        self._limit_of = limit_of  # how many bytes a topic takes, if that can be found out
        self._changed = threading.Condition()
        self.acknowledged_count = 0
        self._failed_count = 0
        self._first_failure: BarnabasError | None = None
        self._closing = False
        self._poller = threading.Thread(target=self._poll, name="barnabas-deliveries", daemon=True)
        self._poller.start()

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None,
        partition: int,
        headers: HeadersLike | None,
        timestamp_ms: int | None,
    ) -> Sent:
        """Queue one record; waits while the queue is full."""
        sent, more = self._prepare(topic, headers, timestamp_ms)
        has_looked = False
        while True:
            try:
                self._producer.produce(topic, value, key, partition, **more)
                return sent
            except BufferError:
                self._wait_for_room()
            except KafkaException as error:
                if has_looked or error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                    raise _send_refusal(error.args[0], topic, key, value, partition) from None
                self._look_again(topic)
                has_looked = True

    def send_nowait(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None,
        partition: int,
        headers: HeadersLike | None,
        timestamp_ms: int | None,
    ) -> Sent | None:
        """As `send`; None, with nothing done, if that would have to wait."""
        sent, more = self._prepare(topic, headers, timestamp_ms)
        try:
            self._producer.produce(topic, value, key, partition, **more)
        except BufferError:
            return None
        except KafkaException as error:
            if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:
                return None
            raise _send_refusal(error.args[0], topic, key, value, partition) from None
        return sent

    def _prepare(
        self, topic: str, headers: HeadersLike | None, timestamp_ms: int | None
    ) -> tuple[Sent, dict[str, Any]]:
        sent = Sent(topic, self._changed)
        more: dict[str, Any] = {"headers": header_list(headers)} if headers else {}
        if timestamp_ms is not None:
            more["timestamp"] = timestamp_ms
        more["on_delivery"] = lambda error, message: self._note(sent, error, message)
        return sent, more

    def flush(self, deadline: float | None) -> None:
        """Wait until no record is in flight; raises if any since the last flush was not delivered."""
        left = self._flush(deadline)
        with self._changed:
            count, first = self._failed_count, self._first_failure
            self._failed_count, self._first_failure = 0, None
        if first is not None:
            # Those that are still on their way are not delivered either.
            raise DeliveryFailed(
                f"{_records(count)} not delivered, the first because: {first}", count + left
            ) from first
        if left:
            raise DeliveryFailed(f"{_records(left)} not acknowledged in time", left)

    def _flush(self, deadline: float | None) -> int:
        """How many are still in flight when time is up; in short steps, since librdkafka blocks interrupts."""
        while True:
            rest_s = _FLUSH_S if deadline is None else min(_FLUSH_S, max(deadline - time.monotonic(), 0))
            left: int = self._producer.flush(rest_s)
            if not left or (deadline is not None and time.monotonic() >= deadline):
                return left

    @property
    def first_failure(self) -> BarnabasError | None:
        """The reason why a record since the last flush was not delivered."""
        return self._first_failure

    def forget_failures(self) -> None:
        with self._changed:
            self._failed_count, self._first_failure = 0, None

    def close(self) -> None:
        self._closing = True
        self._poller.join(_JOIN_S)

    def _wait_for_room(self) -> None:
        """Wait for a delivery, which frees space in the queue; one that was just missed costs a short wait."""
        with self._changed:
            self._changed.wait(_ROOM_S)

    def _look_again(self, topic: str) -> None:
        """Refresh the metadata: the topic may have more partitions since librdkafka's last refresh, minutes ago."""
        try:
            self._producer.list_topics(topic, _LOOK_S)
        except KafkaException as error:
            raise translate(error, f"read topic {topic!r}") from None

    def _poll(self) -> None:
        while not self._closing:
            try:
                self._producer.poll(_POLL_S)
            except KafkaException:  # fatal to the producer, which whoever uses it hears as well
                time.sleep(_POLL_S)

    def _note(self, sent: Sent, error: KafkaError | None, message: Any) -> None:
        failure = None if error is None else self._failure_of(error, message)
        with self._changed:
            if failure is None:
                self.acknowledged_count += 1
                sent.settle(place=_place_of(message))
            else:
                self._failed_count += 1
                self._first_failure = self._first_failure or failure
                sent.settle(error=failure)
            self._changed.notify_all()

    def _failure_of(self, error: KafkaError, message: Any) -> DeliveryFailed:
        topic = message.topic()
        reason = _refusal(error, f"deliver a record to topic {topic!r}", message.partition())
        if isinstance(reason, RecordTooLarge):
            limit = self._limit_of(message.topic())
            size = _size(message.key()) + _size(message.value())
            reason = RecordTooLarge(
                f"cannot deliver a record to topic {message.topic()!r}: with {size} bytes it is too large, "
                f"its topic's max.message.bytes is {'less' if limit is None else limit}"
            )
        failure = DeliveryFailed(str(reason))
        failure.__cause__ = reason
        return failure


class Producers:
    """The producers of one bus, by the delivery guarantee of their topics."""

    def __init__(
        self,
        settings: Settings,
        delivery_of: Callable[[str], Delivery | None],
        limit_of: Callable[[str], int | None] = lambda _topic: None,
    ) -> None:
        self._settings = settings
        self._limit_of = limit_of
        self._delivery_of = delivery_of
        self._by_delivery: dict[Delivery | None, DeliveringProducer] = {}
        self._by_topic: dict[str, DeliveringProducer] = {}
        self._lock = threading.Lock()
        self._is_closed = False
        self._closed_count = 0

    @property
    def acknowledged_count(self) -> int:
        with self._lock:
            return self._closed_count + sum(each.acknowledged_count for each in self._by_delivery.values())

    def for_topic(self, topic: str) -> DeliveringProducer:
        """The producer of a topic, decided at its first send."""
        found = self._by_topic.get(topic)
        if found is not None:
            return found
        delivery = self._delivery_of(topic)
        with self._lock:
            if self._is_closed:
                raise BarnabasError("the bus is closed")
            if delivery not in self._by_delivery:
                handle = self._settings.producer(DEFAULTS, settings_for(delivery))
                self._by_delivery[delivery] = DeliveringProducer(handle, self._limit_of)
            return self._by_topic.setdefault(topic, self._by_delivery[delivery])

    def known_for(self, topic: str) -> DeliveringProducer | None:
        """The producer of a topic that was sent to before; None if it is not decided yet."""
        return self._by_topic.get(topic)

    def forget(self, topic: str) -> None:
        """A topic was deleted: read its settings again if it is created again."""
        with self._lock:
            self._by_topic.pop(topic, None)

    def flush(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        failure: DeliveryFailed | None = None
        for producer in list(self._by_delivery.values()):
            try:
                producer.flush(deadline)
            except DeliveryFailed as error:
                if failure is not None:
                    failure.count += error.count
                failure = failure or error
        if failure is not None:
            raise failure

    def close(self, timeout: float | None) -> None:
        """Deliver what is in flight, then stop; raises as `flush` does."""
        with self._lock:
            self._is_closed = True
            self._by_topic.clear()
        try:
            self.flush(timeout)
        finally:
            for producer in self._by_delivery.values():
                producer.close()
            with self._lock:
                self._closed_count += sum(each.acknowledged_count for each in self._by_delivery.values())
                self._by_delivery.clear()


def _records(count: int) -> str:
    return "1 record was" if count == 1 else f"{count} records were"


def _place_of(message: Any) -> RecordPlace:
    offset = message.offset()  # None where no broker said
    return RecordPlace(
        message.topic(), message.partition(), NO_OFFSET if offset is None else offset, message.timestamp()[1]
    )


def _send_refusal(
    error: KafkaError, topic: str, key: bytes | str | None, value: bytes | str | None, partition: int
) -> BarnabasError:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return RecordTooLarge(
            f"cannot send to topic {topic!r}: a record of {_size(key) + _size(value)} bytes "
            "is more than the message.max.bytes of this client"
        )
    return _refusal(error, f"send to topic {topic!r}", partition)


def _refusal(error: KafkaError, doing: str, partition: int) -> BarnabasError:
    if error.code() == KafkaError._UNKNOWN_PARTITION and partition != ANY_PARTITION:
        return UnknownTopicOrPartition(f"cannot {doing}: it has no partition {partition}")
    return translate(error, doing)


def _size(part: bytes | str | None) -> int:
    return len(part.encode() if isinstance(part, str) else part or b"")
