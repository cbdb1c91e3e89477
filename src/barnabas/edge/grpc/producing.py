"""Produce and ProduceStream.

Every batch is one of an idempotent producer, so that what has to be sent again, because the leader moved or an answer
was lost, is written once. A stream has a producer of its own; unary calls borrow one that nobody else uses meanwhile.

Requests of a stream are appended in order. Where all their partitions are led here they do not wait for each other's
acknowledgements; anything else waits until all before it is settled.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, InvalidRequest, RequestTimedOut
from barnabas.core.metadata.topics import NewTopic
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import HEADER_SIZE, Codec
from barnabas.edge.grpc.calls import LARGE_BYTES, Call, pause
from barnabas.edge.grpc.encoding import (
    MANY_RECORDS,
    MAX_BATCH_BYTES,
    MAX_RECORDS,
    NewBatch,
    choose_partitions,
    codec_of,
    encode_batches,
)
from barnabas.edge.grpc.routing import PASSING, RETRY_S, Routes
from barnabas.edge.grpc.statuses import error_of
from barnabas.edge.grpc.tokens import Producer, resume
from barnabas.services.call_quotas import Use
from barnabas.services.produce import ACKS_ALL
from barnabas.services.produce_round import Placed, ProduceRound
from barnabas.services.session import Session
from barnabas.v1 import bus_pb2

DEFAULT_TIMEOUT_MS: Final = 30_000
MAX_PENDING: Final = 64
"""Requests of a stream that are appended and not acknowledged; the next is not read until fewer are."""
MAX_PENDING_BYTES: Final = 16 * 1024 * 1024
MAX_IDLE_PRODUCERS: Final = 64
_ACKS: Final = {bus_pb2.ACKS_UNSPECIFIED: ACKS_ALL, bus_pb2.ACKS_ALL: ACKS_ALL, bus_pb2.ACKS_LEADER: 1}


@dataclass(frozen=True, slots=True)
class Wish:
    """How records are to be written."""

    topic: str
    acks: int
    codec: Codec
    is_round_robin: bool

    @classmethod
    def of(cls, asked: bus_pb2.ProduceRequest | bus_pb2.ProduceStreamOptions) -> "Wish":
        """What a request says."""
        if not asked.topic:
            raise InvalidRequest("name a topic")
        if asked.acks not in _ACKS:
            raise InvalidRequest(f"acks {asked.acks} is unknown")
        if asked.partitioner not in bus_pb2.Partitioner.values():
            raise InvalidRequest(f"partitioner {asked.partitioner} is unknown")
        is_round_robin = asked.partitioner == bus_pb2.PARTITIONER_ROUND_ROBIN
        return cls(asked.topic, _ACKS[asked.acks], codec_of(asked.compression), is_round_robin)


@dataclass(slots=True)
class _Sending:
    """The batches of one request, and what became of them."""

    batches: list[NewBatch]
    outcomes: list[bus_pb2.RecordOutcome]
    timeout_ms: int
    rounds: list[ProduceRound | None] = field(default_factory=list)
    size: int = 0

    def place(self, batch: NewBatch, first_offset: int) -> None:
        for offset, at in enumerate(batch.places, first_offset):
            self.outcomes[at] = bus_pb2.RecordOutcome(partition=batch.partition, offset=offset)

    def refuse(self, batch: NewBatch, error: BarnabasError) -> None:
        told = error_of(error)
        for at in batch.places:
            self.outcomes[at] = bus_pb2.RecordOutcome(partition=batch.partition, offset=-1, error=told)


class Producing:
    """Serves both calls."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._broker = routes.broker
        self._idle: dict[str, list[Producer]] = {}  # producers of unary calls, by topic
        self._idle_count = 0

    async def produce(self, call: Call, data: bytes) -> bus_pb2.ProduceResponse:
        """See the service."""
        request = await call.parse(bus_pb2.ProduceRequest, data)
        wish = Wish.of(request)
        timeout_ms = call.timeout_ms(request.timeout_ms, default_ms=DEFAULT_TIMEOUT_MS)
        await self.check_topic(call.session, wish.topic)
        producer = await self._borrow(wish.topic)
        sending = await self.prepare(
            request, wish, producer.turn, timeout_ms=timeout_ms, is_large=len(data) > LARGE_BYTES
        )
        producer.turn += 1
        is_known = await self.send(call.session, wish, sending, producer)
        if is_known:
            self._give_back(producer)
        return bus_pb2.ProduceResponse(outcomes=sending.outcomes)

    async def produce_stream(self, call: Call) -> None:
        """See the service."""
        first = await call.read(bus_pb2.ProduceStreamRequest)
        if first is None:
            return
        if not first.HasField("options"):
            raise InvalidRequest("the first request of a stream must have options")
        options = first.options
        wish = Wish.of(options)
        timeout_ms = call.timeout_ms(options.timeout_ms, default_ms=DEFAULT_TIMEOUT_MS)
        await self.check_topic(call.session, wish.topic)
        producer = None
        if options.resume_token:
            producer = resume(options.resume_token, wish.topic)
        elif not options.is_not_idempotent:
            producer = Producer(await self._broker.producer_ids.take(), wish.topic)
        stream = _ProduceStream(self, call, wish, producer, timeout_ms=timeout_ms)
        await stream.run(first)

    async def check_topic(self, session: Session, name: str) -> None:
        """Refuse a topic that may not be written to; create one that does not exist, where that is automatic."""
        self._broker.access.authorize_topic(session, Operation.WRITE, name)
        if name in self._broker.image.topics or not self._broker.config.auto_create_topics_enable:
            self._broker.image.get_topic(name)
            return
        if not self._broker.access.allows(session, Operation.CREATE, CLUSTER):
            self._broker.access.authorize_topic(session, Operation.CREATE, name)
        self._broker.topics.decide_new(NewTopic(name, -1, -1))  # refuse a name that no topic may have
        if self._broker.quotas.is_on and (self._broker.link is None or self._broker.link.is_here):
            # Elsewhere the controller counts.
            self._broker.quotas.mutate(session, self._broker.live.current.num_partitions, is_strict=True)
        refused = await self._broker.topics.create_automatically([name], caller=session)
        for refusal in refused.values():
            raise refusal

    async def prepare(
        self,
        request: bus_pb2.ProduceRequest | bus_pb2.ProduceStreamRequest,
        wish: Wish,
        turn: int,
        *,
        timeout_ms: int,
        is_large: bool,
    ) -> _Sending:
        """The batches of a request."""
        records, total_bytes = list(request.records), request.ByteSize()
        if len(records) > MAX_RECORDS:
            raise InvalidRequest(f"a request has {len(records)} records; the maximum is {MAX_RECORDS}")
        count, now_ms = len(self._broker.image.get_topic(wish.topic).partitions), self._broker.clock.now_ms()

        # A record that is larger than the topic takes must not be in one batch with others.
        allowed = self._broker.served.get(wish.topic).config.log.max_message_bytes
        most = max(min(MAX_BATCH_BYTES, allowed - HEADER_SIZE), 1)

        def encode() -> tuple[list[NewBatch], Mapping[int, BarnabasError]]:
            chosen = choose_partitions(records, partition_count=count, turn=turn, is_round_robin=wish.is_round_robin)
            batches = encode_batches(
                records,
                chosen.partitions,
                now_ms=now_ms,
                codec=wish.codec,
                max_batch_bytes=most,
                total_bytes=total_bytes,
            )
            return batches, chosen.refused

        is_long = is_large or len(records) > MANY_RECORDS
        batches, refused = await self._broker.threads.compute.run(encode) if is_long else encode()
        outcomes = [_NOT_YET] * len(records)
        for at, error in refused.items():
            outcomes[at] = bus_pb2.RecordOutcome(partition=-1, offset=-1, error=error_of(error))
        return _Sending(batches, outcomes, timeout_ms, size=sum(len(each.data) for each in batches))

    def begin(self, session: Session, wish: Wish, sending: _Sending, producer: Producer | None) -> bool:
        """Append all batches, if they are for partitions that are led here and nothing has to be waited for first.
        False: nothing, or only a first part, was appended: `send` does the rest.
        """
        image, here = self._broker.image, self._broker.config.node_id
        partitions = image.get_topic(wish.topic).partitions
        if any(partitions[each.partition].leader != here for each in sending.batches):
            return False
        for batch in sending.batches:
            self._stamp(batch, producer)
            name = TopicPartition(wish.topic, batch.partition)
            try:
                done = self._routes.begin_produce(
                    session, name, batch.data, acks=wish.acks, timeout_ms=sending.timeout_ms
                )
            except PASSING:
                return False
            except BarnabasError as error:
                sending.refuse(batch, error)
                sending.rounds.append(None)
                continue
            if done is None:
                return False
            self._advance(batch, producer)
            sending.rounds.append(done)
        return True

    async def settle(self, session: Session, wish: Wish, sending: _Sending, producer: Producer | None) -> bool:
        """Wait for the acknowledgement of what was begun; what was lost meanwhile is sent again. False: it is not known
        whether all of it is written.
        """
        is_known = True
        for batch, done in zip(sending.batches, sending.rounds, strict=False):
            if done is None:
                continue
            await done.wait_acked()
            outcome = done.outcomes[0][0]
            if isinstance(outcome, Placed):
                sending.place(batch, outcome.first_offset)
            elif isinstance(outcome, PASSING) and producer is not None:
                is_known &= await self._send_batch(session, wish, sending, batch)
            else:
                sending.refuse(batch, outcome)
                is_known = False
        return is_known

    async def send(self, session: Session, wish: Wish, sending: _Sending, producer: Producer | None) -> bool:
        """Write what is left of a request, wherever its partitions are led; False as in `settle`."""
        is_known = await self.settle(session, wish, sending, producer)
        for batch in sending.batches[len(sending.rounds) :]:
            self._stamp(batch, producer)
            before = sending.outcomes[batch.places[0]]
            is_known &= await self._send_batch(session, wish, sending, batch, is_repeatable=producer is not None)
            assert before is not sending.outcomes[batch.places[0]]
            if not sending.outcomes[batch.places[0]].HasField("error"):
                self._advance(batch, producer)
        return is_known

    async def _send_batch(
        self, session: Session, wish: Wish, sending: _Sending, batch: NewBatch, *, is_repeatable: bool = True
    ) -> bool:
        """Write one batch, again and again until its leader has it. False: it may be written, or not."""
        loop, name = asyncio.get_running_loop(), TopicPartition(wish.topic, batch.partition)
        deadline = loop.time() + sending.timeout_ms / 1000
        may_be_done = False
        while True:
            left_ms = max(int((deadline - loop.time()) * 1000), 1)
            try:
                leader = self._routes.leader_of(name)
                if self._routes.is_here(leader):
                    offset = await self._routes.produce_here(
                        session, name, batch.data, acks=wish.acks, timeout_ms=left_ms
                    )
                else:
                    offset = await self._routes.produce_there(
                        leader, session, name, batch.data, acks=wish.acks, timeout_ms=left_ms
                    )
            except PASSING as error:
                may_be_done |= getattr(error, "may_be_done", True)
                if loop.time() + RETRY_S >= deadline or (may_be_done and not is_repeatable):
                    sending.refuse(batch, error)
                    return not may_be_done
            except BarnabasError as error:
                sending.refuse(batch, error)
                return not (may_be_done or isinstance(error, RequestTimedOut))
            else:
                sending.place(batch, offset)
                return True
            await pause(RETRY_S)

    @staticmethod
    def _stamp(batch: NewBatch, producer: Producer | None) -> None:
        if producer is not None:
            batch.stamp(producer.producer_id, producer.epoch, producer.sequence_of(batch.partition))

    @staticmethod
    def _advance(batch: NewBatch, producer: Producer | None) -> None:
        if producer is not None:
            producer.advance(batch.partition, len(batch.places))

    async def renew(self, producer: Producer) -> Producer:
        """Another producer, after one of which it is not known what it has written."""
        return Producer(await self._broker.producer_ids.take(), producer.topic, turn=producer.turn)

    async def _borrow(self, topic: str) -> Producer:
        idle = self._idle.get(topic)
        if not idle:
            return Producer(await self._broker.producer_ids.take(), topic)
        producer = idle.pop()
        self._idle_count -= 1
        if not idle:
            del self._idle[topic]
        return producer

    def _give_back(self, producer: Producer) -> None:
        if self._idle_count >= MAX_IDLE_PRODUCERS:
            oldest = next(iter(self._idle))
            self._idle_count -= len(self._idle.pop(oldest))
        self._idle.setdefault(producer.topic, []).append(producer)
        self._idle_count += 1


class _ProduceStream:
    """One stream: reads requests and appends them; a task of its own waits for acknowledgements and answers."""

    def __init__(
        self, producing: Producing, call: Call, wish: Wish, producer: Producer | None, *, timeout_ms: int
    ) -> None:
        self._producing = producing
        self._call = call
        self._wish = wish
        self._producer = producer
        self._timeout_ms = timeout_ms
        self._pending: deque[tuple[int, _Sending, bytes]] = deque()
        self._size = 0
        self._is_changed = asyncio.Event()
        self._is_over = False
        self._turn = 0 if producer is None else producer.turn
        self._sequence = 0

    async def run(self, first: bus_pb2.ProduceStreamRequest) -> None:
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(self._call.measured(self._answer))
            request: bus_pb2.ProduceStreamRequest | None = first
            while request is not None:
                if request.records:
                    await self._take(request)
                    await self._call.pace(Use.PRODUCING, request.ByteSize())  # no more is read meanwhile
                request = await self._call.read(bus_pb2.ProduceStreamRequest)
                if request is not None and request.HasField("options"):
                    raise InvalidRequest("only the first request of a stream may have options")
            self._is_over = True
            self._is_changed.set()
            await answering

    async def _take(self, request: bus_pb2.ProduceStreamRequest) -> None:
        producing, session, wish = self._producing, self._call.session, self._wish
        is_large = request.ByteSize() > LARGE_BYTES
        sending = await producing.prepare(request, wish, self._turn, timeout_ms=self._timeout_ms, is_large=is_large)
        while self._pending and (len(self._pending) >= MAX_PENDING or self._size + sending.size > MAX_PENDING_BYTES):
            await self._wait_change()
        self._turn += 1
        if self._producer is not None:
            self._producer.turn = self._turn
        if not producing.begin(session, wish, sending, self._producer):
            while self._pending:  # what is before it comes first
                await self._wait_change()
            await self._note(await producing.send(session, wish, sending, self._producer))
            sending.rounds.clear()
            sending.batches.clear()
        token = b"" if self._producer is None else self._producer.token()
        self._pending.append((self._sequence, sending, token))
        self._size += sending.size
        self._sequence += 1
        self._is_changed.set()

    async def _wait_change(self) -> None:
        self._is_changed.clear()
        await self._is_changed.wait()

    async def _note(self, is_known: bool) -> None:
        if not is_known and self._producer is not None:
            self._producer = await self._producing.renew(self._producer)

    async def _answer(self) -> None:
        while True:
            while not self._pending:
                if self._is_over:
                    return
                await self._wait_change()
            sequence, sending, token = self._pending[0]
            is_known = await self._producing.settle(self._call.session, self._wish, sending, self._producer)
            await self._note(is_known)
            response = bus_pb2.ProduceStreamResponse(
                sequence=sequence, outcomes=sending.outcomes, resume_token=token if is_known else b""
            )
            await self._call.write(response, is_large=len(sending.outcomes) > 1000)
            self._pending.popleft()
            self._size -= sending.size
            self._is_changed.set()


_NOT_YET: Final = bus_pb2.RecordOutcome(partition=-1, offset=-1)
