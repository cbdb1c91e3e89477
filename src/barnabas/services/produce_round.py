"""A whole produce request, from any edge: all its topics and partitions, its transaction, its acknowledgement.

An edge makes a `ProduceRequest`, passes it in, and gets a `ProduceRound`: the outcome of each batch, and when it is
final. `take_now` appends what needs no waiting, which is nearly everything; None means that nothing was done, and that
`take` must be used, with records that stay in memory. A request for very many partitions is for `take_in_turns`, and
one batch for one partition, which most requests are, for `take_single`. With acks=all the partition calls back: rounds
of one client are appended one after another without waiting for each other.

Must not know: where a request came from, and how it is answered.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

from barnabas.core.access.resources import Operation, transactional_id
from barnabas.core.access.resources import topic as topic_resource
from barnabas.core.errors import (
    BarnabasError,
    RequestTimedOut,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from barnabas.core.metadata.names import is_internal
from barnabas.core.model import NO_TIMESTAMP
from barnabas.core.produced import ProduceRequest, Single, TopicData
from barnabas.core.records.batch import BatchHeader
from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import in_turns
from barnabas.services.access import Access, refusal_of
from barnabas.services.produce import (
    ACKS_ALL,
    Produce,
    Transacting,
    Verified,
    check_acks,
    check_one_producer,
    transactional_header,
)
from barnabas.services.record_checks import TakesLong
from barnabas.services.served import ServedTopic, ServedTopics
from barnabas.services.session import Session
from barnabas.storage.log import Appended

MAX_AT_ONCE: Final = 128
"""The most partitions of one request that are written at once. More take turns with all other work."""

_ANSWERED: Final = (1, ACKS_ALL)  # whose clients are told of what became of their records

AT_A_TIME: Final = 16  # each may need a log, which is some files


class Placed(NamedTuple):
    """Where a batch was appended, valid once its round is acknowledged."""

    first_offset: int
    log_append_time: int
    log_start_offset: int


Outcome = Placed | BarnabasError
Taken = tuple[int, int, int] | BarnabasError
"""The same of a single batch: the fields of a `Placed`, without what it takes to make one for nearly every request."""
Found = ServedTopic | BarnabasError  # a topic, or why it is not there


class ProduceRound:
    """The outcome of a request: one for each partition of each topic, in their order, and when they are final."""

    __slots__ = ("_left", "_on_acked", "_timeout_s", "_timer", "_waits", "outcomes")

    def __init__(self, outcomes: list[list[Outcome]], *, timeout_ms: int) -> None:
        self.outcomes = outcomes
        self._waits: list[_Wait] = []
        self._left = 0
        self._timeout_s = max(timeout_ms, 0) / 1000
        self._timer: asyncio.TimerHandle | None = None
        self._on_acked: Callable[[], None] | None = None

    @property
    def is_acked(self) -> bool:
        """Whether the outcomes are final: none of them waits to be acknowledged."""
        return not self._waits

    def place(self, outcomes: list[Outcome], partition: Partition, appended: Appended, *, acks: int) -> None:
        """Add where a batch was appended, and what it waits for."""
        outcomes.append(Placed(appended.first_offset, appended.log_append_time, partition.log.log_start_offset))
        end_offset = appended.last_offset + 1
        if acks == ACKS_ALL and partition.high_watermark < end_offset:
            self._waits.append(_Wait(self, partition, end_offset, outcomes))

    def call_when_acked(self, on_acked: Callable[[], None]) -> None:
        """Call back once, when the outcomes are final; at once if they are."""
        self._on_acked = on_acked
        self._left = len(self._waits)
        # A failure of the disk is heard at once; this is for one that hangs.
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self._time_out)
        for wait in self._waits:
            partition = wait.partition
            if partition.high_watermark >= wait.end_offset and partition.leader_epoch == wait.leader_epoch:
                self._left -= 1
            elif (lost := partition.find_loss(wait.leader_epoch)) is not None:  # since it was appended
                wait.outcomes[wait.at] = lost
                self._left -= 1
            else:
                partition.call_when_acked(wait.end_offset, wait)
        if not self._left:
            self._end()

    async def wait_acked(self) -> None:
        """Return when the outcomes are final."""
        if not self.is_acked:
            acked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.call_when_acked(lambda: None if acked.done() else acked.set_result(None))
            await acked

    def note_acked(self) -> None:
        """One more of the outcomes is final."""
        if self._left <= 0:  # it timed out before
            return
        self._left -= 1
        if not self._left:
            self._end()

    def _time_out(self) -> None:
        """Not acknowledged in time: the outcome is unknown."""
        if not self._left:
            return
        error = RequestTimedOut("the records are written, but were not acknowledged in time")
        for wait in self._waits:
            if wait.partition.high_watermark < wait.end_offset:
                wait.outcomes[wait.at] = error
                wait.partition.forget_ack(wait.end_offset, wait)
        self._left = 0
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waits.clear()  # which know this round
        on_acked, self._on_acked = self._on_acked, None
        if on_acked is not None:
            on_acked()


class _Wait:
    """An outcome that is final once its partition is acknowledged up to an offset; the partition calls it then."""

    __slots__ = ("_round", "at", "end_offset", "leader_epoch", "outcomes", "partition")

    def __init__(self, of: ProduceRound, partition: Partition, end_offset: int, outcomes: list[Outcome]) -> None:
        self._round: ProduceRound | None = of
        self.partition = partition
        self.end_offset = end_offset
        self.outcomes = outcomes
        self.at = len(outcomes) - 1  # its place in `outcomes`: the last, as it is added
        self.leader_epoch = partition.leader_epoch  # in another the offset may be that of other records

    def __call__(self, error: BarnabasError | None) -> None:
        of, self._round = self._round, None  # counted once, however often it is called
        if of is not None:
            if error is not None:
                self.outcomes[self.at] = error
            of.note_acked()


class ProduceRounds:
    """The verb: take whole requests."""

    def __init__(self, produce: Produce, served: ServedTopics, access: Access) -> None:
        self._produce = produce
        self._served = served
        self._access = access

    def take_single(self, session: Session, single: Single) -> Taken | ProduceRound | None:
        """Append one batch: returns where it is, the refusal, or a round that has yet to be acknowledged.

        None, with nothing done, means that `take_now` must be used, as for any other request.
        """
        acks, timeout_ms, name, topic_id, index, records = single
        if acks not in _ANSWERED:
            return None
        served = self._served
        topic = served.by_name.get(name or "") if topic_id is None else served.by_id.get(topic_id)
        if topic is None or topic.must_open:
            return None
        try:
            if not self._access.is_open and not self._access.allows(session, Operation.WRITE, topic.resource):
                raise _refused(name)
            partition = topic.partitions.get(index) or topic.get(index)
            first_offset = self._produce.append_one(topic, partition, records)
            if first_offset is None:
                appended = self._produce.append(topic, partition, records, acks=acks)
                first_offset, last_offset, log_append_time, _ = appended
            else:
                last_offset, log_append_time = first_offset, NO_TIMESTAMP
        except TakesLong:
            return None
        except BarnabasError as error:
            topic.traffic.failed_produces += 1
            return error
        if acks == ACKS_ALL and partition.high_watermark <= last_offset:
            done = ProduceRound([[]], timeout_ms=timeout_ms)
            appended = Appended(first_offset, last_offset, log_append_time)
            done.place(done.outcomes[0], partition, appended, acks=ACKS_ALL)
            return done
        return first_offset, log_append_time, partition.log.log_start_offset

    def take_now(self, session: Session, request: ProduceRequest) -> ProduceRound | None:
        """Append all batches; None, with nothing done, if something must be waited for first."""
        topics = [self._find(session, data) for data in request.topics]
        verified = None
        if request.transactional_id is not None:
            batches = _transactional(request, topics)
            try:
                self._authorize_id(session, request)
                check_one_producer(batch for _, batch in batches)
            except BarnabasError as error:
                return _all_refused(request, error)
            if not all(partition.is_in_transaction(batch) for partition, batch in batches):
                return None
            verified = Verified()
        if self._takes_long(request, topics):
            return None
        done = _empty(request)
        for topic, data, into in zip(topics, request.topics, done.outcomes, strict=True):
            self._append_topic(done, topic, data, request.acks, into, verified)
        return done

    async def take(self, session: Session, request: ProduceRequest, transacting: Transacting) -> ProduceRound:
        """Append all batches, after verifying their transaction and checking them on a thread."""
        topics = [self._find(session, data) for data in request.topics]
        batches = _transactional(request, topics)
        try:
            self._authorize_id(session, request)
            check_one_producer(batch for _, batch in batches)
        except BarnabasError as error:
            return _all_refused(request, error)
        done = _empty(request)
        await self._append(done, request, topics, batches, done.outcomes, transacting)
        return done

    async def take_in_turns(self, session: Session, request: ProduceRequest, transacting: Transacting) -> ProduceRound:
        """As `take`, a few partitions in each turn of the loop, as if they were separate requests."""
        done = ProduceRound([[] async for _ in in_turns(request.topics)], timeout_ms=request.timeout_ms)
        try:
            self._authorize_id(session, request)
            if request.transactional_id is not None:
                await self._check_one_producer(session, request)
        except BarnabasError as error:
            async for at, data in in_turns(_in_pieces(request), per_turn=1):
                done.outcomes[at].extend(error for _ in data.partitions)
        else:
            async for at, data in in_turns(_in_pieces(request), per_turn=1):
                part, topics = request._replace(topics=[data]), [self._find(session, data)]
                batches = _transactional(part, topics)
                await self._append(done, part, topics, batches, [done.outcomes[at]], transacting)
        return done

    def _authorize_id(self, session: Session, request: ProduceRequest) -> None:
        if request.transactional_id is not None and not self._access.is_open:
            self._access.authorize(session, Operation.WRITE, transactional_id(request.transactional_id))

    async def _check_one_producer(self, session: Session, request: ProduceRequest) -> None:
        headers: list[BatchHeader] = []
        async for _, data in in_turns(_in_pieces(request), per_turn=1):
            part = request._replace(topics=[data])
            headers += (batch for _, batch in _transactional(part, [self._find(session, data)]))
        check_one_producer(headers)

    async def _append(
        self,
        done: ProduceRound,
        request: ProduceRequest,
        topics: list[Found],
        batches: list[tuple[Partition, BatchHeader]],
        outcomes: list[list[Outcome]],
        transacting: Transacting,
    ) -> None:
        if request.transactional_id is None:
            await self._append_each(done, request, topics, outcomes, None)
            return
        verified = Verified()
        try:
            await self._produce.verify(verified, request.transactional_id, batches, transacting)
            await self._append_each(done, request, topics, outcomes, verified)
        finally:
            verified.end()

    async def _append_each(
        self,
        done: ProduceRound,
        request: ProduceRequest,
        topics: list[Found],
        outcomes: list[list[Outcome]],
        verified: Verified | None,
    ) -> None:
        for topic, data, into in zip(topics, request.topics, outcomes, strict=True):
            if isinstance(topic, ServedTopic) and self._topic_takes_long(topic, data):
                await self._append_opened(done, topic, data, request.acks, into, verified)
            else:
                self._append_topic(done, topic, data, request.acks, into, verified)

    def _append_topic(
        self,
        done: ProduceRound,
        topic: Found,
        data: TopicData,
        acks: int,
        outcomes: list[Outcome],
        verified: Verified | None,
    ) -> None:
        if isinstance(topic, BarnabasError):
            outcomes.extend(topic for _ in data.partitions)
            return
        for index, records in data.partitions:
            try:
                check_acks(acks)
                partition = topic.partitions.get(index) or topic.get(index)
                if verified is None:
                    appended = self._produce.append(topic, partition, records, acks=acks)
                else:
                    appended = self._produce.append_verified(topic, partition, records, verified, acks=acks)
            except BarnabasError as error:
                topic.traffic.failed_produces += 1
                outcomes.append(error.with_traceback(None))  # whose frames know this round
            else:
                done.place(outcomes, partition, appended, acks=acks)

    async def _append_opened(
        self,
        done: ProduceRound,
        topic: ServedTopic,
        data: TopicData,
        acks: int,
        outcomes: list[Outcome],
        verified: Verified | None,
    ) -> None:
        for index, records in data.partitions:
            try:
                check_acks(acks)
                partition = topic.get(index)
                appended = await self._produce.append_opened(topic, partition, records, verified, acks=acks)
            except BarnabasError as error:
                topic.traffic.failed_produces += 1
                outcomes.append(error.with_traceback(None))
            else:
                done.place(outcomes, partition, appended, acks=acks)

    def _takes_long(self, request: ProduceRequest, topics: list[Found]) -> bool:
        return any(
            isinstance(topic, ServedTopic) and self._topic_takes_long(topic, data)
            for topic, data in zip(topics, request.topics, strict=True)
        )

    def _topic_takes_long(self, topic: ServedTopic, data: TopicData) -> bool:
        return any(self._produce.takes_long(topic, records) for _, records in data.partitions)

    def _find(self, session: Session, data: TopicData) -> Found:
        if data.name is not None:
            topic, name = self._served.by_name.get(data.name), data.name
        else:
            topic = self._served.by_id.get(data.topic_id or UUID(int=0))
            if topic is None:
                return UnknownTopicId(f"topic id {data.topic_id} does not exist")
            name = topic.name
        if not self._access.allows_topic(session, Operation.WRITE, name):
            return _refused(data.name)  # whether it is there or not
        return topic or UnknownTopicOrPartition(f"topic '{name}' does not exist")


def _refused(name: str | None) -> BarnabasError:
    """The refusal of a topic that the client may not write to. Who names it by its id does not learn its name."""
    if name is None:
        return TopicAuthorizationFailed("not allowed: write on this topic")
    return refusal_of(Operation.WRITE, topic_resource(name))


def _empty(request: ProduceRequest) -> ProduceRound:
    return ProduceRound([[] for _ in request.topics], timeout_ms=request.timeout_ms)


def _all_refused(request: ProduceRequest, error: BarnabasError) -> ProduceRound:
    refused: list[list[Outcome]] = [[error] * len(data.partitions) for data in request.topics]
    return ProduceRound(refused, timeout_ms=request.timeout_ms)


def _in_pieces(request: ProduceRequest) -> Iterator[tuple[int, TopicData]]:
    """The request a few partitions at a time, each piece of one topic, with the place of that topic in the request."""
    # The coordinator writes down what it is asked about, and that is waited for: ask seldom.
    size = AT_A_TIME if request.transactional_id is None else MAX_AT_ONCE
    for at, data in enumerate(request.topics):
        for first in range(0, len(data.partitions), size):
            yield at, data._replace(partitions=data.partitions[first : first + size])


def _transactional(request: ProduceRequest, topics: list[Found]) -> list[tuple[Partition, BatchHeader]]:
    """The batches that need a transaction, and their partitions. Those that will be refused anyway are left out, so
    that they are not verified.
    """
    found: list[tuple[Partition, BatchHeader]] = []
    if request.transactional_id is None:
        return found
    for topic, data in zip(topics, request.topics, strict=True):
        if isinstance(topic, ServedTopic) and not is_internal(topic.name):
            for index, records in data.partitions:
                partition, batch = topic.partitions.get(index), transactional_header(records)
                if partition is not None and batch is not None:
                    found.append((partition, batch))
    return found
