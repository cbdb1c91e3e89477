"""Fetch, versions 4 to 18: translates a frame into a round of the service, and its result into an answer.

Waiting, limits and sessions are those of the service (`services.fetch_round`). Records are sent as they are on disk. A
request for many partitions is read and answered in turns with everything else, as it is taken
(`services.fetch_in_turns`).

Differs from Kafka: of the nodes that follow a partition, only a consumer that says where it is (`client.rack`) is
served, where Kafka serves any from version 11 on. Nobody else is sent there, so anybody else has old metadata, and is
told who leads.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from barnabas.core.errors import BarnabasError
from barnabas.core.fetched import FetchRequest
from barnabas.edge.kafka.current_leaders import NOT_LEADING_OR_FENCED, CurrentLeaders
from barnabas.runtime.connections import Answer, Connection, Slot, Work
from barnabas.runtime.letting_go import let_go, let_go_flat
from barnabas.runtime.turns import finish, in_turns, pieces
from barnabas.services.broker import Broker
from barnabas.services.closest_replicas import ClosestReplicas
from barnabas.services.fetch import Found
from barnabas.services.fetch_in_turns import FetchInTurns
from barnabas.services.fetch_round import FetchRound, FetchRounds
from barnabas.services.fetch_sessions import NO_SESSION
from barnabas.services.long_poll import LongPoll
from barnabas.services.session import Session
from barnabas.wire.apis import FETCH
from barnabas.wire.endpoints import NodeEndpoint
from barnabas.wire.fetch import (
    CURRENT_LEADERS_FROM,
    FetchedPartition,
    FetchedTopic,
    write_fetch,
    write_fetch_in_steps,
)
from barnabas.wire.fetch_request import read_fetch, read_fetch_in_steps
from barnabas.wire.frame import RequestHeader, answer_head

LONG_REQUEST_BYTES: Final = 4096
"""A longer one is read in turns: it has more than a hundred partitions, or is about to."""

TOPICS_PER_TURN: Final = 250

Waiting = Callable[[Slot], None]  # puts the answer into the slot when there is one


class Fetching:
    """Handles Fetch requests."""

    def __init__(self, broker: Broker) -> None:
        self._refusals = broker.refusals
        self._leaders = CurrentLeaders(broker)
        self._quotas = broker.quotas
        self._rounds = FetchRounds(
            broker.fetch,
            broker.fetch_sessions,
            broker.served,
            broker.access,
            max_bytes=broker.config.fetch_max_bytes,
            closest=None
            if broker.config.replicas.replica_selector_class is None
            else ClosestReplicas(broker.metadata, node_id=broker.config.node_id),
        )

    def handle(
        self, header: RequestHeader, frame: memoryview, connection: Connection, session: Session
    ) -> "Answer | Work | Waiting":
        """An answer, the work of reading one, or a long poll that waits."""
        if len(frame) > LONG_REQUEST_BYTES:
            reading = read_fetch_in_steps(frame, header.body_at, len(frame), header.version)
            return self._take_turns(header, reading, connection, session)
        request = read_fetch(frame, header.body_at, len(frame), header.version)
        if self._quotas.is_on:
            request = self._within_quota(request, session)
        if self._rounds.takes_turns(request):
            return self._take_turns(header, _read_already(request), connection, session)
        try:
            begun = self._rounds.begin(session, request, connection)
        except BarnabasError as error:
            return _encode_refusal(header, session, error)
        if begun.is_ready:
            return self._answer(header, session, begun)
        return partial(self._answer_when_ready, header, session, begun)

    def _take_turns(
        self,
        header: RequestHeader,
        reading: Generator[None, None, FetchRequest],
        connection: Connection,
        session: Session,
    ) -> Waiting:
        taking = FetchInTurns(self._rounds, session, connection)
        return partial(self._answer_in_turns, header, session, reading, taking)

    # One answer

    def _answer_when_ready(self, header: RequestHeader, session: Session, begun: FetchRound, slot: Slot) -> None:
        poll = LongPoll(begun, lambda: slot.continue_with(self._answer_later(header, session, begun)))
        slot.on_close, slot.on_hurry = poll.cancel, poll.hurry

    def _answer_later(self, header: RequestHeader, session: Session, begun: FetchRound) -> "Answer | Work":
        """The same after a wait: the time it takes counts, too."""
        if self._quotas.is_on:
            return self._quotas.measure(session, lambda: self._answer(header, session, begun))
        return self._answer(header, session, begun)

    def _answer(self, header: RequestHeader, session: Session, begun: FetchRound) -> "Answer | Work":
        """The answer, or the work of reading it from the disk."""
        if begun.read_now():
            return self._encode(header, session, begun)
        return self._read_and_encode(header, session, begun)

    async def _read_and_encode(self, header: RequestHeader, session: Session, begun: FetchRound) -> Answer:
        await begun.read()
        return self._encode(header, session, begun)

    def _encode(self, header: RequestHeader, session: Session, begun: FetchRound) -> Answer:
        is_limited = self._quotas.is_on and not begun.is_replica
        if is_limited and not self._quotas.may_consume(session, begun.size):
            return self._encode_throttled(header, session, begun)
        told: dict[str | UUID, list[FetchedPartition]] = {}
        has_refusals = False
        for key, found in begun.found.items():
            if begun.is_told(key, found):
                fetched = _fetched(key.partition, found)
                told.setdefault(key.topic, []).append(fetched)
                if fetched.error_code:
                    has_refusals = True
                    self._refusals[FETCH.name, fetched.error_code] += 1
        endpoints = self._name_leaders(header, session, told.items()) if has_refusals else ()
        topics = [_as_topic(name, each) for name, each in told.items()]
        body = write_fetch(
            header.version,
            topics,
            session_id=begun.session_id,
            throttle_ms=session.throttle_ms,
            endpoints=endpoints,
        )
        size = sum(map(len, body))
        if is_limited:
            self._quotas.consume_more(session, size - begun.size)
        return [answer_head(header, size), *body]

    def _within_quota(self, request: FetchRequest, session: Session) -> FetchRequest:
        """A request for no more than its client may ever be sent at once. A follower is no client."""
        if request.replica_id >= 0:
            return request
        return request._replace(max_bytes=self._quotas.most_to_consume(session, request.max_bytes))

    def _encode_throttled(self, header: RequestHeader, session: Session, begun: FetchRound) -> Answer:
        """The answer to a client that is held: nothing. It begins another session if it had not begun one already."""
        session_id = begun.session_id
        if begun.is_first_of_session:
            self._rounds.sessions.end(session_id)
            session_id = NO_SESSION
        body = write_fetch(header.version, [], session_id=session_id, throttle_ms=session.throttle_ms)
        return [answer_head(header, sum(map(len, body))), *body]

    def _name_leaders(
        self, header: RequestHeader, session: Session, told: Iterable[tuple[str | UUID, list[FetchedPartition]]]
    ) -> Sequence[NodeEndpoint]:
        """Say who leads what is refused because somebody else does, or did."""
        if header.version < CURRENT_LEADERS_FROM:
            return ()
        return self._leaders.name(told, codes=NOT_LEADING_OR_FENCED, listener=session.listener)

    # In turns

    def _answer_in_turns(
        self,
        header: RequestHeader,
        session: Session,
        reading: Generator[None, None, FetchRequest],
        taking: FetchInTurns,
        slot: Slot,
    ) -> None:
        slot.on_hurry = taking.hurry  # when its client is gone it is cancelled
        slot.continue_with(self._take(header, session, reading, taking))

    async def _take(
        self,
        header: RequestHeader,
        session: Session,
        reading: Generator[None, None, FetchRequest],
        taking: FetchInTurns,
    ) -> Answer:
        request = await finish(reading)
        if self._quotas.is_on:
            request = self._within_quota(request, session)
        try:
            begun = await taking.begin(request)
        except BarnabasError as error:
            return _encode_refusal(header, session, error)
        let_go_flat(request.topics)
        del request  # the round has what it needs of it
        try:
            await taking.finish(begun)
            return await self._encode_in_turns(header, session, begun)
        finally:
            let_go_flat(begun.wanted, begun.found)

    async def _encode_in_turns(self, header: RequestHeader, session: Session, begun: FetchRound) -> Answer:
        is_limited = self._quotas.is_on and not begun.is_replica
        if is_limited and not self._quotas.may_consume(session, begun.size):
            return self._encode_throttled(header, session, begun)
        told: dict[str | UUID, list[FetchedPartition]] = {}
        async for key, found in in_turns(begun.found.items()):
            if begun.is_told(key, found):
                told.setdefault(key.topic, []).append(_fetched(key.partition, found))
        endpoints: dict[int, NodeEndpoint] = {}
        async for some in pieces(list(told.items()), per_turn=TOPICS_PER_TURN):
            endpoints.update((each.node_id, each) for each in self._name_leaders(header, session, some))
        topics = [_as_topic(name, each) async for name, each in in_turns(told.items(), per_turn=TOPICS_PER_TURN)]
        steps = write_fetch_in_steps(
            header.version,
            topics,
            session_id=begun.session_id,
            throttle_ms=session.throttle_ms,
            endpoints=list(endpoints.values()),
        )
        body = await finish(steps)
        let_go(topics)
        size = sum(map(len, body))
        if is_limited:
            self._quotas.consume_more(session, size - begun.size)
        return [answer_head(header, size), *body]


def _encode_refusal(header: RequestHeader, session: Session, error: BarnabasError) -> Answer:
    """The answer to a request whose session is refused."""
    body = write_fetch(
        header.version, [], error_code=error.kafka_code, session_id=NO_SESSION, throttle_ms=session.throttle_ms
    )
    return [answer_head(header, sum(map(len, body))), *body]


def _read_already(request: FetchRequest) -> Generator[None, None, FetchRequest]:
    yield
    return request


def _as_topic(name: str | UUID, partitions: list[FetchedPartition]) -> FetchedTopic:
    return FetchedTopic(name, None, partitions) if isinstance(name, str) else FetchedTopic(None, name, partitions)


def _fetched(partition: int, found: Found | BarnabasError) -> FetchedPartition:
    error = found if isinstance(found, BarnabasError) else found.error
    if error is not None:
        return FetchedPartition(partition, error.kafka_code)
    assert isinstance(found, Found)
    return FetchedPartition(
        partition,
        0,
        found.high_watermark,
        found.last_stable_offset,
        found.log_start_offset,
        aborted=found.aborted,
        preferred_read_replica=found.preferred,
        records=found.records,
        diverging_epoch=found.diverging,
    )
