"""What we write, served to real consumers: every codec, gaps, log-append time, and transaction markers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from barnabas.core.records.batch import Codec, TimestampType
from barnabas.core.records.columnar import decode_arrow
from barnabas.core.records.control import MarkerType, encode_marker
from barnabas.core.records.record import Record, decode_batch, encode_batch
from tests.conformance.records.capture import TOPIC, CaptureBroker
from tests.conformance.records.samples import CODECS, sample_records

Consume = Callable[[str, int, int], Awaitable[list[Record]]]
TIMEOUT_S = 30


def poll_librdkafka(bootstrap: str, start: int, count: int) -> list[Record]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "conformance", "enable.auto.commit": False, "check.crcs": True}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, start)])
        records: list[Record] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(records) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(records), timeout=1):
                assert message.error() is None, message.error()
                headers: Any = message.headers() or ()
                offset = message.offset()
                assert offset is not None
                timestamp_ms = message.timestamp()[1]
                records.append(Record(offset, timestamp_ms, message.key(), message.value(), tuple(headers)))
    finally:
        consumer.close()
    return records


async def consume_with_librdkafka(bootstrap: str, start: int, count: int) -> list[Record]:
    return await asyncio.to_thread(poll_librdkafka, bootstrap, start, count)


async def consume_with_aiokafka(bootstrap: str, start: int, count: int) -> list[Record]:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, isolation_level="read_committed"
    )
    partition = aiokafka.TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    await consumer.start()
    try:
        consumer.seek(partition, start)
        records: list[Record] = []
        while len(records) < count:
            message = await consumer.getone()
            headers = tuple((key, value) for key, value in message.headers)
            records.append(Record(message.offset, message.timestamp, message.key, message.value, headers))
    finally:
        await consumer.stop()
    return records


async def served_to(
    consume: Consume, log: bytes, start: int, count: int, aborted: Sequence[tuple[int, int]] = ()
) -> list[Record]:
    async with asyncio.timeout(TIMEOUT_S), CaptureBroker(log, end_offset=10_000, aborted=aborted) as broker:
        return await consume(broker.bootstrap, start, count)


every_consumer = pytest.mark.parametrize(
    "consume", [consume_with_librdkafka, consume_with_aiokafka], ids=["librdkafka", "aiokafka"]
)


@every_consumer
@pytest.mark.parametrize("codec", CODECS)
def test_a_client_reads_what_we_write(consume: Consume, codec: str) -> None:
    records = sample_records()
    log = bytes(encode_batch(records, codec=Codec[codec.upper()], leader_epoch=0))
    assert asyncio.run(served_to(consume, log, 0, len(records))) == records


@every_consumer
def test_a_client_reads_from_the_middle_of_batches_with_gaps(consume: Consume) -> None:
    records = [record for record in sample_records() if record.offset % 3]
    log = b"".join(encode_batch(records[n : n + 50], codec=Codec.SNAPPY, leader_epoch=0) for n in range(0, 250, 50))
    expected = [record for record in records[:250] if record.offset >= 100]
    assert asyncio.run(served_to(consume, log, 100, len(expected))) == expected
    assert decode_arrow(log, start_offset=100).column("offset").to_pylist() == [r.offset for r in expected]


@every_consumer
def test_a_client_sees_the_logs_time_where_the_batch_goes_by_it(consume: Consume) -> None:
    log = bytes(encode_batch(sample_records(50), timestamp_type=TimestampType.LOG_APPEND_TIME, leader_epoch=0))
    assert asyncio.run(served_to(consume, log, 0, 50)) == decode_batch(log)


@every_consumer
def test_a_read_committed_client_understands_our_markers_as_the_columnar_decoder_does(consume: Consume) -> None:
    def data(producer_id: int, *offsets: int) -> bytearray:
        return encode_batch(
            [Record(offset, offset, b"k", b"v") for offset in offsets],
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )

    def end(type_: MarkerType, producer_id: int, offset: int) -> bytearray:
        return encode_marker(
            type_,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=3,
            timestamp_ms=offset,
            base_offset=offset,
            leader_epoch=0,
        )

    log = bytes(
        data(1, 0, 1)
        + data(2, 2, 3)
        + end(MarkerType.ABORT, 1, 4)
        + end(MarkerType.COMMIT, 2, 5)
        + data(1, 6, 7)
        + end(MarkerType.COMMIT, 1, 8)
    )
    aborted = [(1, 0)]
    seen = asyncio.run(served_to(consume, log, 0, 4, aborted))
    assert [record.offset for record in seen] == [2, 3, 6, 7]
    assert decode_arrow(log, aborted=aborted).column("offset").to_pylist() == [2, 3, 6, 7]
