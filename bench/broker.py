"""One broker, the client on the same cores: records and requests a second, bytes served, time from end to end.

The targets are four fifths of what a throwaway prototype of this path did on this class of machine. A figure is the
median of its rounds.
"""

import statistics
import time
from collections.abc import Callable, Iterator

from barnabas.core.records.record import encode_batch
from bench import native_client
from bench.logs import make_batch, make_records
from bench.measure import Row, rate, seconds
from bench.raw_client import RawClient
from bench.served import Served, served

TARGET = 0.80
PROTOTYPE_RECORDS = 1_500_000  # of 100 B a second, from one native producer
PROTOTYPE_REQUESTS = 48_000  # of one record, a second
PROTOTYPE_BYTES = 1_100_000_000  # served a second to one consumer
ROUNDS = 5
OS = "log.flush.policy=os"
FSYNC = "log.flush.policy=fsync"


def rows(*, quick: bool) -> Iterator[Row]:
    scale = 20 if quick else 1
    for policy in (OS, FSYNC):
        with served(policy) as broker:
            yield from _native_rows(broker, policy, scale=scale)
    with served(OS) as broker:
        yield from _python_rows(broker, scale=scale)
        yield _requests_row(broker, count=100_000 // scale)
        yield _served_row(broker, total=(2_000_000_000 if not quick else 50_000_000))
    for policy in (OS, FSYNC):
        with served(policy) as broker:
            yield _latency_row(broker, policy, seconds_long=2 if quick else 10)


def _native_rows(broker: Served, policy: str, *, scale: int) -> Iterator[Row]:
    if native_client.build() is None:
        yield Row("produce with a native client", "no C compiler or no librdkafka here")
        return
    flush = policy.rpartition("=")[2]
    for size, count in ((100, 2_000_000 // scale), (1000, 300_000 // scale)):
        for acks in ("1", "all"):
            topic = f"produce-{size}-{acks}"
            took = _median(lambda: native_client.run("produce", broker.bootstrap, topic, str(count), str(size), acks))  # noqa: B023 - called at once
            is_target = size == 100 and acks == "1" and policy == OS
            yield Row(
                f"produce {size} B, native client, acks={acks}, {flush}",
                f"{rate(count / took, 'records/s')}, {count * size / took / 1e6:,.0f} MB/s",
                "prototype 1.50 M records/s" if is_target else "",
                count / took / PROTOTYPE_RECORDS if is_target else None,
                TARGET if is_target else None,
            )
        if policy == OS:
            total = count * ROUNDS
            took = _median(lambda: native_client.run("consume", broker.bootstrap, topic, str(total), str(size)))  # noqa: B023
            figure = f"{rate(total / took, 'records/s')}, {total * size / took / 1e6:,.0f} MB/s"
            yield Row(f"consume {size} B, native client", figure)


def _python_rows(broker: Served, *, scale: int) -> Iterator[Row]:
    count = 500_000 // scale
    for size in (100, 1000):
        took = _median(lambda: _produce_in_python(broker.bootstrap, f"python-{size}", count, size))  # noqa: B023
        yield Row(f"produce {size} B, confluent-kafka, acks=all, os", rate(count / took, "records/s"))
        took = _median(lambda: _consume_in_python(broker.bootstrap, f"python-{size}", count))  # noqa: B023
        yield Row(f"consume {size} B, confluent-kafka", rate(count / took, "records/s"))


def _produce_in_python(bootstrap: str, topic: str, count: int, size: int) -> float:
    from confluent_kafka import Producer  # noqa: PLC0415 - slow to load

    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000, "acks": "all"}
    )
    value = bytes(size)

    def work() -> None:
        for number in range(count):
            producer.produce(topic, value, partition=0)
            if number % 10_000 == 0:
                producer.poll(0)
        assert producer.flush(60) == 0

    return seconds(work)


def _consume_in_python(bootstrap: str, topic: str, count: int) -> float:
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 - slow to load

    # A client whose queue is full sleeps a second unless it is told otherwise.
    config = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer({**config, "fetch.queue.backoff.ms": 5})
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen = len(consumer.consume(1, 30))

    def work() -> None:
        nonlocal seen
        while seen < count:
            seen += len(consumer.consume(min(10_000, count - seen), 5))

    took = seconds(work)
    consumer.close()
    return took


def _requests_row(broker: Served, *, count: int) -> Row:
    client = RawClient(broker.bootstrap)
    client.create_topic("requests")
    batch = bytes(encode_batch(make_records(1)))
    took = _median(lambda: seconds(lambda: client.produce_pipelined("requests", batch, count=count, in_flight=64)))
    client.close()
    return Row(
        "produce requests of one record, acks=1, os, 64 in flight",
        rate(count / took, "requests/s"),
        "prototype 48,000 requests/s",
        count / took / PROTOTYPE_REQUESTS,
        TARGET,
    )


def _served_row(broker: Served, *, total: int) -> Row:
    client = RawClient(broker.bootstrap)
    client.create_topic("served")
    batch = bytes(make_batch(1_000_000))
    count = total // len(batch)
    client.produce_pipelined("served", batch, count=count, in_flight=8)
    records = _records_of(batch)
    amount = 0

    def read() -> None:
        nonlocal amount
        amount = client.fetch_all("served", end_offset=(count + 1) * records, max_bytes=4_000_000)

    took = _median(lambda: seconds(read))
    client.close()
    return Row(
        "bytes served to one consumer, 4 MB a fetch",
        rate(amount / took, "MB/s"),
        "prototype 1,100 MB/s",
        amount / took / PROTOTYPE_BYTES,
        TARGET,
    )


def _records_of(batch: bytes) -> int:
    return int.from_bytes(batch[57:61], "big")


def _latency_row(broker: Served, policy: str, *, seconds_long: int) -> Row:
    """From `produce` to a consumer that long-polls, at 1,000 records a second."""
    from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: PLC0415 - slow to load

    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "acks": "all"})
    producer.produce("latency", b"0")
    producer.flush(30)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
        }
    )
    consumer.assign([TopicPartition("latency", 0, 0)])
    consumer.poll(30)
    found: list[float] = []
    start = time.perf_counter()
    for number in range(1000 * seconds_long):
        due = start + number / 1000
        while (now := time.perf_counter()) < due:
            _take(consumer, found, max(due - now, 0))
        producer.produce("latency", repr(now).encode())
        producer.poll(0)
    producer.flush(30)
    deadline = time.perf_counter() + 10
    while len(found) < 1000 * seconds_long and time.perf_counter() < deadline:
        _take(consumer, found, 0.1)
    consumer.close()
    found.sort()
    figure = f"p50 {found[len(found) // 2] * 1000:.1f} ms, p99 {found[len(found) * 99 // 100] * 1000:.1f} ms"
    flush = policy.rpartition("=")[2]
    return Row(f"end to end at 1,000 records/s, acks=all, {flush}", figure)


def _take(consumer: object, found: list[float], timeout_s: float) -> None:
    message = consumer.poll(timeout_s)  # type: ignore[attr-defined]
    if message is not None and message.error() is None:
        found.append(time.perf_counter() - float(message.value()))


def _median(work: Callable[[], float]) -> float:
    return statistics.median(work() for _ in range(ROUNDS))
