"""Sends whole record batches to the leaders of their partitions, each once and in order.

Owns the sequences, the leaders and the requests in flight: one request to each leader, with one batch of each
partition, while the caller encodes the next. A leader that moves or a connection that breaks is tried again with the
same sequences, which the broker takes once. Memory is bounded: `send` waits while too much is queued.

For what librdkafka cannot do: sending at Arrow speed, where it would handle every record separately. A refusal concerns
the records or the cluster and would be repeated; `ProducerBroken` concerns this producer or its transaction.

Must not know: Arrow, transactions beyond their id. For one thread.
"""

import select
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, NoReturn, Protocol

import msgspec

from barnabas.client.brokers import Address, Brokers
from barnabas.client.connection import BrokerConnection
from barnabas.client.errors import (
    DeliveryFailed,
    Passing,
    ProducerBroken,
    TransactionFenced,
    Unreachable,
    check,
    is_passing,
    refusal_of,
    words_of,
)
from barnabas.core.errors import BarnabasError, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import Buffer, add_sequence, read_header
from barnabas.core.records.record import decode_batch, encode_batch
from barnabas.wire.apis import PRODUCE
from barnabas.wire.produce_request import write_produce_request

ACKS_ALL: Final = -1
_ROOM_BYTES: Final = 8 * 1024 * 1024
_REQUEST_BYTES: Final = 16 * 1024 * 1024
_RETRY_S: Final = 0.05
_SILENCE_S: Final = 30.0
# Of a topic that it is about to create, and of all while it starts, a broker says that they do not exist.
_DISBELIEF_S: Final = 5.0
_OK: Final = 0
_TOO_LARGE: Final = frozenset({10, 18})
_DUPLICATE: Final = 46
_UNKNOWN_TOPIC: Final = 3
FENCED: Final = frozenset({47, 90})
# A sequence the broker does not expect, a transaction or a producer it does not know, or no longer.
BROKEN: Final = frozenset({45, 48, 49, 59, 120})


class Producer(NamedTuple):
    """The producer id and epoch assigned by the cluster."""

    id: int
    epoch: int


class Batch(Protocol):
    """Records, encoded; `stamp` makes them a batch."""

    buffer: memoryview
    record_count: int
    level: int | None

    def stamp(self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_transactional: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class _Stamped:
    key: TopicPartition
    data: Buffer
    record_count: int
    level: int | None
    deadline: float


@dataclass(slots=True)
class _UnderWay:
    connection: BrokerConnection
    batches: dict[TopicPartition, _Stamped]


class BatchProducer:
    """Sends the batches of one producer. It must not be used again once it has raised."""

    def __init__(
        self,
        brokers: Brokers,
        producer: Producer,
        *,
        transactional_id: str | None,
        delivery_s: float,
        contact_s: float,
        ack_timeout_ms: int = 30_000,
    ) -> None:
        self._brokers = brokers
        self._leading = brokers.another()  # connections with a request under way cannot be asked something else
        self._producer = producer
        self._transactional_id = transactional_id
        self._delivery_s = delivery_s
        self._contact_s = contact_s
        self._ack_timeout_ms = ack_timeout_ms
        self._leaders: dict[TopicPartition, Address] = {}
        self._counts: dict[str, int] = {}
        self._missed_at: dict[str, float] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._queues: dict[TopicPartition, deque[_Stamped]] = {}
        self._queued_bytes = 0
        self._under_way: dict[Address, _UnderWay] = {}

    def begin_anew(self, producer: Producer) -> None:
        """Send as another producer from now on, over the same connections; everything sent before is acknowledged."""
        assert not self._queues
        assert not self._under_way
        self._producer = producer
        self._sequences.clear()

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; looked up once, until `forget_counts`."""
        if topic not in self._counts:
            self.look_up(topic)
        return self._counts[topic]

    def forget_counts(self) -> None:
        """Look up the partition counts again when next needed: topics may have been given more, and keys move then."""
        self._counts.clear()

    def look_up(self, topic: str) -> None:
        """Look up a topic again; a broker that creates topics automatically may need a moment."""
        deadline = time.monotonic() + self._contact_s
        while True:
            try:
                self._find_leaders([topic])
                return
            except (Unreachable, Passing) as error:
                if time.monotonic() >= deadline:
                    if isinstance(error.__cause__, UnknownTopicOrPartition):
                        raise error.__cause__ from None
                    raise Unreachable(f"{error}; is a broker running there?") from None
                self._drop_connections()
                time.sleep(_RETRY_S)

    def send(self, key: TopicPartition, batch: Batch) -> None:
        """Queue a batch behind those of its partition; waits while too much is queued."""
        sequence = self._sequences.get(key, 0)
        batch.stamp(*self._producer, sequence, is_transactional=self._transactional_id is not None)
        self._sequences[key] = add_sequence(sequence, batch.record_count)
        stamped = _Stamped(key, batch.buffer, batch.record_count, batch.level, time.monotonic() + self._delivery_s)
        self._queues.setdefault(key, deque()).append(stamped)
        self._queued_bytes += len(stamped.data)
        self._advance(0.0)
        while self._queued_bytes > _ROOM_BYTES:
            self._advance(_SILENCE_S)

    def flush(self) -> None:
        """Wait until all is acknowledged."""
        while self._queues or self._under_way:
            self._advance(_SILENCE_S)

    def close(self) -> None:
        """Close the connections to the leaders; the brokers passed in belong to the caller."""
        self._under_way.clear()
        self._leading.close()

    def _advance(self, wait_s: float) -> None:
        """Send what can be sent, and handle the answers that arrive within a time."""
        try:
            self._dispatch()
            for address in self._answered(wait_s):
                self._take_answer(address)
            self._dispatch()
        except (Unreachable, Passing) as error:
            self._start_over(error)

    def _dispatch(self) -> None:
        """Send a request to every leader without one in flight."""
        if not self._queues:
            return
        unknown = {key.topic for key in self._queues if key not in self._leaders}
        if unknown:
            self._find_leaders(sorted(unknown))
        chosen: dict[Address, dict[TopicPartition, _Stamped]] = {}
        for key, queue in self._queues.items():
            leader = self._leaders.get(key)
            if leader is None:
                raise Passing(f"{key} has no leader")
            if leader not in self._under_way:
                chosen.setdefault(leader, {})[key] = queue[0]
        for leader, batches in chosen.items():
            self._request(leader, batches)

    def _request(self, leader: Address, candidates: dict[TopicPartition, _Stamped]) -> None:
        connection = self._leading.at(leader)
        batches: dict[TopicPartition, _Stamped] = {}
        size = 0
        for key, batch in candidates.items():
            size += len(batch.data)
            if batches and size > _REQUEST_BYTES:
                break
            batches[key] = batch
        connection.send_written(PRODUCE.key, self._body(batches))
        self._under_way[leader] = _UnderWay(connection, batches)
        for key, batch in batches.items():
            queue = self._queues[key]
            queue.popleft()
            self._queued_bytes -= len(batch.data)
            if not queue:
                del self._queues[key]

    def _body(self, batches: dict[TopicPartition, _Stamped]) -> list[Buffer]:
        by_topic: dict[str, list[tuple[int, Buffer]]] = {}
        for key, batch in batches.items():
            by_topic.setdefault(key.topic, []).append((key.partition, batch.data))
        return write_produce_request(self._transactional_id, ACKS_ALL, self._ack_timeout_ms, by_topic)

    def _answered(self, wait_s: float) -> list[Address]:
        """The leaders whose answers can be read, once there is one or the time is up."""
        if not self._under_way:
            return []
        poller = select.poll()
        by_fileno = {each.connection.fileno(): address for address, each in self._under_way.items()}
        for fileno in by_fileno:
            poller.register(fileno, select.POLLIN)
        ready = poller.poll(wait_s * 1000)
        if wait_s and not ready:
            raise Unreachable(f"no broker answered within {wait_s:.0f} s")
        return [by_fileno[fileno] for fileno, _ in ready]

    def _take_answer(self, address: Address) -> None:
        answer = self._under_way[address].connection.receive()
        batches = self._under_way.pop(address).batches
        has_failed = False
        for topic in answer.responses:
            for each in topic.partition_responses:
                batch = batches.pop(TopicPartition(str(topic.name), int(each.index)))
                has_failed |= not self._is_delivered(batch, each)
        if batches:
            raise Unreachable(f"the answer of {address[0]}:{address[1]} leaves out {next(iter(batches))}")
        if has_failed:
            time.sleep(_RETRY_S)

    def _is_delivered(self, batch: _Stamped, answer: Any) -> bool:
        """Whether a batch was accepted; after a retriable error it is queued again. Any other error is raised."""
        code = int(answer.error_code)
        if code in (_OK, _DUPLICATE):
            return True
        why = getattr(answer, "error_message", None) or words_of(code)
        message = f"cannot send {batch.record_count} record(s) to {batch.key}: {why}"
        if is_passing(code):
            if time.monotonic() >= batch.deadline:
                raise DeliveryFailed(f"{message}, for {self._delivery_s:.0f} s") from refusal_of(code, message)
            self._leaders.pop(batch.key, None)
            self._queue_again([batch])
            return False
        if code in _TOO_LARGE and batch.record_count > 1:
            self._queue_again(_halves(batch))
            return True
        raise failure_of(code, message)

    def _queue_again(self, batches: Iterable[_Stamped]) -> None:
        for batch in reversed(list(batches)):
            self._queues.setdefault(batch.key, deque()).appendleft(batch)
            self._queued_bytes += len(batch.data)

    def _start_over(self, error: BarnabasError) -> None:
        """After a retriable failure: everything in flight is sent again, over new connections."""
        self._drop_connections()
        now = time.monotonic()
        for queue in self._queues.values():
            if now >= queue[0].deadline:
                raise DeliveryFailed(
                    f"{queue[0].key}: not acknowledged within {self._delivery_s:.0f} s: {error}"
                ) from error
        time.sleep(_RETRY_S)

    def _drop_connections(self) -> None:
        for each in self._under_way.values():
            self._queue_again(each.batches.values())
        self.close()
        self._brokers.close()
        self._leaders.clear()

    def _find_leaders(self, topics: list[str]) -> None:
        found = self._brokers.metadata(topics, create=True).topics
        for topic in topics:
            if topic not in found or found[topic].error_code == _UNKNOWN_TOPIC:
                self._miss(topic)
            check(found[topic].error_code, f"read topic {topic!r}")
            self._missed_at.pop(topic, None)
            self._counts[topic] = len(found[topic].leaders)
            for partition, leader in found[topic].leaders.items():
                if leader is not None:
                    self._leaders[TopicPartition(topic, partition)] = leader.address

    def _miss(self, topic: str) -> NoReturn:
        """Report that a topic does not exist only once the cluster has said so for a while."""
        missing = UnknownTopicOrPartition(f"topic {topic!r} does not exist")
        now = time.monotonic()
        if now < self._missed_at.setdefault(topic, now) + _DISBELIEF_S:
            raise Passing(str(missing)) from missing
        raise missing


def failure_of(code: int, message: str) -> BarnabasError:
    """The exception for an error code, as a producer sees it."""
    if code in FENCED:
        return TransactionFenced(message)
    return ProducerBroken(message) if code in BROKEN else refusal_of(code, message)


def _halves(batch: _Stamped) -> list[_Stamped]:
    """Two batches with the records, and so the sequences, of one that is too large for the broker."""
    header = read_header(batch.data)
    records = decode_batch(batch.data, max_bytes=2**31 - 1)
    middle = len(records) // 2
    halves = []
    for first, part in ((0, records[:middle]), (middle, records[middle:])):
        data = encode_batch(
            [msgspec.structs.replace(record, offset=n) for n, record in enumerate(part)],
            codec=header.codec,
            level=batch.level,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=add_sequence(header.base_sequence, first),
            is_transactional=header.is_transactional,
        )
        halves.append(replace(batch, data=data, record_count=len(part)))
    return halves
