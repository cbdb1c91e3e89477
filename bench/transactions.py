"""Transactions: how many a second, what they cost against an idempotent producer, and what they add to the latency.

All with confluent-kafka, which announces its partitions, and once with a bare connection that does not (KIP-890).
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from barnabas.core.records.record import Record, encode_batch
from barnabas.testing.wire_client import WireClient
from barnabas.wire.apis import END_TXN, FIND_COORDINATOR, INIT_PRODUCER_ID, METADATA, PRODUCE
from bench.measure import Row, compare, rate
from bench.served import Served, served

if TYPE_CHECKING:
    from confluent_kafka import Producer

ROUNDS = 3
VALUE = b"v" * 100
IN_A_TRANSACTION = 10_000  # records, for throughput


def rows(*, quick: bool) -> Iterator[Row]:
    count = 100 if quick else 1_000
    for policy in ("os", "fsync"):
        with served("num.partitions=100", f"log.flush.policy={policy}") as broker:
            for partitions in (1, 10, 100):
                times = max(count // partitions, 20)
                took = statistics.median(commit_many(broker, partitions, times) for _ in range(ROUNDS))
                name = f"transactions of {partitions} partitions, one record in each, {policy}"
                yield Row(name, rate(times / took, "transactions/s"))
            took = statistics.median(asyncio.run(_commit_bare(broker, count)) for _ in range(ROUNDS))
            yield Row(f"the same of 1 partition, each with its epoch, {policy}", rate(count / took, "transactions/s"))
            yield _latency_row(broker, policy, count=count // 2)
    with served("log.flush.policy=os") as broker:
        yield _throughput_row(broker, records=20_000 if quick else 500_000)


def _producer(broker: Served, **settings: Any) -> "Producer":
    from confluent_kafka import Producer  # noqa: PLC0415 - slow to load

    config = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
    return Producer({**config, **settings})


def _transactional(broker: Served, name: str, **settings: Any) -> "Producer":
    producer = _producer(broker, **{"transactional.id": name, **settings})
    producer.init_transactions(30)
    return producer


def commit_many(broker: Served, partitions: int, times: int) -> float:
    producer = _transactional(broker, f"many-{partitions}")

    def once() -> None:
        producer.begin_transaction()
        for partition in range(partitions):
            producer.produce("many", VALUE, partition=partition)
        producer.commit_transaction(30)

    once()  # finds everybody
    start = time.perf_counter()
    for _ in range(times):
        once()
    return time.perf_counter() - start


async def _commit_bare(broker: Served, count: int) -> float:
    host, _, port = broker.bootstrap.rpartition(":")
    client = await WireClient.connect(host, int(port))
    await client.ask(FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": ["bare"]})
    topic = {"topics": [{"name": "bare", "topic_id": None}], "allow_auto_topic_creation": True}
    await client.ask(METADATA, 12, {**topic, "include_topic_authorized_operations": False})
    who: dict[str, Any] = {"transactional_id": "bare"}
    begun = await client.ask(
        INIT_PRODUCER_ID, 5, {**who, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    )
    producer_id, epoch = begun.producer_id, begun.producer_epoch
    start = time.perf_counter()
    for _ in range(count):
        batch = encode_batch(
            [Record(0, int(time.time() * 1000), None, VALUE)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = [{"name": "bare", "partition_data": [{"index": 0, "records": bytes(batch)}]}]
        await client.ask(PRODUCE, 12, {**who, "acks": -1, "timeout": 30_000, "topic_data": data})
        ended = await client.ask(
            END_TXN, 5, {**who, "producer_id": producer_id, "producer_epoch": epoch, "committed": True}
        )
        assert not ended.error_code
        producer_id, epoch = ended.producer_id, ended.producer_epoch
    took = time.perf_counter() - start
    client.close()
    return took


def _latency_row(broker: Served, policy: str, *, count: int) -> Row:
    """One record that is acknowledged, and one that is committed."""
    plain, transactional = _producer(broker), _transactional(broker, "latency")

    def send() -> None:
        plain.produce("latency", VALUE, partition=0)
        plain.flush(30)

    def commit() -> None:
        transactional.begin_transaction()
        transactional.produce("latency", VALUE, partition=0)
        transactional.commit_transaction(30)

    timings: dict[Callable[[], None], list[float]] = {send: [], commit: []}
    for number in range(count + 10):
        for work, found in timings.items():
            start = time.perf_counter()
            work()
            if number >= 10:
                found.append((time.perf_counter() - start) * 1000)
    ours, limit = (_percentiles(found) for found in (timings[commit], timings[send]))
    return Row(f"one record, committed, {policy}", ours, f"acknowledged {limit}")


def _percentiles(milliseconds: list[float]) -> str:
    quantiles = statistics.quantiles(milliseconds, n=100)
    return f"p50 {quantiles[49]:.1f} ms, p99 {quantiles[98]:.1f} ms"


def _throughput_row(broker: Served, *, records: int) -> Row:
    plain = _producer(broker, **{"linger.ms": 5})
    transactional = _transactional(broker, "throughput", **{"linger.ms": 5})

    def fill(producer: "Producer", count: int) -> None:
        for _ in range(count):
            while True:
                try:
                    producer.produce("throughput", VALUE, partition=0)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)

    def idempotent() -> float:
        start = time.perf_counter()
        fill(plain, records)
        plain.flush(60)
        return time.perf_counter() - start

    def in_transactions() -> float:
        start = time.perf_counter()
        for _ in range(records // IN_A_TRANSACTION):
            transactional.begin_transaction()
            fill(transactional, IN_A_TRANSACTION)
            transactional.commit_transaction(60)
        return time.perf_counter() - start

    compared = compare(in_transactions, idempotent, amount=records)
    return Row(
        f"produce 100 B in transactions of {IN_A_TRANSACTION:,}, os",
        rate(compared.ours, "records/s"),
        f"idempotent {rate(compared.limit, 'records/s')}",
        compared.ratio,
    )
