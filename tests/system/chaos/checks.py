"""What must hold of all that clients were told, looked at from the beginning of every topic."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from tests.system.chaos.cluster import NODES, ChaosCluster
from tests.system.chaos.load import RECORD_PARTITIONS, RECORDS, Acked
from tests.system.chaos.transfers import (
    ACCOUNT_PARTITIONS,
    ACCOUNTS,
    PROCESSED,
    PROCESSED_PARTITIONS,
    PROCESSING_GROUP,
    Outcome,
)

TOPICS: Final = {RECORDS: RECORD_PARTITIONS, ACCOUNTS: ACCOUNT_PARTITIONS, PROCESSED: PROCESSED_PARTITIONS}
_CALL_S: Final = 30.0
_TURN_S: Final = 0.5
_SHOWN: Final = 5


class Found(NamedTuple):
    """A record as a reader of committed records finds it."""

    partition: int
    offset: int
    value: str


def ends(bootstrap: str, topic: str, *, is_stable: bool) -> list[int]:
    """The high watermarks of a topic, or its last stable offsets."""
    level = IsolationLevel.READ_COMMITTED if is_stable else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(topic, each): OffsetSpec.latest() for each in range(TOPICS[topic])}  # type: ignore[no-untyped-call]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    answers = admin.list_offsets(asked, isolation_level=level, request_timeout=_CALL_S)
    found = {where.partition: answer.result(_CALL_S).offset for where, answer in answers.items()}
    return [found[each] for each in range(TOPICS[topic])]


def read(bootstrap: str, topic: str) -> Iterator[Found]:
    """All committed records of a topic, in the order of each partition."""
    goals = dict(enumerate(ends(bootstrap, topic, is_stable=True)))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-check",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    try:
        left = {partition for partition, goal in goals.items() if goal > 0}
        consumer.assign([TopicPartition(topic, each, 0) for each in sorted(left)])
        idle = 0
        while left:
            batch = consumer.consume(5_000, _TURN_S)
            idle = 0 if batch else idle + 1
            if idle * _TURN_S > _CALL_S:
                raise AssertionError(
                    f"{topic}: nothing more to read, and partitions {sorted(left)} are not at their end"
                )
            each: Any
            for each in batch:
                if each.error() is None:
                    yield Found(each.partition(), each.offset(), each.value().decode())
                elif each.error().name() == "_PARTITION_EOF":
                    left.discard(each.partition())
                else:
                    raise KafkaException(each.error())
    finally:
        consumer.close()


def processed_to(bootstrap: str) -> list[int]:
    """How far the records are worked off, by the offsets that were committed in transactions."""
    asker = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": PROCESSING_GROUP,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        asked = asker.committed([TopicPartition(RECORDS, each) for each in range(RECORD_PARTITIONS)], _CALL_S)
    finally:
        asker.close()
    return [max(each.offset, 0) for each in asked]


def check_records(records: Iterable[Found], acked: Mapping[str, Sequence[Sequence[Acked]]]) -> Iterator[str]:
    """Every acknowledged record is where it was said to be; each is there once; those of a writer are in order.

    A retry of a batch that is no longer remembered is acknowledged without an offset: the record must be there.
    """
    found: dict[tuple[int, int], str] = {}
    values: dict[int, set[str]] = defaultdict(set)
    last: dict[tuple[int, str], int] = {}
    for record in records:
        name, _, text = record.value.rpartition(" ")
        number, before = int(text), last.get((record.partition, name), -1)
        if number <= before:
            yield f"{name} {number} is at offset {record.offset} of partition {record.partition}, behind {before}"
        last[record.partition, name] = number
        found[record.partition, record.offset] = record.value
        values[record.partition].add(record.value)
    for writer, partitions in acked.items():
        for partition, places in enumerate(partitions):
            for each in places:
                if each.offset is None:
                    if f"{writer} {each.number}" not in values[partition]:
                        yield f"{writer} {each.number} was acknowledged in partition {partition}, and is not there"
                    continue
                there = found.get((partition, each.offset))
                if there != f"{writer} {each.number}":
                    place = f"{partition}:{each.offset}"
                    yield f"{writer} {each.number} was acknowledged at {place}, and there is {there}"


def check_transfers(
    records: Iterable[Found], outcomes: Mapping[str, Sequence[Outcome]], *, is_final: bool
) -> Iterator[str]:
    """Transfers are whole: two records that add up to nothing, or none; as their bank was told.

    While banks are at work only those are looked at whose outcome is known: others may end while they are read.
    """
    legs: dict[tuple[str, int], list[int]] = defaultdict(list)
    last: dict[tuple[int, str], int] = {}
    for record in records:
        name, number, amount = record.value.split(" ")
        legs[name, int(number)].append(int(amount))
        before = last.get((record.partition, name), -1)
        if int(number) <= before:
            yield f"{name} {number} is at offset {record.offset} of partition {record.partition}, behind {before}"
        last[record.partition, name] = int(number)
    for name, known in outcomes.items():
        for count, outcome in enumerate(known):
            if outcome is Outcome.UNKNOWN and not is_final:
                continue
            amounts = legs.get((name, count), [])
            if amounts and (len(amounts) != 2 or sum(amounts)):
                yield f"{name} {count} ({outcome.value}) is not whole: {amounts}"
            if outcome is Outcome.COMMITTED and not amounts:
                yield f"{name} {count} is committed, and not there"
            if outcome is Outcome.ABORTED and amounts:
                yield f"{name} {count} is aborted, and can be read"


def check_processed(records: Iterable[Found], committed: Sequence[int], *, is_final: bool) -> Iterator[str]:
    """Every record below the committed offsets was worked off once, and none above, once nobody is at work."""
    seen: Counter[tuple[int, int]] = Counter()
    for record in records:
        partition, _, offset = record.value.partition(" ")
        seen[int(partition), int(offset)] += 1
    for place, times in seen.items():
        if times > 1:
            yield f"{place} was worked off {times} times"
    for source, end in enumerate(committed):
        below = sum(1 for partition, offset in seen if partition == source and offset < end)
        beyond = sum(1 for partition, offset in seen if partition == source and offset >= end)
        if (beyond and is_final) or below != end:
            yield (
                f"partition {source} is worked off up to {end}, with {below} results, and {beyond} "
                "of records behind that"
            )


def check_replicas(cluster: ChaosCluster) -> Iterator[str]:
    """All replicas are the same, byte for byte. The nodes have stopped."""
    for topic, partitions in TOPICS.items():
        for partition in range(partitions):
            first, *others = [cluster.partition_bytes(node_id, topic, partition) for node_id in NODES]
            if any(each != first for each in others):
                yield f"the replicas of {topic}-{partition} differ: {[len(first), *map(len, others)]} bytes"


def first_few(found: Iterable[Any]) -> list[str]:
    """Some of what is wrong, and how much there is."""
    everything = [str(each) for each in found]
    more = len(everything) - _SHOWN
    return everything[:_SHOWN] + ([f"... and {more} more"] if more > 0 else [])
