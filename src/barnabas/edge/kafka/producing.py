"""Produce, versions 3 to 13: the way of the data, from a frame to an acknowledgement.

Nothing is awaited on it. What acks=all waits for is a callback of the partition, so that requests pipelined on one
connection are appended one after another, and their answers leave when the disk has them. Only a batch that takes long
to look into (see `services.produce`) takes the long way, and the connection waits for it: order is kept. So does the
first batch of a transaction for a partition, while the coordinator is asked about it, and a request for very many
partitions, which takes turns with everything else.

As in Kafka, acks=0 gets no answer; a refused one closes the connection, which is all such a client can notice.
"""

import asyncio
from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import UUID

from barnabas.core.errors import BarnabasError, RequestTimedOut, UnknownTopicId, UnknownTopicOrPartition
from barnabas.core.metadata.names import is_internal
from barnabas.core.records.batch import BatchHeader
from barnabas.runtime.connections import Answer, Slot, Work
from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import finish, in_turns, next_turn
from barnabas.services.broker import Broker
from barnabas.services.opening import RecordsRefused
from barnabas.services.produce import (
    ACKS_ALL,
    Verified,
    check_acks,
    check_one_producer,
    transactional_header,
)
from barnabas.services.record_checks import TakesLong
from barnabas.services.served import ServedTopic
from barnabas.storage.log import Appended
from barnabas.wire.frame import RequestHeader, answer_head
from barnabas.wire.produce import (
    ManyPartitions,
    PartitionAnswer,
    ProduceRequest,
    Single,
    TopicAnswer,
    TopicData,
    read_produce,
    read_produce_in_steps,
    read_single,
    write_produce,
    write_produce_in_steps,
    write_single,
)

MAX_MESSAGE: Final = 500
MAX_AT_ONCE: Final = 128
"""Partitions of one request that are written to in one go. More than that take turns with everything else."""

AT_A_TIME: Final = 16  # each may need a log, which is some files
Found = ServedTopic | BarnabasError  # a topic, or why it is not there


class _Wait(NamedTuple):
    """A partition's answer that holds only once the partition is acknowledged up to an offset."""

    partition: Partition
    end_offset: int
    answers: list[PartitionAnswer]
    at: int  # its place in `answers`


class RefusedUnanswered(BarnabasError):
    """A produce that wants no answer was refused."""


class Producing:
    """Handles Produce requests."""

    def __init__(self, broker: Broker) -> None:
        self._produce = broker.produce
        self._served = broker.served

    def handle(self, header: RequestHeader, frame: memoryview) -> "Answer | Pending | Work":
        """An answer, what will lead to one, or the long way."""
        single = read_single(frame, header.body_at, len(frame), header.version)
        if single is not None:
            topic = self._find_single(single)
            if topic is not None and not topic.must_open and single.acks in (1, ACKS_ALL):
                try:
                    return self._handle_single(header, single, topic)
                except TakesLong:  # nothing was done. (`suppress` costs, for each request.)
                    pass
        try:
            request = read_produce(frame, header.body_at, len(frame), header.version, max_at_once=MAX_AT_ONCE)
        except ManyPartitions:
            return self._handle_many(header, memoryview(bytearray(frame)))
        topics = [self._find(topic) for topic in request.topics]
        if request.transactional_id is not None:
            return self._handle_transactional(header, request, topics)
        if self._takes_long(request, topics):
            return self._handle_opened(header, _copied(request), topics)
        return self._handle_now(header, request, topics)

    def _handle_now(
        self, header: RequestHeader, request: ProduceRequest, topics: list[Found], verified: Verified | None = None
    ) -> "Answer | Pending":
        waits: list[_Wait] = []
        answers: list[TopicAnswer] = []
        for topic, data in zip(topics, request.topics, strict=True):
            answers.append(TopicAnswer(data.name, data.topic_id, []))
            self._append_topic(topic, data, request.acks, answers[-1].partitions, waits, verified)
        return _finish(header, request, answers, waits)

    def _handle_transactional(
        self, header: RequestHeader, request: ProduceRequest, topics: list[Found]
    ) -> "Answer | Pending | Work":
        """A request that names a transactional id: at once when all its batches are in transactions that are open."""
        batches = _transactional(request, topics)
        try:
            check_one_producer(batch for _, batch in batches)
        except BarnabasError as error:
            return _finish(header, request, _all_refused(request, error), [])
        is_open = all(partition.is_in_transaction(batch) for partition, batch in batches)
        if not is_open or self._takes_long(request, topics):
            return self._handle_unverified(header, _copied(request), topics)
        return self._handle_now(header, request, topics, Verified())

    async def _handle_unverified(self, header: RequestHeader, request: ProduceRequest, topics: list[Found]) -> Answer:
        assert request.transactional_id is not None
        verified = Verified()
        try:
            batches = _transactional(request, topics)
            await self._produce.verify(verified, request.transactional_id, batches, version=header.version)
            result = await self._append_all(header, request, topics, verified)
        finally:
            verified.end()
        return await result.wait() if isinstance(result, Pending) else result

    def _handle_single(self, header: RequestHeader, single: Single, topic: ServedTopic) -> "Answer | Pending":
        """What most requests are: one batch for one partition that is there."""
        index = single.partition
        try:
            partition = topic.partitions.get(index) or topic.get(index)
            appended = self._produce.append(topic, partition, single.records, acks=single.acks)
        except BarnabasError as error:
            return _encode(header, [TopicAnswer(single.name, single.topic_id, [_refused(index, error)])])
        place = (index, 0, appended.first_offset, appended.log_append_time, partition.log.log_start_offset)
        end_offset = appended.last_offset + 1
        if single.acks == ACKS_ALL and partition.high_watermark < end_offset:
            answers = [TopicAnswer(single.name, single.topic_id, [PartitionAnswer(*place)])]
            wait = _Wait(partition, end_offset, answers[0].partitions, 0)
            return Pending(header, answers, [wait], timeout_s=max(single.timeout_ms, 0) / 1000)
        body = write_single(header.version, single.name, single.topic_id, place)
        return [answer_head(header, len(body)) + body]

    async def _handle_opened(self, header: RequestHeader, request: ProduceRequest, topics: list[Found]) -> Answer:
        result = await self._append_all(header, request, topics)
        return await result.wait() if isinstance(result, Pending) else result

    async def _handle_many(self, header: RequestHeader, frame: memoryview) -> Answer:
        """A request for very many partitions: a few of them in each turn of the loop, as if they had come alone."""
        request = await finish(read_produce_in_steps(frame, header.body_at, len(frame), header.version))
        answers = [TopicAnswer(topic.name, topic.topic_id, []) async for topic in in_turns(request.topics)]
        waits: list[_Wait] = []
        try:
            if request.transactional_id is not None:
                await self._check_one_producer(request)
        except BarnabasError as error:
            async for at, data in in_turns(_in_pieces(request), per_turn=1):
                answers[at].partitions.extend(_refused(part.partition, error) for part in data.partitions)
        else:
            async for at, data in in_turns(_in_pieces(request), per_turn=1):
                part = request._replace(topics=[data])
                await self._append_piece(header, part, answers[at].partitions, waits)
        if request.acks == 0:
            return _finish_unanswered(answers)
        if waits:
            await next_turn()
            await Pending(header, answers, waits, timeout_s=max(request.timeout_ms, 0) / 1000).wait_acked()
        body = await finish(write_produce_in_steps(header.version, answers))
        return [answer_head(header, len(body)) + body]

    async def _check_one_producer(self, request: ProduceRequest) -> None:
        headers: list[BatchHeader] = []
        async for _, data in in_turns(_in_pieces(request), per_turn=1):
            part = request._replace(topics=[data])
            headers += (batch for _, batch in _transactional(part, [self._find(data)]))
        check_one_producer(headers)

    async def _append_piece(
        self, header: RequestHeader, part: ProduceRequest, answers: list[PartitionAnswer], waits: list[_Wait]
    ) -> None:
        """Append what a request has for some partitions of one topic."""
        topics = [self._find(part.topics[0])]
        if part.transactional_id is None:
            await self._append_each(part, topics, [answers], waits, None)
            return
        verified = Verified()
        try:
            batches = _transactional(part, topics)
            await self._produce.verify(verified, part.transactional_id, batches, version=header.version)
            await self._append_each(part, topics, [answers], waits, verified)
        finally:
            verified.end()

    async def _append_all(
        self, header: RequestHeader, request: ProduceRequest, topics: list[Found], verified: Verified | None = None
    ) -> "Answer | Pending":
        """As `_handle_now`, and what is work for a thread goes to one."""
        waits: list[_Wait] = []
        answers = [TopicAnswer(data.name, data.topic_id, []) for data in request.topics]
        await self._append_each(request, topics, [answer.partitions for answer in answers], waits, verified)
        return _finish(header, request, answers, waits)

    async def _append_each(
        self,
        request: ProduceRequest,
        topics: list[Found],
        answers: list[list[PartitionAnswer]],
        waits: list[_Wait],
        verified: Verified | None,
    ) -> None:
        for topic, data, into in zip(topics, request.topics, answers, strict=True):
            if isinstance(topic, ServedTopic) and self._topic_takes_long(topic, data):
                await self._append_opened(topic, data, request.acks, into, waits, verified)
            else:
                self._append_topic(topic, data, request.acks, into, waits, verified)

    def _takes_long(self, request: ProduceRequest, topics: list[Found]) -> bool:
        return any(
            isinstance(topic, ServedTopic) and self._topic_takes_long(topic, data)
            for topic, data in zip(topics, request.topics, strict=True)
        )

    def _topic_takes_long(self, topic: ServedTopic, data: TopicData) -> bool:
        return any(self._produce.takes_long(topic, records) for _, records in data.partitions)

    def _find_single(self, single: Single) -> ServedTopic | None:
        if single.topic_id is not None:
            return self._served.by_id.get(single.topic_id)
        return self._served.by_name.get(single.name or "")

    def _find(self, data: TopicData) -> Found:
        if data.name is not None:
            topic = self._served.by_name.get(data.name)
            return topic or UnknownTopicOrPartition(f"topic '{data.name}' does not exist")
        topic = self._served.by_id.get(data.topic_id or UUID(int=0))
        return topic or UnknownTopicId(f"no topic has the id {data.topic_id}")

    def _append_topic(
        self,
        topic: Found,
        data: TopicData,
        acks: int,
        answers: list[PartitionAnswer],
        waits: list[_Wait],
        verified: Verified | None,
    ) -> None:
        if isinstance(topic, BarnabasError):
            answers.extend(_refused(index, topic) for index, _ in data.partitions)
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
                answers.append(_refused(index, error))
            else:
                _note(answers, index, partition, appended, acks, waits)

    async def _append_opened(
        self,
        topic: ServedTopic,
        data: TopicData,
        acks: int,
        answers: list[PartitionAnswer],
        waits: list[_Wait],
        verified: Verified | None,
    ) -> None:
        for index, records in data.partitions:
            try:
                check_acks(acks)
                partition = topic.get(index)
                appended = await self._produce.append_opened(topic, partition, records, verified, acks=acks)
            except BarnabasError as error:
                answers.append(_refused(index, error))
            else:
                _note(answers, index, partition, appended, acks, waits)


def _in_pieces(request: ProduceRequest) -> Iterator[tuple[int, TopicData]]:
    """The request a few partitions at a time, each piece of one topic, with the place of that topic in the request."""
    # The coordinator writes down what it is asked about, and that is waited for: ask seldom.
    size = AT_A_TIME if request.transactional_id is None else MAX_AT_ONCE
    for at, data in enumerate(request.topics):
        for first in range(0, len(data.partitions), size):
            yield at, data._replace(partitions=data.partitions[first : first + size])


def _transactional(request: ProduceRequest, topics: list[Found]) -> list[tuple[Partition, BatchHeader]]:
    """The batches that need a transaction, and where they go. Those that are refused in any case are left out, so that
    nobody is asked about them.
    """
    found = []
    for topic, data in zip(topics, request.topics, strict=True):
        if isinstance(topic, ServedTopic) and not is_internal(topic.name):
            for index, records in data.partitions:
                partition, batch = topic.partitions.get(index), transactional_header(records)
                if partition is not None and batch is not None:
                    found.append((partition, batch))
    return found


def _all_refused(request: ProduceRequest, error: BarnabasError) -> list[TopicAnswer]:
    return [
        TopicAnswer(topic.name, topic.topic_id, [_refused(part.partition, error) for part in topic.partitions])
        for topic in request.topics
    ]


def _note(
    answers: list[PartitionAnswer],
    index: int,
    partition: Partition,
    appended: Appended,
    acks: int,
    waits: list[_Wait],
) -> None:
    """An appended batch: its answer, and what that waits for."""
    answers.append(
        PartitionAnswer(index, 0, appended.first_offset, appended.log_append_time, partition.log.log_start_offset)
    )
    end_offset = appended.last_offset + 1
    if acks == ACKS_ALL and partition.high_watermark < end_offset:
        waits.append(_Wait(partition, end_offset, answers, len(answers) - 1))


def _refused(index: int, error: BarnabasError) -> PartitionAnswer:
    errors = error.errors if isinstance(error, RecordsRefused) else ()
    message = str(error)[:MAX_MESSAGE]  # it may quote a name of any length, once for each partition
    return PartitionAnswer(index, error.kafka_code, error_message=message, record_errors=errors)


def _finish(
    header: RequestHeader, request: ProduceRequest, answers: list[TopicAnswer], waits: list[_Wait]
) -> "Answer | Pending":
    if request.acks == 0:
        return _finish_unanswered(answers)
    if not waits:
        return _encode(header, answers)
    return Pending(header, answers, waits, timeout_s=max(request.timeout_ms, 0) / 1000)


def _finish_unanswered(answers: list[TopicAnswer]) -> Answer:
    for topic in answers:
        for answer in topic.partitions:
            if answer.error_code:
                raise RefusedUnanswered(f"a produce with acks=0 was refused: {answer.error_message}")
    return []


def _encode(header: RequestHeader, answers: list[TopicAnswer]) -> Answer:
    first = answers[0] if len(answers) == 1 else None
    if first is not None and len(first.partitions) == 1 and not first.partitions[0].error_code:
        body = write_single(header.version, first.name, first.topic_id, first.partitions[0][:5])
    else:
        body = write_produce(header.version, answers)
    return [answer_head(header, len(body)) + body]


def _copied(request: ProduceRequest) -> ProduceRequest:
    """The request with its records out of the frame, which is about to be used again."""
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


class Pending:
    """A produce that waits for its partitions to be acknowledged. Called with its slot, it answers into it."""

    __slots__ = ("_answers", "_future", "_header", "_left", "_slot", "_timer", "_waits")

    def __init__(
        self, header: RequestHeader, answers: list[TopicAnswer], waits: list[_Wait], *, timeout_s: float
    ) -> None:
        self._header = header
        self._answers = answers
        self._waits = waits
        self._left = len(waits)
        self._slot: Slot | None = None
        self._future: asyncio.Future[None] | None = None
        # A failure of the disk is heard at once; this is for one that hangs.
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self._time_out)

    def __call__(self, slot: Slot) -> None:
        self._slot = slot
        self._begin()

    async def wait(self) -> Answer:
        await self.wait_acked()
        return _encode(self._header, self._answers)

    async def wait_acked(self) -> None:
        """Return when the answers hold, whatever they say."""
        self._future = asyncio.get_running_loop().create_future()
        self._begin()
        await self._future

    def _begin(self) -> None:
        for wait in self._waits:
            if wait.partition.high_watermark >= wait.end_offset:
                self._left -= 1
            elif (lost := wait.partition.lost_because) is not None:  # since it was appended
                wait.answers[wait.at] = _refused(wait.answers[wait.at].partition, lost)
                self._left -= 1
            else:
                wait.partition.call_when_acked(wait.end_offset, _Callback(self, wait))
        if not self._left:
            self._answer()

    def note_acked(self, wait: _Wait, error: BarnabasError | None) -> None:
        if error is not None:
            wait.answers[wait.at] = _refused(wait.answers[wait.at].partition, error)
        self._left -= 1
        if not self._left:
            self._answer()

    def _time_out(self) -> None:
        """Not acknowledged in time: which is to say, unknown."""
        if not self._left:
            return
        error = RequestTimedOut("the records are written, but were not acknowledged in time")
        for wait in self._waits:
            if wait.partition.high_watermark < wait.end_offset:
                wait.answers[wait.at] = _refused(wait.answers[wait.at].partition, error)
        self._left = 0
        self._answer()

    def _answer(self) -> None:
        self._timer.cancel()
        if self._slot is not None:
            self._slot.put(_encode(self._header, self._answers))
        elif self._future is not None and not self._future.done():
            self._future.set_result(None)


class _Callback:
    __slots__ = ("_pending", "_wait")

    def __init__(self, pending: Pending, wait: _Wait) -> None:
        self._pending: Pending | None = pending
        self._wait = wait

    def __call__(self, error: BarnabasError | None) -> None:
        pending, self._pending = self._pending, None  # counted once, however often it is called
        if pending is not None and pending._left > 0:  # or it timed out before
            pending.note_acked(self._wait, error)
