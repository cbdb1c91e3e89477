"""gRPC beside the Kafka port of the same broker: rates, processor time of the broker, and what having it on costs.

The Kafka side is librdkafka from Python with its defaults; the gRPC side the generated stubs, with 1,000 records in a
message, or one. Both run in this process and share its core, so a rate says as much of clients as of the broker; the
processor time of the broker for a million records does not.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import grpc
from confluent_kafka import Consumer, Producer

from barnabas.testing.cluster.ports import find_free
from barnabas.v1 import bus_pb2, bus_pb2_grpc
from bench.measure import Compared, Row, compare
from bench.served import Served, served

VALUE: Final = b"x" * 100
PER_MESSAGE: Final = 1000
ROUNDS: Final = 5


def rows(*, quick: bool) -> Iterator[Row]:
    count = 20_000 if quick else 500_000
    rounds = 1 if quick else ROUNDS
    yield from _cost_of_being_on(rounds)
    port = find_free(1)[0]
    with (
        served("log.flush.policy=os", f"grpc.listener=127.0.0.1:{port}") as broker,
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        stub = bus_pb2_grpc.BusServiceStub(channel)
        for topic in ("kafka", "grpc"):
            stub.CreateTopic(bus_pb2.CreateTopicRequest(name=topic), timeout=30)
        yield _row(
            f"produce over gRPC, {PER_MESSAGE} records of 100 B a message, records/s against the Kafka port",
            compare(
                lambda: _timed(lambda: _produce_grpc(stub, count)),
                lambda: _timed(lambda: _produce_kafka(broker, count)),
                amount=count,
                rounds=rounds,
            ),
        )
        yield _row(
            "consume over gRPC, records/s against the Kafka port",
            compare(
                lambda: _timed(lambda: _consume_grpc(stub, count)),
                lambda: _timed(lambda: _consume_kafka(broker, count)),
                amount=count,
                rounds=rounds,
            ),
        )
        few = count // 100
        took = _timed(lambda: _produce_one_by_one(stub, few))
        yield Row("produce over gRPC, calls with one record in turn", f"{few / took:,.0f} calls/s")
        sides: dict[str, Callable[[], None]] = {
            "gRPC": lambda: _produce_grpc(stub, count),
            "Kafka": lambda: _produce_kafka(broker, count),
        }
        for name, work in sides.items():
            used = broker.processor_s()
            work()
            used = broker.processor_s() - used
            yield Row(
                f"processor time of the broker, a million records produced over {name}", f"{used / count * 1e6:.2f} s"
            )


def _cost_of_being_on(rounds: int) -> Iterator[Row]:
    starts: dict[bool, list[float]] = {False: [], True: []}
    memory: dict[bool, list[int]] = {False: [], True: []}
    for _ in range(rounds):
        for is_on in (False, True):
            settings = [f"grpc.listener=127.0.0.1:{find_free(1)[0]}"] if is_on else []
            with served(*settings) as broker:
                starts[is_on].append(broker.ready_after_s)
                memory[is_on].append(broker.memory())
    on, off = (sorted(starts[is_on])[rounds // 2] for is_on in (True, False))
    yield Row("exec to ready with gRPC on, against off", f"{on * 1000:.0f} ms", f"{off * 1000:.0f} ms", off / on)
    on_mb, off_mb = (sorted(memory[is_on])[rounds // 2] / 1e6 for is_on in (True, False))
    yield Row("idle memory with gRPC on, against off", f"{on_mb:.0f} MB", f"{off_mb:.0f} MB", off_mb / on_mb)


def _row(name: str, compared: Compared) -> Row:
    return Row(name, f"{compared.ours:,.0f}/s", f"{compared.limit:,.0f}/s", compared.ratio)


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _produce_grpc(stub: Any, count: int) -> None:
    records = [bus_pb2.NewRecord(value=VALUE)] * PER_MESSAGE

    def requests() -> Iterator[Any]:
        yield bus_pb2.ProduceStreamRequest(options=bus_pb2.ProduceStreamOptions(topic="grpc"))
        for _ in range(count // PER_MESSAGE):
            yield bus_pb2.ProduceStreamRequest(records=records)

    written = sum(len(each.outcomes) for each in stub.ProduceStream(requests(), timeout=600))
    assert written == count


def _produce_one_by_one(stub: Any, count: int) -> None:
    request = bus_pb2.ProduceRequest(topic="grpc", records=[bus_pb2.NewRecord(value=VALUE)])
    for _ in range(count):
        stub.Produce(request, timeout=30)


def _produce_kafka(broker: Served, count: int) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "queue.buffering.max.messages": count + 1}
    )
    for _ in range(count):
        producer.produce("kafka", VALUE)
    assert producer.flush(600) == 0


def _consume_grpc(stub: Any, count: int) -> None:
    options = bus_pb2.ConsumeOptions(topics=[bus_pb2.TopicSelection(topic="grpc")], ack_mode=bus_pb2.ACK_MODE_AUTOMATIC)
    stream = stub.Consume(iter([bus_pb2.ConsumeRequest(options=options)]), timeout=600)
    read = 0
    for response in stream:
        read += len(response.records.records)
        if read >= count:
            break
    stream.cancel()


def _consume_kafka(broker: Served, count: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"bench-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["kafka"])
    read = 0
    while read < count:
        read += len(consumer.consume(10_000, timeout=1.0))
    consumer.close()
