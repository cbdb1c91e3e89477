"""A client of the gRPC service as users write one, on the generated stubs."""

import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import grpc

from barnabas.v1 import bus_pb2, bus_pb2_grpc

TIMEOUT_S = 30.0


class Client:
    """Calls with a deadline each, and topics of their own for tests."""

    _count = 0

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.stub = bus_pb2_grpc.BusServiceStub(channel)

    def new_topic(self, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        Client._count += 1
        name = f"topic-{Client._count}"
        self.stub.CreateTopic(
            bus_pb2.CreateTopicRequest(name=name, partitions=partitions, configs=configs), timeout=TIMEOUT_S
        )
        return name

    def produce(self, topic: str, values: Sequence[bytes], **more: Any) -> Any:
        records = [bus_pb2.NewRecord(value=value) for value in values]
        return self.stub.Produce(bus_pb2.ProduceRequest(topic=topic, records=records, **more), timeout=TIMEOUT_S)

    def read_all(self, topic: str, **more: Any) -> list[Any]:
        """Everything that is in a topic now."""
        options = bus_pb2.ConsumeOptions(
            topics=[bus_pb2.TopicSelection(topic=topic)],
            until_end=True,
            ack_mode=bus_pb2.ACK_MODE_AUTOMATIC,
            **more,
        )
        stream = self.stub.Consume(iter([bus_pb2.ConsumeRequest(options=options)]), timeout=TIMEOUT_S)
        return [record for each in stream for record in each.records.records]


class Consumer:
    """A Consume stream that is read and acknowledged by hand."""

    def __init__(self, client: Client, options: Any) -> None:
        self._requests: queue.Queue[Any] = queue.Queue()
        self._requests.put(bus_pb2.ConsumeRequest(options=options))
        self.stream = client.stub.Consume(iter(self._requests.get, None), timeout=TIMEOUT_S)

    def next(self, kind: str) -> Any:
        """The next response of a kind; others are skipped."""
        for response in self.stream:
            if response.WhichOneof("response") == kind:
                return getattr(response, kind)
        raise AssertionError(f"the stream ended before there was {kind}")

    def acknowledge(self, records: Any, offset: int | None = None) -> None:
        at = records.next_offset if offset is None else offset
        position = bus_pb2.Position(topic=records.topic, partition=records.partition, offset=at)
        self._requests.put(bus_pb2.ConsumeRequest(acknowledge=bus_pb2.Acknowledge(positions=[position])))

    def send(self, request: Any) -> None:
        self._requests.put(request)

    def finish(self) -> None:
        """Send no more, and read the rest."""
        self._requests.put(None)
        for _ in self.stream:
            pass

    def cancel(self) -> None:
        self.stream.cancel()
        self._requests.put(None)


def produce_stream(client: Client, options: Any, batches: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """The responses to some batches of records."""

    def requests() -> Iterator[Any]:
        yield bus_pb2.ProduceStreamRequest(options=options)
        for records in batches:
            yield bus_pb2.ProduceStreamRequest(records=records)

    responses: Iterator[Any] = client.stub.ProduceStream(requests(), timeout=TIMEOUT_S)
    return responses


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return when something holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def refusal(call: Callable[[], Any]) -> tuple[Any, int, str]:
    """The status of a call that fails, Kafka's code beside it, and the message."""
    try:
        call()
    except grpc.RpcError as error:
        trailing = dict(error.trailing_metadata() or ())
        return error.code(), int(trailing.get("barnabas-kafka-code", -2)), str(error.details())
    raise AssertionError("the call did not fail")
