"""The topics that both connectors read, and what a read comes to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.spark.source.streams import WAIT_S, produce

START_MS = 1_700_000_000_000
COMMON = {"kafkaConsumer.pollTimeoutMs": "5000", "fetchOffset.retryIntervalMs": "10"}
# Rows in the order of their places, or None where the read was refused.
Outcome: TypeAlias = list[tuple[Any, ...]] | None


@dataclass(frozen=True, slots=True)
class Topics:
    """`diff-one` has 40, 20 and no records; of `diff-two` a transaction was aborted; `diff-cut` begins at 8."""

    bootstrap: str
    admin: AdminClient

    def create(self, name: str, partitions: int = 1) -> None:
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(WAIT_S)

    def delete(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(WAIT_S)

    def reader(self, source: Any, format_: str, options: dict[str, Any]) -> Any:
        given = {"kafka.bootstrap.servers": self.bootstrap, **COMMON, **options}
        return source.format(format_).options(**given).load()


def make_topics(bootstrap: str) -> Topics:
    topics = Topics(bootstrap, AdminClient({"bootstrap.servers": bootstrap}))
    for name, partitions in (("diff-one", 3), ("diff-two", 1), ("diff-cut", 1)):
        topics.create(name, partitions)
    dated = [
        (f"k{at}".encode(), f"v{at}".encode(), [("h", b"%d" % at), ("n", None)], START_MS + 1000 * at)
        for at in range(40)
    ]
    produce(bootstrap, "diff-one", dated, partition=0)
    late = [(None, None if at % 5 == 0 else b"x" * at, None, START_MS + 1000 * (19 - at)) for at in range(20)]
    produce(bootstrap, "diff-one", late, partition=1, config={"compression.type": "gzip", "batch.num.messages": 3})
    _transactions(bootstrap, "diff-two")
    produce(bootstrap, "diff-cut", [(b"k", b"%d" % at, None, START_MS + at) for at in range(20)])
    for future in topics.admin.delete_records([TopicPartition("diff-cut", 0, 8)]).values():
        future.result(WAIT_S)
    return topics


def outcome(read: Callable[..., list[Any]], *arguments: Any) -> Outcome:
    """What a read gives, for comparison."""
    try:
        rows = read(*arguments)
    except Exception:  # whatever Spark makes of a refusal
        return None
    return sorted((_plain(row) for row in rows), key=lambda row: row[:3])


def _plain(row: Any) -> tuple[Any, ...]:
    def of(value: Any) -> Any:
        return None if value is None else bytes(value)

    headers = "no column" if "headers" not in row else row.headers
    if isinstance(headers, list):
        headers = [(each.key, of(each.value)) for each in headers]
    place = row.topic, row.partition, row.offset
    return *place, of(row.key), of(row.value), row.timestamp, row.timestampType, headers


def _transactions(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "differential", "linger.ms": 0})
    producer.init_transactions(WAIT_S)
    for number, is_committed in enumerate((True, False, True)):
        producer.begin_transaction()
        for at in range(3):
            producer.produce(topic, b"%d %d" % (number, at), timestamp=START_MS + at)
        producer.flush(WAIT_S)
        producer.commit_transaction(WAIT_S) if is_committed else producer.abort_transaction(WAIT_S)
