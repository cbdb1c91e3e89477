"""Produce on a whole broker: batches that are taken as they are, and those that are refused."""

import struct
from typing import Any

import pytest

from barnabas.core.records.batch import ATTRIBUTES_AT, MAGIC_AT, Codec, read_header
from barnabas.core.records.control import MarkerType, encode_marker
from barnabas.core.records.record import Record, encode_batch
from barnabas.services.broker import Broker
from barnabas.services.opening import MAX_RECORD_ERRORS
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.producing.support import GOOD, patched, records_of
from tests.unit.edge.kafka.support import create, run

PACKED = bytes(encode_batch([Record(0, NOW_MS, b"k", b"v")], codec=Codec.ZSTD))


BAD = {
    "null": (None, 87),
    "empty": (b"", 87),
    "a header cut off": (GOOD[:60], 87),
    "two batches": (GOOD + GOOD, 87),
    "trailing bytes": (GOOD + b"x", 87),
    "cut off": (GOOD[:-1], 2),
    "wrong checksum": (GOOD[:-1] + b"?", 2),
    "magic 0": (GOOD[:MAGIC_AT] + b"\x00" + GOOD[MAGIC_AT + 1 :], 43),
    "magic 1": (GOOD[:MAGIC_AT] + b"\x01" + GOOD[MAGIC_AT + 1 :], 43),
    "magic 3": (GOOD[:MAGIC_AT] + b"\x03" + GOOD[MAGIC_AT + 1 :], 43),
    "magic 1 with odd attributes": (patched(GOOD, MAGIC_AT, b"\x01\x00\x00\x00\x00\x00\x7f"), 43),
    "negative length": (GOOD[:8] + struct.pack(">i", -5) + GOOD[12:], 87),
    "length 0": (GOOD[:8] + bytes(4) + GOOD[12:], 87),
    "huge length": (GOOD[:8] + struct.pack(">i", 2**31 - 1) + GOOD[12:], 2),
    "control": (patched(GOOD, ATTRIBUTES_AT, b"\x00\x20"), 87),
    "delete horizon": (patched(GOOD, ATTRIBUTES_AT, b"\x00\x40"), 87),
    "transactional": (patched(GOOD, ATTRIBUTES_AT, b"\x00\x10"), 53),
    "codec 5": (patched(GOOD, ATTRIBUTES_AT, b"\x00\x05"), 76),
    "codec 7": (patched(GOOD, ATTRIBUTES_AT, b"\x00\x07"), 76),
    "no records": (patched(GOOD, 57, struct.pack(">i", 0)), 87),
    "compressed, with more records than it can hold": (
        patched(patched(PACKED, 23, struct.pack(">i", 2**31 - 2)), 57, struct.pack(">i", 2**31 - 1)),
        87,
    ),
    "billions of records": (
        patched(patched(GOOD, 57, struct.pack(">i", 2**31 - 1)), 23, struct.pack(">i", 2**31 - 2)),
        87,
    ),
    "negative records": (patched(GOOD, 57, struct.pack(">i", -1)), 87),
    "offset delta": (patched(GOOD, 23, struct.pack(">i", 5)), 87),
    "negative offset delta": (patched(GOOD, 23, struct.pack(">i", -1)), 87),
    "a producer without a sequence": (patched(GOOD, 43, struct.pack(">q", 5)), 87),
    "the time of the log": (patched(GOOD, ATTRIBUTES_AT, b"\x00\x08"), 32),
    "a negative producer": (patched(GOOD, 43, struct.pack(">qhi", -7, 0, 0)), 87),
}


@pytest.mark.parametrize("settings", [{}, {"cleanup_policy": "compact"}, {"compression_type": "zstd"}], ids=str)
@pytest.mark.parametrize(("records", "code"), BAD.values(), ids=BAD)
def test_bad_batches_are_refused_and_leave_no_trace(records: bytes | None, code: int, settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        assert await Caller(broker).refusal("t", records) == code
        assert await Caller(broker).refusal("t", records, acks=1, version=3) == code
        assert records_of(broker, "t") == []
        assert await Caller(broker).refusal("t", GOOD) == 0

    run(scenario)


def test_a_marker_of_a_coordinator_is_refused_from_a_client() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        ids = {"producer_id": 1, "producer_epoch": 0, "coordinator_epoch": 0}
        marker = bytes(encode_marker(MarkerType.ABORT, timestamp_ms=NOW_MS, **ids))
        assert await Caller(broker).refusal("t", marker) == 87

    run(scenario)


def test_a_batch_over_the_limit_of_its_topic_is_too_large() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", max_message_bytes="200")
        await create(broker, "converted", max_message_bytes="200", compression_type="uncompressed")
        assert await Caller(broker).refusal("t", batch(b"x" * 200)) == 10
        assert await Caller(broker).refusal("t", batch(b"x" * 100)) == 0
        assert await Caller(broker).refusal("converted", batch(b"x" * 5000, codec=Codec.GZIP)) == 10

    run(scenario)


def test_a_compacted_topic_names_the_records_that_have_no_key() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", cleanup_policy="compact")
        records = [Record(n, NOW_MS, b"k" if n % 2 else None, b"v") for n in range(4)]
        answer = await Caller(broker).produced("t", bytes(encode_batch(records)))
        assert answer.error_code.value == 87
        assert [error.batch_index for error in answer.record_errors] == [0, 2]
        assert "2 record(s)" in answer.error_message
        assert records_of(broker, "t") == []

    run(scenario)


def test_the_records_that_are_named_are_bounded() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", cleanup_policy="compact")
        answer = await Caller(broker).produced("t", batch(*[b""] * 25_000, key=None))
        assert len(answer.record_errors) == MAX_RECORD_ERRORS
        assert "25000 record(s)" in answer.error_message

    run(scenario)


def test_many_records_are_looked_at_to_the_last() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", cleanup_policy="compact")
        records = [Record(n, NOW_MS, b"k", b"") for n in range(25_000)]
        good = encode_batch(records)
        assert await Caller(broker).refusal("t", bytes(good)) == 0
        records[-1] = Record(24_999, NOW_MS, None, b"")
        answer = await Caller(broker).produced("t", bytes(encode_batch(records)))
        assert [error.batch_index for error in answer.record_errors] == [24_999]

    run(scenario)


def test_the_bytes_written_are_those_that_were_sent_but_for_their_place() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        assert await Caller(broker).refusal("t", GOOD) == 0
        fetched = await Caller(broker).fetched(("t", 0, 0))
        assert fetched.records[16:] == GOOD[16:]
        assert read_header(fetched.records).leader_epoch == 0

    run(scenario)
