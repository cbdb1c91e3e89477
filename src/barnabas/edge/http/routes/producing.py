"""Writing records: one or many, with a report for each. They are ordinary records, acks=all unless asked otherwise.

Records for one partition are one batch: all of them are written, or none. A key decides on the partition as Kafka's
clients decide; without one all of a request that name none go to one partition.
"""

from collections.abc import Mapping
from typing import Final

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import topic as topic_resource
from barnabas.core.errors import BarnabasError, InvalidRecord, LeaderNotAvailable, UnknownTopicOrPartition
from barnabas.core.metadata.records import NO_LEADER
from barnabas.core.model import TopicPartition
from barnabas.core.produced import PartitionData, ProduceRequest, TopicData
from barnabas.core.records.murmur2 import partition_for_key
from barnabas.core.records.record import Record, encode_batch
from barnabas.edge.http import models
from barnabas.edge.http.calling import Call, Route
from barnabas.edge.http.contents import bytes_of
from barnabas.edge.http.context import Context
from barnabas.edge.http.problems import Problem, problem_of
from barnabas.runtime.other_leaders import produce as produce_elsewhere
from barnabas.runtime.other_leaders import settled
from barnabas.services.call_quotas import Use
from barnabas.services.produce import Transacting
from barnabas.services.produce_round import Placed, ProduceRounds
from barnabas.services.session import Session

TIMEOUT_MS: Final = 30_000
_NO_TRANSACTION: Final = Transacting(adds=False, refusal_of=lambda error: error)


async def produce(context: Context, call: Call) -> models.Produced:
    """Write records."""
    name, wanted = call.path["topic"], call.body
    context.check_writable(is_dry=wanted.validate_only)
    context.authorize(call.session, Operation.WRITE, topic_resource(name))
    topic = context.broker.image.get_topic(name)
    count, now_ms = len(topic.partitions), context.broker.clock.now_ms()
    any_partition = context.broker.dice.randrange(count)
    outcomes: list[models.Placed | None] = [None] * len(wanted.records)
    batches: dict[int, list[tuple[int, Record]]] = {}
    for at, new in enumerate(wanted.records):
        try:
            record, partition = _record_of(new, now_ms), new.partition
            if partition is None:
                partition = any_partition if record.key is None else partition_for_key(record.key, count)
            if partition not in topic.partitions:
                raise UnknownTopicOrPartition(f"topic '{name}' has no partition {partition}")
        except BarnabasError as error:
            outcomes[at] = _refused(None, problem_of(error))
        else:
            batches.setdefault(partition, []).append((at, record))
    acks = 1 if wanted.acks == "1" else -1
    for partition, batch in batches.items():
        placed: Mapping[int, models.Placed]
        if wanted.validate_only:
            placed = {
                at: models.Placed(partition=partition, offset=None, timestamp=record.timestamp) for at, record in batch
            }
        else:
            placed = await _write(context, call.session, TopicPartition(name, partition), batch, acks=acks)
        for at, outcome in placed.items():
            outcomes[at] = outcome
    done = [each for each in outcomes if each is not None]
    written = sum(each.error is None and each.offset is not None for each in done)
    return models.Produced(records=done, written=written, validate_only=wanted.validate_only)


def _record_of(new: models.NewRecord, now_ms: int) -> Record:
    try:
        headers = tuple((each.name, bytes_of(each.value, each.encoding)) for each in new.headers)
        return Record(
            0,
            now_ms if new.timestamp is None else new.timestamp,
            bytes_of(new.key, new.key_encoding),
            bytes_of(new.value, new.value_encoding),
            headers,
        )
    except ValueError as error:
        raise InvalidRecord(f"the record cannot be read: {error}") from None


async def _write(
    context: Context, session: Session, name: TopicPartition, batch: list[tuple[int, Record]], *, acks: int
) -> dict[int, models.Placed]:
    """Write one batch to its leader, and report on each of its records."""
    records = [
        Record(number, record.timestamp, record.key, record.value, record.headers)
        for number, (_, record) in enumerate(batch)
    ]
    try:
        data = await context.broker.threads.compute.run(lambda: encode_batch(records, base_offset=0))
        first, time = await _append(context, session, name, data, acks=acks)
    except BarnabasError as error:
        problem = problem_of(error)
        return {at: _refused(name.partition, problem) for at, _ in batch}
    return {
        at: models.Placed(
            partition=name.partition, offset=first + number, timestamp=record.timestamp if time < 0 else time
        )
        for number, (at, record) in enumerate(batch)
    }


async def _append(
    context: Context, session: Session, name: TopicPartition, data: bytearray, *, acks: int
) -> tuple[int, int]:
    broker = context.broker
    assert broker.others is not None
    leader = broker.others.leader_of(name)
    if leader is None or leader == NO_LEADER:
        raise LeaderNotAvailable(f"nobody leads {name}")
    if not broker.others.is_here(leader):
        topic_id = broker.image.get_topic(name.topic).topic_id
        others, node_id = broker.others, leader
        found = await settled(
            lambda: produce_elsewhere(others, node_id, topic_id, name, bytes(data), acks=acks, timeout_ms=TIMEOUT_MS)
        )
        return found.offset, found.timestamp
    topic = TopicData(name.topic, None, [PartitionData(name.partition, memoryview(data))])
    rounds = ProduceRounds(broker.produce, broker.served, broker.access)
    done = await rounds.take(session, ProduceRequest(None, acks, TIMEOUT_MS, [topic]), _NO_TRANSACTION)
    await done.wait_acked()
    outcome = done.outcomes[0][0]
    if isinstance(outcome, Placed):
        return outcome.first_offset, outcome.log_append_time
    raise outcome


def _refused(partition: int | None, problem: Problem) -> models.Placed:
    return models.Placed(partition=partition, offset=None, timestamp=None, error=problem)


ROUTES = (
    Route(
        "POST",
        "/topics/{topic}/records",
        produce,
        "Write records, with a report for each in their order.",
        models.Produced,
        takes=models.Produce,
        use=Use.PRODUCING,
    ),
)
