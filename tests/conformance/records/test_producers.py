"""What real producers put on the wire, read by both decoders."""

import asyncio
from collections.abc import Awaitable, Callable

import aiokafka
import confluent_kafka
import pytest

from barnabas.core.model import NO_PRODUCER_ID
from barnabas.core.records.batch import Codec, check_batch, iter_batches
from barnabas.core.records.columnar import decode_arrow
from barnabas.core.records.record import Record, decode_batch
from tests.conformance.records.capture import PRODUCER_ID, TOPIC, CaptureBroker
from tests.conformance.records.samples import CODECS, sample_records

Produce = Callable[[str, str, bool], Awaitable[None]]
TIMEOUT_S = 30
# aiokafka sends no record that has neither key nor value.
RECORDS = [record for record in sample_records() if record.key is not None or record.value is not None]


async def produce_with_librdkafka(bootstrap: str, codec: str, idempotent: bool) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "linger.ms": 200,
        }
    )
    for record in RECORDS:
        producer.produce(
            TOPIC,
            record.value,
            record.key,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )
    assert await asyncio.to_thread(producer.flush, TIMEOUT_S) == 0


async def produce_with_aiokafka(bootstrap: str, codec: str, idempotent: bool) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
        linger_ms=200,
    )
    await producer.start()
    try:
        waits = [
            await producer.send(
                TOPIC,
                record.value,
                record.key,
                partition=0,
                timestamp_ms=record.timestamp,
                headers=list(record.headers),
            )
            for record in RECORDS
        ]
        await asyncio.gather(*waits)
    finally:
        await producer.stop()


async def captured_from(produce: Produce, codec: str, idempotent: bool) -> list[bytes]:
    async with asyncio.timeout(TIMEOUT_S), CaptureBroker() as broker:
        await produce(broker.bootstrap, codec, idempotent)
        return broker.captured


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("produce", [produce_with_librdkafka, produce_with_aiokafka], ids=["librdkafka", "aiokafka"])
def test_we_read_what_a_client_produces(produce: Produce, codec: str, idempotent: bool) -> None:
    captured = asyncio.run(captured_from(produce, codec, idempotent))
    seen: list[Record] = []
    codecs = set()
    for buffer in captured:
        for position, header in iter_batches(buffer):
            check_batch(buffer, position, header)
            assert header.producer_id == (PRODUCER_ID if idempotent else NO_PRODUCER_ID)
            # Without a producer id the sequence means nothing: librdkafka sends -1, aiokafka 0.
            assert header.base_sequence == len(seen) or not idempotent
            codecs.add(header.codec)
            seen += decode_batch(buffer, position)
    expected = RECORDS
    # A producer counts offsets from zero in each batch: the log assigns them.
    assert [(r.timestamp, r.key, r.value, r.headers) for r in seen] == [
        (r.timestamp, r.key, r.value, r.headers) for r in expected
    ]
    # librdkafka sends a batch that compression would only make larger as it is.
    assert Codec[codec.upper()] in codecs
    rows = [row for buffer in captured for row in decode_arrow(buffer).to_pylist()]
    assert [(row["key"], row["value"]) for row in rows] == [(r.key, r.value) for r in expected]
    assert [[(h["key"], h["value"]) for h in row["headers"]] for row in rows] == [list(r.headers) for r in expected]
    assert [round(row["timestamp"].timestamp() * 1000) for row in rows] == [r.timestamp for r in expected]
