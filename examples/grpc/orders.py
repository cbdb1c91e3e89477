"""Writes orders over one stream, and reads them as a member of a group, over gRPC.

barnabas serve --set grpc.listener=127.0.0.1:9095
python examples/grpc/orders.py 127.0.0.1:9095
"""

import queue
import sys
from collections.abc import Iterator

import grpc

from barnabas.v1 import bus_pb2, bus_pb2_grpc

TOPIC = "python-orders"
BATCHES, EACH = 10, 100


def requests() -> Iterator[bus_pb2.ProduceStreamRequest]:
    """The options first, then records: many in each request."""
    options = bus_pb2.ProduceStreamOptions(topic=TOPIC, compression=bus_pb2.COMPRESSION_ZSTD)
    yield bus_pb2.ProduceStreamRequest(options=options)
    for batch in range(BATCHES):
        orders = range(batch * EACH, (batch + 1) * EACH)
        yield bus_pb2.ProduceStreamRequest(
            records=[bus_pb2.NewRecord(key=b"customer-%d" % (n % 7), value=b"order %d" % n) for n in orders]
        )


def produce(bus: bus_pb2_grpc.BusServiceStub) -> int:
    written = 0
    for response in bus.ProduceStream(requests(), timeout=60):
        for outcome in response.outcomes:
            if outcome.HasField("error"):
                raise SystemExit(f"refused: {outcome.error.message}")
            written += 1
    return written


def consume(bus: bus_pb2_grpc.BusServiceStub, count: int) -> int:
    options = bus_pb2.ConsumeOptions(
        topics=[bus_pb2.TopicSelection(topic=TOPIC)], group="python-billing", max_outstanding_records=500
    )
    to_send: queue.SimpleQueue[bus_pb2.ConsumeRequest | None] = queue.SimpleQueue()
    to_send.put(bus_pb2.ConsumeRequest(options=options))
    read = 0
    for response in bus.Consume(iter(to_send.get, None), timeout=60):
        if not response.HasField("records"):
            continue  # partitions that came or went, or a commit
        records = response.records
        read += len(records.records)
        done = bus_pb2.Position(topic=records.topic, partition=records.partition, offset=records.next_offset)
        to_send.put(bus_pb2.ConsumeRequest(acknowledge=bus_pb2.Acknowledge(positions=[done])))
        if read >= count:
            to_send.put(None)  # the stream ends, and what is acknowledged is committed
    return read


def main(address: str) -> None:
    with grpc.insecure_channel(address, options=[("grpc.keepalive_time_ms", 30_000)]) as channel:
        bus = bus_pb2_grpc.BusServiceStub(channel)
        try:
            bus.CreateTopic(bus_pb2.CreateTopicRequest(name=TOPIC, partitions=3), timeout=30)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
        written = produce(bus)
        print(f"written {written}, read {consume(bus, written)}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9095")
