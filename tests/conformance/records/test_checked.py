"""Batches with bytes changed at random and a right checksum: what passes our check, real consumers read."""

import asyncio
import random

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch

from barnabas.core.records.batch import HEADER_SIZE, assign_offset, read_header, seal
from barnabas.core.records.checking import OK, check_records
from barnabas.core.records.record import Record, decode_batch, encode_batch
from tests.conformance.broker.clients import kafka
from tests.conformance.records.test_consumers import consume_with_librdkafka, served_to
from tests.support.examples import examples

NOW_MS = 1_700_000_000_000
FORGED = examples(20_000)


def forged(rng: random.Random) -> bytearray:
    """A small batch, a few bytes of its records changed."""
    records = [
        Record(
            number,
            NOW_MS + rng.randrange(100),
            rng.choice((None, b"", b"key")),
            rng.choice((None, bytes(rng.randrange(80)))),
            (("h", b"1"), ("", None)) if rng.random() < 0.3 else (),
        )
        for number in range(rng.randrange(1, 6))
    ]
    batch = encode_batch(records)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(HEADER_SIZE, len(batch))
        batch[at] = rng.choice((rng.randrange(256), batch[at] ^ 1 << rng.randrange(8), batch[at] + 1 & 0xFF))
    seal(batch, 0, len(batch))
    return batch


def accepted(*, is_text: bool) -> list[bytearray]:
    """What passes of many forged batches, one after the other in a log. `is_text`: as to the keys of headers."""
    rng = random.Random(9)
    kept = []
    offset = 0
    for _ in range(FORGED):
        batch = forged(rng)
        header = read_header(batch)
        status, _ = check_records(bytes(batch[HEADER_SIZE:]), header.record_count, header.base_timestamp)
        if status != OK or (is_text and not has_text_keys(decode_batch(batch))):
            continue
        assign_offset(batch, 0, header, base_offset=offset, leader_epoch=0)
        offset += header.record_count
        kept.append(batch)
    assert len(kept) > FORGED // 20  # or this shows nothing
    return kept


def has_text_keys(records: list[Record]) -> bool:
    """Whether the keys of headers are UTF-8. Kafka does not ask for that, and not all clients read what is not."""
    return all(not any(0xDC80 <= ord(c) <= 0xDCFF for c in key) for record in records for key, _ in record.headers)


def test_kafka_python_reads_what_passes() -> None:
    for batch in accepted(is_text=True):
        found = list(kafka.record.default_records.DefaultRecordBatch(bytes(batch)))
        assert [(r.offset, r.timestamp, r.key, r.value) for r in found] == brief(decode_batch(batch))


def test_aiokafka_reads_what_passes() -> None:
    for batch in accepted(is_text=True):
        found = list(AiokafkaBatch(bytes(batch)))
        assert [(r.offset, r.timestamp, r.key, r.value) for r in found] == brief(decode_batch(batch))


def test_librdkafka_reads_what_passes() -> None:
    batches = accepted(is_text=True)[:1500]
    expected = [record for batch in batches for record in decode_batch(batch)]
    seen = asyncio.run(served_to(consume_with_librdkafka, b"".join(batches), 0, len(expected)))
    # Without their times: it takes a bit of a record's attributes, which mean nothing, for that of log-append time.
    assert [(r.offset, r.key, r.value) for r in seen] == [(r.offset, r.key, r.value) for r in expected]


def brief(records: list[Record]) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(record.offset, record.timestamp, record.key, record.value) for record in records]
