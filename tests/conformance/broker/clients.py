"""Three Kafka clients behind one face, so that a test says once what must hold for all of them.

librdkafka is C, aiokafka and kafka-python have protocol codecs of their own and stop at other versions. Only what all
three can do is here; what one of them alone can do is tested with that client.
"""

import asyncio
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any, Final, NamedTuple, Protocol

import aiokafka
import confluent_kafka

with warnings.catch_warnings():  # its schemas are loaded by functions that are on its way out
    warnings.filterwarnings("ignore", r"(read|open)_text is deprecated", DeprecationWarning)
    import kafka

__all__ = ["CLIENTS", "QUIET", "TIMEOUT_S", "Client", "Consumer", "Message", "Place", "Read", "kafka"]

TIMEOUT_S: Final = 60

# librdkafka would write to stderr that a broker is gone which a test ended; and back soon, after a restart.
QUIET: Final[dict[str, Any]] = {"log_level": 0, "reconnect.backoff.max.ms": 500}

Headers = tuple[tuple[str, bytes | None], ...]


class Message(NamedTuple):
    """What is sent."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class Place(NamedTuple):
    """Where a message went."""

    partition: int
    offset: int


class Read(NamedTuple):
    """What came back."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Consumer(Protocol):
    """A consumer of given partitions of one topic, from their beginning."""

    def read(self, count: int, *, timeout_s: float = TIMEOUT_S) -> list[Read]:
        """The next `count` messages, or fewer when the time is over."""
        ...

    def seek(self, partition: int, offset: int) -> None: ...
    def pause(self, partition: int) -> None: ...
    def resume(self, partition: int) -> None: ...
    def beginning_offsets(self, partitions: Sequence[int]) -> dict[int, int]: ...
    def end_offsets(self, partitions: Sequence[int]) -> dict[int, int]: ...
    def offsets_for_times(self, times: Mapping[int, int]) -> dict[int, int | None]: ...
    def close(self) -> None: ...


class Sending(NamedTuple):
    """What is to be sent, and how."""

    bootstrap: str
    topic: str
    messages: Sequence[Message]
    acks: int | str
    codec: str
    is_idempotent: bool


class OpenConsumer(Protocol):
    """Makes a consumer."""

    def __call__(self, bootstrap: str, topic: str, partitions: Sequence[int], *, is_committed: bool) -> Consumer: ...


class Client:
    """One of the clients."""

    def __init__(self, send: Callable[[Sending], list[Place]], open_consumer: OpenConsumer) -> None:
        self._send = send
        self._open_consumer = open_consumer

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        acks: int | str = "all",
        codec: str = "none",
        is_idempotent: bool = False,
    ) -> list[Place]:
        """Send, wait for all answers, and say where each message went (with acks=0 nobody knows)."""
        return self._send(Sending(bootstrap, topic, messages, acks, codec, is_idempotent))

    def consume(
        self, bootstrap: str, topic: str, partitions: Sequence[int] = (0,), *, is_committed: bool = False
    ) -> AbstractContextManager[Consumer]:
        return closing(self._open_consumer(bootstrap, topic, partitions, is_committed=is_committed))


# librdkafka


def send_by_librdkafka(sending: Sending) -> list[Place]:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": sending.bootstrap,
            "acks": sending.acks,
            "compression.type": sending.codec,
            "enable.idempotence": sending.is_idempotent,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
            "batch.size": 16384,  # as the others have it
            **QUIET,
        }
    )
    places: list[Place | None] = [None] * len(sending.messages)

    def note(index: int) -> Callable[[Any, Any], None]:
        def on_delivery(error: Any, sent: Any) -> None:
            if error is not None:
                raise confluent_kafka.KafkaException(error)
            places[index] = Place(sent.partition(), sent.offset())

        return on_delivery

    for index, message in enumerate(sending.messages):
        producer.produce(
            sending.topic,
            message.value,
            message.key,
            -1 if message.partition is None else message.partition,
            on_delivery=note(index),
            timestamp=message.timestamp_ms or 0,
            headers=list(message.headers),
        )
    assert producer.flush(TIMEOUT_S) == 0
    return [place for place in places if place is not None]


class LibrdkafkaConsumer:
    def __init__(self, bootstrap: str, topic: str, partitions: Sequence[int], *, is_committed: bool) -> None:
        self._topic = topic
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "not used",
                "enable.auto.commit": False,
                "check.crcs": True,
                "isolation.level": "read_committed" if is_committed else "read_uncommitted",
                **QUIET,
            }
        )
        # Without it, the first question for an offset comes before the leader is known, and the next 0.5 s later.
        self._consumer.list_topics(topic, TIMEOUT_S)
        self._consumer.assign([self._at(partition, confluent_kafka.OFFSET_BEGINNING) for partition in partitions])

    def _at(self, partition: int, offset: int = confluent_kafka.OFFSET_INVALID) -> confluent_kafka.TopicPartition:
        return confluent_kafka.TopicPartition(self._topic, partition, offset)

    def read(self, count: int, *, timeout_s: float = TIMEOUT_S) -> list[Read]:
        found: list[Read] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < count and (left_s := deadline - time.monotonic()) > 0:
            for message in self._consumer.consume(count - len(found), min(left_s, 0.2)):
                if message.error() is not None:
                    raise confluent_kafka.KafkaException(message.error())
                found.append(_read_of_librdkafka(message))
        return found

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(self._at(partition, offset))

    def pause(self, partition: int) -> None:
        self._consumer.pause([self._at(partition)])

    def resume(self, partition: int) -> None:
        self._consumer.resume([self._at(partition)])

    def beginning_offsets(self, partitions: Sequence[int]) -> dict[int, int]:
        return {partition: self._watermarks(partition)[0] for partition in partitions}

    def end_offsets(self, partitions: Sequence[int]) -> dict[int, int]:
        return {partition: self._watermarks(partition)[1] for partition in partitions}

    def _watermarks(self, partition: int) -> tuple[int, int]:
        found = self._consumer.get_watermark_offsets(self._at(partition), TIMEOUT_S)
        assert found is not None
        return found

    def offsets_for_times(self, times: Mapping[int, int]) -> dict[int, int | None]:
        asked = [self._at(partition, timestamp_ms) for partition, timestamp_ms in times.items()]
        found = self._consumer.offsets_for_times(asked, TIMEOUT_S)
        return {each.partition: None if each.offset == confluent_kafka.OFFSET_END else each.offset for each in found}

    def close(self) -> None:
        self._consumer.close()


def _read_of_librdkafka(message: Any) -> Read:
    return Read(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


# aiokafka and kafka-python, which have much in common


def _producer_options(sending: Sending) -> dict[str, Any]:
    return {
        "bootstrap_servers": sending.bootstrap,
        "acks": sending.acks,
        "compression_type": None if sending.codec == "none" else sending.codec,
        "enable_idempotence": sending.is_idempotent,
        "linger_ms": 20,
    }


def _send_options(message: Message) -> dict[str, Any]:
    return {
        "value": message.value,
        "key": message.key,
        "partition": message.partition,
        "timestamp_ms": message.timestamp_ms,
        "headers": list(message.headers),
    }


class PythonConsumer:
    """What both do alike, but for one thing: what aiokafka answers is to be awaited."""

    _consumer: Any
    _topic: str

    def _at(self, partition: int) -> Any:
        raise NotImplementedError

    def _result(self, answer: Any) -> Any:
        return answer

    @staticmethod
    def _options(bootstrap: str, *, is_committed: bool) -> dict[str, Any]:
        return {
            "bootstrap_servers": bootstrap,
            "group_id": None,
            "auto_offset_reset": "none",
            "isolation_level": "read_committed" if is_committed else "read_uncommitted",
        }

    def _poll(self, timeout_ms: int, max_records: int) -> Any:
        raise NotImplementedError

    def read(self, count: int, *, timeout_s: float = TIMEOUT_S) -> list[Read]:
        found: list[Read] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < count and (left_s := deadline - time.monotonic()) > 0:
            batches = self._result(self._poll(int(left_s * 1000), count - len(found)))
            found += [_read_of_python(message) for messages in batches.values() for message in messages]
        return found

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(self._at(partition), offset)

    def pause(self, partition: int) -> None:
        self._consumer.pause(self._at(partition))

    def resume(self, partition: int) -> None:
        self._consumer.resume(self._at(partition))

    def beginning_offsets(self, partitions: Sequence[int]) -> dict[int, int]:
        found = self._result(self._consumer.beginning_offsets([self._at(each) for each in partitions]))
        return {at.partition: offset for at, offset in found.items()}

    def end_offsets(self, partitions: Sequence[int]) -> dict[int, int]:
        found = self._result(self._consumer.end_offsets([self._at(each) for each in partitions]))
        return {at.partition: offset for at, offset in found.items()}

    def offsets_for_times(self, times: Mapping[int, int]) -> dict[int, int | None]:
        asked = {self._at(partition): timestamp_ms for partition, timestamp_ms in times.items()}
        found = self._result(self._consumer.offsets_for_times(asked))
        return {at.partition: None if each is None else each.offset for at, each in found.items()}


def _read_of_python(message: Any) -> Read:
    return Read(
        message.partition, message.offset, message.timestamp, message.key, message.value, tuple(message.headers)
    )


def send_by_aiokafka(sending: Sending) -> list[Place]:
    async def run() -> list[Place]:
        producer = aiokafka.AIOKafkaProducer(**_producer_options(sending))
        async with asyncio.timeout(TIMEOUT_S), producer:
            waits = [await producer.send(sending.topic, **_send_options(message)) for message in sending.messages]
            sent = await asyncio.gather(*waits)
        return [Place(each.partition, each.offset) for each in sent if each is not None]

    return asyncio.run(run())


class AiokafkaConsumer(PythonConsumer):
    """Runs its loop only while it is asked for something: enough for a test."""

    def __init__(self, bootstrap: str, topic: str, partitions: Sequence[int], *, is_committed: bool) -> None:
        self._runner = asyncio.Runner()
        self._topic = topic
        self._runner.run(self._begin(self._options(bootstrap, is_committed=is_committed), partitions))

    async def _begin(self, options: dict[str, Any], partitions: Sequence[int]) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(**options)
        self._consumer.assign([self._at(partition) for partition in partitions])
        await self._consumer.start()
        await self._consumer.seek_to_beginning()

    def _at(self, partition: int) -> Any:
        return aiokafka.TopicPartition(self._topic, partition)

    def _result(self, answer: Any) -> Any:
        return self._runner.run(answer)

    def _poll(self, timeout_ms: int, max_records: int) -> Any:
        return self._consumer.getmany(timeout_ms=timeout_ms, max_records=max_records)

    def pause(self, partition: int) -> None:
        async def pause() -> None:  # it wants a running loop
            self._consumer.pause(self._at(partition))

        self._runner.run(pause())

    def close(self) -> None:
        with self._runner:
            self._runner.run(self._consumer.stop())


def send_by_kafka_python(sending: Sending) -> list[Place]:
    producer = kafka.KafkaProducer(**_producer_options(sending), reconnect_backoff_max_ms=500)
    with closing(producer):
        waits = [producer.send(sending.topic, **_send_options(message)) for message in sending.messages]
        sent = [wait.get(TIMEOUT_S) for wait in waits]
    return [Place(each.partition, each.offset) for each in sent]


class KafkaPythonConsumer(PythonConsumer):
    def __init__(self, bootstrap: str, topic: str, partitions: Sequence[int], *, is_committed: bool) -> None:
        self._topic = topic
        options = self._options(bootstrap, is_committed=is_committed)
        self._consumer = kafka.KafkaConsumer(**options, reconnect_backoff_max_ms=500)
        self._consumer.assign([self._at(partition) for partition in partitions])
        self._consumer.seek_to_beginning()

    def _at(self, partition: int) -> Any:
        return kafka.TopicPartition(self._topic, partition)

    def _poll(self, timeout_ms: int, max_records: int) -> Any:
        return self._consumer.poll(timeout_ms=timeout_ms, max_records=max_records)

    def close(self) -> None:
        self._consumer.close()


CLIENTS: Final[Mapping[str, Client]] = {
    "librdkafka": Client(send_by_librdkafka, LibrdkafkaConsumer),
    "aiokafka": Client(send_by_aiokafka, AiokafkaConsumer),
    "kafka-python": Client(send_by_kafka_python, KafkaPythonConsumer),
}
