"""Produce, versions 3 to 13: translates a frame into a round of the service, and its result into an answer.

One batch for one partition, which most requests are, has its own path, on which nothing is awaited. Nor do most others
await anything: an answer waits only for its acknowledgement, so that requests pipelined on one connection are appended
one after another. A request that takes longer before it can be appended (`services.produce_round`) makes its connection
wait: order is kept.

As in Kafka, acks=0 gets no answer; if it is refused the connection is closed, which is all such a client can notice.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from barnabas.core.errors import BarnabasError
from barnabas.core.produced import ProduceRequest, Single
from barnabas.edge.kafka.current_leaders import NOT_LEADING, CurrentLeaders
from barnabas.edge.kafka.produce_versions import transacting_of
from barnabas.runtime.connections import Answer, Slot, Work
from barnabas.runtime.letting_go import let_go
from barnabas.runtime.turns import finish, in_turns, next_turn, pieces
from barnabas.services.broker import Broker
from barnabas.services.opening import RecordsRefused
from barnabas.services.produce_round import MAX_AT_ONCE, Outcome, Placed, ProduceRound, ProduceRounds, Taken
from barnabas.services.session import Session
from barnabas.wire.apis import PRODUCE
from barnabas.wire.endpoints import NodeEndpoint
from barnabas.wire.frame import HeaderReader, RequestHeader, answer_head
from barnabas.wire.produce import (
    CURRENT_LEADERS_FROM,
    ManyPartitions,
    PartitionAnswer,
    TopicAnswer,
    read_produce,
    read_produce_in_steps,
    read_single,
    write_produce,
    write_produce_in_steps,
    write_single,
)

MAX_MESSAGE: Final = 500
Waiting = Callable[[Slot], None]  # puts the answer into the slot when it is acknowledged


class RefusedUnanswered(BarnabasError):
    """A produce with acks=0 was refused."""


class Producing:
    """Handles Produce requests."""

    def __init__(self, broker: Broker) -> None:
        self._refusals = broker.refusals
        self._leaders = CurrentLeaders(broker)
        self._rounds = ProduceRounds(broker.produce, broker.served, broker.access)

    def handle(self, headers: HeaderReader, frame: memoryview, session: Session) -> "Answer | Waiting | Work":
        """The request whose header was read last: an answer, a callback that leads to one, or work to be awaited."""
        version, body_at = headers.version, headers.body_at
        single = read_single(frame, body_at, len(frame), version)
        if single is not None:
            taken = self._rounds.take_single(session, single)
            if isinstance(taken, tuple) and not session.throttle_ms:
                _, _, name, topic_id, index, _ = single
                return [write_single(version, headers.correlation_id, name, topic_id, index, taken)]
            if taken is not None:
                return self._answer_not_placed(headers.header(), session, single, taken)
        header = headers.header()
        try:
            request = read_produce(frame, body_at, len(frame), version, max_at_once=MAX_AT_ONCE)
        except ManyPartitions:
            return self._handle_many(header, session, memoryview(bytearray(frame)))
        done = self._rounds.take_now(session, request)
        if done is None:
            return self._handle_slowly(header, session, _copied(request))
        if done.is_acked or not request.acks:
            return self._encode(header, session, request, done)
        return partial(self._answer_when_acked, header, session, request, done)

    async def _handle_slowly(self, header: RequestHeader, session: Session, request: ProduceRequest) -> Answer:
        done = await self._rounds.take(session, request, transacting_of(header.version))
        if request.acks:
            await done.wait_acked()
        return self._encode(header, session, request, done)

    async def _handle_many(self, header: RequestHeader, session: Session, frame: memoryview) -> Answer:
        """A request for very many partitions: it is read, appended and answered in turns with all other work."""
        request = await finish(read_produce_in_steps(frame, header.body_at, len(frame), header.version))
        done = await self._rounds.take_in_turns(session, request, transacting_of(header.version))
        if not request.acks:
            return self._encode(header, session, request, done)
        if not done.is_acked:
            await next_turn()
            await done.wait_acked()
        answers = [TopicAnswer(data.name, data.topic_id, []) async for data in in_turns(request.topics)]
        places = (
            (answer, part.partition, outcome)
            for answer, data, outcomes in zip(answers, request.topics, done.outcomes, strict=True)
            for part, outcome in zip(data.partitions, outcomes, strict=True)
        )
        async for answer, index, outcome in in_turns(places):
            answer.partitions.append(_answer_of(index, outcome))
        endpoints: dict[int, NodeEndpoint] = {}
        async for some in pieces(answers):
            endpoints.update((each.node_id, each) for each in self._name_leaders(header, session, some))
        steps = write_produce_in_steps(
            header.version, answers, throttle_ms=session.throttle_ms, endpoints=list(endpoints.values())
        )
        body = await finish(steps)
        let_go(request, done.outcomes, answers)
        return [answer_head(header, len(body)) + body]

    def _answer_when_acked(
        self, header: RequestHeader, session: Session, request: ProduceRequest, done: ProduceRound, slot: Slot
    ) -> None:
        done.call_when_acked(lambda: slot.put(self._encode(header, session, request, done)))

    def _answer_not_placed(
        self, header: RequestHeader, session: Session, single: Single, taken: Taken | ProduceRound
    ) -> "Answer | Waiting":
        if isinstance(taken, ProduceRound):
            return partial(self._answer_single_when_acked, header, session, single, taken)
        return self._encode_single(header, session, single, taken)

    def _answer_single_when_acked(
        self, header: RequestHeader, session: Session, single: Single, done: ProduceRound, slot: Slot
    ) -> None:
        done.call_when_acked(lambda: slot.put(self._encode_single(header, session, single, done.outcomes[0][0])))

    def _encode(self, header: RequestHeader, session: Session, request: ProduceRequest, done: ProduceRound) -> Answer:
        if not request.acks:
            return _encode_nothing(done)
        if len(done.outcomes) == 1 and len(done.outcomes[0]) == 1 and not session.throttle_ms:
            data, outcome = request.topics[0], done.outcomes[0][0]
            if isinstance(outcome, Placed):
                index = data.partitions[0].partition
                return [write_single(header.version, header.correlation_id, data.name, data.topic_id, index, outcome)]
        answers = [
            TopicAnswer(
                data.name,
                data.topic_id,
                [_answer_of(part.partition, outcome) for part, outcome in zip(data.partitions, outcomes, strict=True)],
            )
            for data, outcomes in zip(request.topics, done.outcomes, strict=True)
        ]
        return self._encode_all(header, session, answers)

    def _encode_single(self, header: RequestHeader, session: Session, single: Single, taken: Taken) -> Answer:
        _, _, name, topic_id, index, _ = single
        if isinstance(taken, tuple) and not session.throttle_ms:
            return [write_single(header.version, header.correlation_id, name, topic_id, index, taken)]
        outcome = Placed(*taken) if isinstance(taken, tuple) else taken
        answer = TopicAnswer(name, topic_id, [_answer_of(index, outcome)])
        return self._encode_all(header, session, [answer])

    def _encode_all(self, header: RequestHeader, session: Session, answers: list[TopicAnswer]) -> Answer:
        endpoints = self._name_leaders(header, session, answers)
        body = write_produce(header.version, answers, throttle_ms=session.throttle_ms, endpoints=endpoints)
        return [answer_head(header, len(body)) + body]

    def _name_leaders(
        self, header: RequestHeader, session: Session, answers: Sequence[TopicAnswer]
    ) -> Sequence[NodeEndpoint]:
        """Say who leads what is refused because somebody else does; count what is refused."""
        codes = [each.error_code for _, _, partitions in answers for each in partitions if each.error_code]
        for code, count in Counter(codes).items():
            self._refusals[PRODUCE.name, code] += count
        if header.version < CURRENT_LEADERS_FROM:
            return ()
        topics = ((name or topic_id, partitions) for name, topic_id, partitions in answers)
        return self._leaders.name(topics, codes=NOT_LEADING, listener=session.listener)


def _encode_nothing(done: ProduceRound) -> Answer:
    for outcomes in done.outcomes:
        for outcome in outcomes:
            if isinstance(outcome, BarnabasError):
                raise RefusedUnanswered(f"a produce with acks=0 was refused: {_message_of(outcome)}")
    return []


def _answer_of(index: int, outcome: Outcome) -> PartitionAnswer:
    if isinstance(outcome, Placed):
        return PartitionAnswer(index, 0, *outcome)
    errors = outcome.errors if isinstance(outcome, RecordsRefused) else ()
    return PartitionAnswer(index, outcome.kafka_code, error_message=_message_of(outcome), record_errors=errors)


def _message_of(error: BarnabasError) -> str:
    return str(error)[:MAX_MESSAGE]  # it may quote a name of any length, once for each partition


def _copied(request: ProduceRequest) -> ProduceRequest:
    """The request with its records copied from the frame, whose buffer is about to be reused."""
    return request._replace(
        topics=[
            topic._replace(
                partitions=[
                    part._replace(records=None if part.records is None else memoryview(bytearray(part.records)))
                    for part in topic.partitions
                ]
            )
            for topic in request.topics
        ]
    )
