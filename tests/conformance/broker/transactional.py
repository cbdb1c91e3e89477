"""Transactional producers of three clients behind one face.

librdkafka and kafka-python name the member and its generation when they commit offsets (KIP-447), aiokafka only the
group. None of them has an epoch for each transaction (KIP-890) yet: all add partitions before they write.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

import aiokafka
import aiokafka.errors
import confluent_kafka

from tests.conformance.broker.clients import QUIET, TIMEOUT_S, kafka

# A client's name for each kind of member: those of librdkafka differ in the protocol of groups alone.
PRODUCER_OF: Final = {
    "librdkafka": "librdkafka",
    "librdkafka-848": "librdkafka",
    "aiokafka": "aiokafka",
    "kafka-python": "kafka-python",
}


class Refused(Exception):
    """What the client raised, whatever it calls it."""


class TransactionalProducer(Protocol):
    """A producer that has taken its transactional id. All but `send` return when the broker has answered."""

    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, value: bytes) -> None: ...
    def flush(self) -> None:
        """Return when all that was sent is acknowledged."""
        ...

    def send_offsets(self, topic: str, offsets: Mapping[int, int], metadata: Any) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Open(Protocol):
    """Makes a producer, which takes its transactional id at once."""

    def __call__(
        self, bootstrap: str, transactional_id: str, *, codec: str = "none", timeout_ms: int = 60_000
    ) -> TransactionalProducer: ...


class LibrdkafkaProducer:
    def __init__(self, bootstrap: str, transactional_id: str, *, codec: str = "none", timeout_ms: int = 60_000) -> None:
        self._producer = confluent_kafka.Producer(
            {
                **QUIET,
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "compression.type": codec,
                "linger.ms": 5,
            }
        )
        self._call(self._producer.init_transactions, TIMEOUT_S)

    @staticmethod
    def _call(call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except confluent_kafka.KafkaException as error:
            raise Refused(error.args[0].name()) from error

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._call(lambda: self._producer.produce(topic, value, partition=partition))

    def flush(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0

    def send_offsets(self, topic: str, offsets: Mapping[int, int], metadata: Any) -> None:
        positions = [confluent_kafka.TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        self._call(self._producer.send_offsets_to_transaction, positions, metadata, TIMEOUT_S)

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, TIMEOUT_S)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, TIMEOUT_S)

    def close(self) -> None:
        self._producer.purge()
        with suppress(confluent_kafka.KafkaException):  # one that was fenced says so again
            self._producer.flush(TIMEOUT_S)


class AiokafkaProducer:
    """Its loop runs in a thread of its own, which is told of what is sent all at once."""

    def __init__(self, bootstrap: str, transactional_id: str, *, codec: str = "none", timeout_ms: int = 60_000) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._unsent: list[tuple[str, int, bytes]] = []
        self._sent: list[asyncio.Future[Any]] = []
        self._producer: Any = None
        self._run(self._start(bootstrap, transactional_id, codec, timeout_ms))

    async def _start(self, bootstrap: str, transactional_id: str, codec: str, timeout_ms: int) -> None:
        self._producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
        )
        await self._producer.start()

    def _run(self, work: Any) -> Any:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)
        except aiokafka.errors.KafkaError as error:
            raise Refused(type(error).__name__) from error

    def begin(self) -> None:
        self._sent.clear()
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._unsent.append((topic, partition, value))

    async def _send_all(self) -> None:
        unsent, self._unsent = self._unsent, []
        for topic, partition, value in unsent:
            self._sent.append(await self._producer.send(topic, value, partition=partition))

    async def _after_all_is_sent(self, work: Callable[[], Any]) -> None:
        await self._send_all()
        await work()

    def flush(self) -> None:
        self._run(self._after_all_is_sent(lambda: asyncio.gather(*self._sent)))

    def send_offsets(self, topic: str, offsets: Mapping[int, int], metadata: Any) -> None:
        positions = {aiokafka.TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        self._run(self._after_all_is_sent(lambda: self._producer.send_offsets_to_transaction(positions, metadata)))

    def commit(self) -> None:
        self._run(self._after_all_is_sent(self._producer.commit_transaction))

    def abort(self) -> None:
        self._run(self._after_all_is_sent(self._producer.abort_transaction))

    def close(self) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        await self._producer.stop()
        await asyncio.gather(*self._sent, return_exceptions=True)


class KafkaPythonProducer:
    def __init__(self, bootstrap: str, transactional_id: str, *, codec: str = "none", timeout_ms: int = 60_000) -> None:
        self._sent: list[Any] = []
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
            reconnect_backoff_max_ms=500,
        )
        self._call(self._producer.init_transactions)

    @staticmethod
    def _call(call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except kafka.errors.KafkaError as error:
            raise Refused(type(error).__name__) from error

    def begin(self) -> None:
        self._sent.clear()
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._sent.append(self._call(lambda: self._producer.send(topic, value, partition=partition)))

    def flush(self) -> None:
        for each in self._sent:
            self._call(each.get, TIMEOUT_S)

    def send_offsets(self, topic: str, offsets: Mapping[int, int], metadata: Any) -> None:
        positions = {
            kafka.TopicPartition(topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        self._call(self._producer.send_offsets_to_transaction, positions, metadata)

    def commit(self) -> None:
        self._call(self._producer.commit_transaction)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=TIMEOUT_S)


PRODUCERS: Final[Mapping[str, Open]] = {
    "librdkafka": LibrdkafkaProducer,
    "aiokafka": AiokafkaProducer,
    "kafka-python": KafkaPythonProducer,
}
