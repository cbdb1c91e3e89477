"""Helpers of these tests: records into topics, and streams that are run to an end."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

WAIT_S = 60.0


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[tuple[Any, ...]],
    *,
    partition: int = -1,
    config: Mapping[str, Any] | None = None,
) -> None:
    """Send (key, value), (key, value, headers) or (key, value, headers, timestamp) and wait for all."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **(config or {})})
    failures: list[Any] = []
    for key, value, *more in records:
        fields = dict(zip(("headers", "timestamp"), more, strict=False))
        chosen = {name: given for name, given in fields.items() if given is not None}
        if partition >= 0:
            chosen["partition"] = partition
        producer.produce(
            topic, value, key, on_delivery=lambda error, _: failures.append(error) if error else None, **chosen
        )
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    assert not failures, failures


def numbered(count: int, start: int = 0) -> list[tuple[bytes, bytes]]:
    return [(f"k{number}".encode(), f"v{number}".encode()) for number in range(start, start + count)]


def batch(spark: Any, bootstrap: str, topic: str | None = None, **options: Any) -> Any:
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", bootstrap)
    if topic is not None:
        reader = reader.option("subscribe", topic)
    return reader.options(**{name.replace("__", "."): value for name, value in options.items()}).load()


def stream(spark: Any, bootstrap: str, topic: str | None = None, **options: Any) -> Any:
    reader = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", bootstrap)
    if topic is not None:
        reader = reader.option("subscribe", topic)
    options = {"startingOffsets": "earliest", **options}
    return reader.options(**{name.replace("__", "."): value for name, value in options.items()}).load()


class Collected:
    """What a query was given, batch by batch."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []

    def add(self, frame: Any, _: int) -> None:
        self.batches.append(frame.collect())

    @property
    def rows(self) -> list[Any]:
        return [row for batch in self.batches for row in batch]

    @property
    def places(self) -> list[tuple[str, int, int]]:
        return sorted((row.topic, row.partition, row.offset) for row in self.rows)


def run_available(frame: Any, checkpoint: Path) -> Collected:
    """Read all there is now, and stop."""
    collected = Collected()
    query = (
        frame.writeStream.foreachBatch(collected.add)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(WAIT_S)), "the query did not end"
    return collected


def start(frame: Any, checkpoint: Path) -> tuple[Any, Collected]:
    """Read on until stopped."""
    collected = Collected()
    query = frame.writeStream.foreachBatch(collected.add).option("checkpointLocation", str(checkpoint)).start()
    return query, collected


def wait_until(condition: Callable[[], bool], query: Any = None, timeout_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if query is not None and query.exception() is not None:
            raise query.exception()
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
