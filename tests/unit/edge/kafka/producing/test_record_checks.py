"""Produce on a whole broker: batches with a right checksum whose records are not what the header says."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from barnabas.core.errors import InvalidRecord
from barnabas.core.records.batch import Codec, TimestampType, read_header, seal, write_header
from barnabas.core.records.compression import compress
from barnabas.core.records.record import Record, encode_batch
from barnabas.services.broker import Broker
from barnabas.services.record_checks import (
    FRAMING_NOW,
    PLAIN_RECORDS,
    UNPACKED_BYTES,
    RecordChecks,
    TakesLong,
    load_kernel,
)
from barnabas.services.settings import RecordValidation
from tests.support.ports import NOW_MS, InPlace
from tests.unit.core.records.forgery import LIES, body, forge, sized
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.producing.support import GOOD, header_of, records_of
from tests.unit.edge.kafka.producing.transacting import codes, part, send, with_admission
from tests.unit.edge.kafka.support import create, run

T = TypeVar("T")
INVALID_RECORD = 87
INVALID_TIMESTAMP = 32
CORRUPT_MESSAGE = 2
FULL, AUTO, NONE = RecordValidation.FULL, RecordValidation.AUTO, RecordValidation.NONE

# Those that the fields of the header contradict are refused by the log.
POISON = {
    name: bytes(lie)
    for name, lie in LIES.items()
    if read_header(lie).record_count == read_header(lie).last_offset_delta + 1 > 0
}
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "full": {"record_validation": "full"},
    "compacted": {"cleanup_policy": "compact"},
    "converted": {"compression_type": "zstd"},
    "log's time": {"message_timestamp_type": "LogAppendTime"},
}


def packed(poison: bytes, codec: Codec) -> bytes:
    """The same batch, compressed."""
    header = read_header(poison)
    section = compress(codec, poison[61:])
    fields = header._replace(batch_length=49 + len(section), attributes=int(codec))
    out = bytearray(61) + section
    write_header(out, 0, fields)
    seal(out, 0, len(out))
    return bytes(out)


def of_producer(poison: bytes, attributes: int = 0, epoch: int = 0) -> bytes:
    """The same batch, of an idempotent producer."""
    out = bytearray(poison)
    ids = {"producer_id": 7, "producer_epoch": epoch, "base_sequence": 0, "attributes": attributes}
    write_header(out, 0, read_header(poison)._replace(**ids))
    seal(out, 0, len(out))
    return bytes(out)


@pytest.mark.parametrize("settings", TOPICS.values(), ids=TOPICS)
def test_poison_is_refused_by_topics_of_every_kind(settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        caller = Caller(broker)
        for name, poison in POISON.items():
            assert await caller.refusal("t", poison) == INVALID_RECORD, name
            assert await caller.refusal("t", poison, acks=1, version=3) == INVALID_RECORD, name
            assert await caller.refusal("t", of_producer(poison)) == INVALID_RECORD, name
            for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
                assert await caller.refusal("t", packed(poison, codec)) == INVALID_RECORD, (name, codec)
        assert records_of(broker, "t") == []
        assert await caller.refusal("t", GOOD) == 0

    run(scenario)


def test_poison_is_refused_also_beside_other_partitions() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=3)
        for poison in (POISON["bytes after the records"], packed(POISON["bytes after the records"], Codec.ZSTD)):
            answer = await Caller(broker).produce("t", GOOD, poison, GOOD).read()
            found = [each.error_code.value for each in answer.responses[0].partition_responses]
            assert found == [0, INVALID_RECORD, 0]
            assert records_of(broker, "t", 1) == []

    run(scenario)


@pytest.mark.parametrize("settings", TOPICS.values(), ids=TOPICS)
def test_poison_is_refused_within_a_transaction(settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        caller = Caller(broker)
        with_admission(broker)
        for is_begun in (False, True):
            for codec in Codec:
                poison = packed(POISON["value beyond the record"], codec)
                call = send(caller, of_producer(poison, attributes=0x10 | codec))
                assert await codes(call) == [INVALID_RECORD], (is_begun, codec)
            assert await codes(send(caller, part(int(is_begun), b"v"))) == [0]
        assert len(records_of(broker, "t")) == 2

    run(scenario)


def test_the_refusal_names_the_record_and_what_is_wrong_with_it() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        section = sized(body()) + sized(body(offset_delta=1, key=b"\x7ea"))
        answer = await Caller(broker).produced("t", bytes(forge(section, count=2, last_offset_delta=1)))
        assert answer.error_code.value == INVALID_RECORD
        assert answer.error_message == "the batch cannot be read: record 1 has a key that does not fit"
        (error,) = answer.record_errors
        assert (error.batch_index, error.batch_index_error_message) == (1, "record 1 has a key that does not fit")

    run(scenario)


def test_what_was_damaged_on_its_way_is_to_be_sent_again() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        for damaged in (bytearray(GOOD), bytearray(packed(GOOD, Codec.ZSTD))):
            damaged[-3] ^= 0x80
            assert await Caller(broker).refusal("t", bytes(damaged)) == CORRUPT_MESSAGE

    run(scenario)


def test_a_topic_may_do_without() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", record_validation="none")
        assert await Caller(broker).refusal("t", POISON["bytes after the records"]) == 0
        assert await Caller(broker).refusal("t", packed(POISON["bytes after the records"], Codec.GZIP)) == 0

    run(scenario)


def test_trailing_bytes_within_and_behind_the_compressed_data_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        good = encode_batch([Record(0, NOW_MS, b"k", b"v")])
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
            compressed = compress(codec, good[61:]) + b"\x00"
            out = bytearray(61) + compressed
            fields = {"batch_length": 49 + len(compressed), "attributes": int(codec)}
            write_header(out, 0, read_header(good)._replace(**fields))
            seal(out, 0, len(out))
            assert await Caller(broker).refusal("t", bytes(out)) == INVALID_RECORD, codec

    run(scenario)


# The time in the header


def wrongly_dated(max_timestamp: int, *times: int, codec: Codec = Codec.NONE) -> bytes:
    out = encode_batch([Record(n, time, b"k", b"v") for n, time in enumerate(times)], codec=codec)
    write_header(out, 0, read_header(out)._replace(max_timestamp=max_timestamp))
    seal(out, 0, len(out))
    return bytes(out)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_wrong_newest_time_is_put_right_as_in_kafka(codec: Codec) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        for claimed in (NOW_MS - 5000, NOW_MS + 5000, -1, -(2**63)):
            wrong = wrongly_dated(claimed, NOW_MS - 10, NOW_MS, NOW_MS - 20, codec=codec)
            assert await Caller(broker).refusal("t", wrong) == 0
            assert header_of(broker, "t").max_timestamp == NOW_MS
        assert [record.timestamp - NOW_MS for record in records_of(broker, "t")] == [-10, 0, -20] * 4

    run(scenario)


def test_a_time_too_far_ahead_does_not_hide_behind_the_header() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await create(broker, "packed", compression_type="zstd")
        ahead = wrongly_dated(NOW_MS, NOW_MS, NOW_MS + 3_600_001)
        assert await Caller(broker).refusal("t", ahead) == INVALID_TIMESTAMP
        assert await Caller(broker).refusal("packed", ahead) == INVALID_TIMESTAMP
        damaged = bytearray(wrongly_dated(NOW_MS + 1, NOW_MS))
        damaged[-2] ^= 1  # in the value: only the checksum can tell, and it must be asked before it is made anew
        assert await Caller(broker).refusal("t", bytes(damaged)) == CORRUPT_MESSAGE

    run(scenario)


def test_the_time_of_the_log_stands_whatever_the_header_claims() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", message_timestamp_type="LogAppendTime")
        assert await Caller(broker).refusal("t", wrongly_dated(5, NOW_MS + 10**9)) == 0
        header = header_of(broker, "t")
        assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW_MS)

    run(scenario)


# How much, and where


class Counted(InPlace):
    """Counts what is done on a thread."""

    def __init__(self) -> None:
        self.calls = 0

    async def run(self, function: Callable[[], T]) -> T:
        self.calls += 1
        return await super().run(function)


def counting(broker: Broker) -> Counted:
    counted = Counted()
    broker.produce._offload = counted
    return counted


def many(count: int, codec: Codec = Codec.NONE, value: bytes = b"") -> bytes:
    return batch(*[value] * count, codec=codec)


def test_small_batches_are_checked_on_the_loop_and_large_ones_are_not() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        counted = counting(broker)
        for on_loop in (GOOD, many(FRAMING_NOW), many(100, Codec.ZSTD)):
            assert await Caller(broker).refusal("t", on_loop) == 0
        assert counted.calls == 0
        unpacks_to_much = many(5, Codec.ZSTD, value=bytes(100_000))
        assert len(unpacks_to_much) < 1000
        for on_thread in (many(FRAMING_NOW + 1), unpacks_to_much):
            assert await Caller(broker).refusal("t", on_thread) == 0
        assert counted.calls == 2

    run(scenario)


def test_a_count_that_lies_does_not_cost_a_thread() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        counted = counting(broker)
        checks = broker.produce.record_checks
        with pytest.raises(InvalidRecord, match="claims 2147483647 records in"):
            checks.check(AUTO, absurd(), now_ms=0)
        assert counted.calls == 0

    run(scenario)


def absurd() -> memoryview:
    return memoryview(forge(sized(body()), count=2**31 - 1, last_offset_delta=2**31 - 2))


def inner_poison(count: int) -> memoryview:
    """Only a look at every field finds it: a record in the middle whose key reaches out of it."""
    made = [sized(body(offset_delta=n, key=b"\x7ea" if n == count // 2 else b"\x01")) for n in range(count)]
    return memoryview(forge(b"".join(made), count=count, last_offset_delta=count - 1))


def test_plain_python_looks_at_every_field_until_there_is_too_much_of_it() -> None:
    async def scenario() -> None:
        checks = RecordChecks(InPlace(), load=lambda: None)
        poison, good = inner_poison(1000), memoryview(bytearray(many(1000)))
        with pytest.raises(InvalidRecord):
            checks.check(AUTO, poison, now_ms=NOW_MS)
        for _ in range(PLAIN_RECORDS // 1000):
            checks.check(AUTO, good, now_ms=NOW_MS)
        checks.check(AUTO, poison, now_ms=NOW_MS)  # its lengths are right
        with pytest.raises(InvalidRecord):
            checks.check(FULL, poison, now_ms=NOW_MS)
        with pytest.raises(InvalidRecord):
            checks.check(AUTO, poison, now_ms=NOW_MS + 1000)
        with pytest.raises(TakesLong):
            checks.check(FULL, memoryview(bytearray(many(3000))), now_ms=NOW_MS)
        with pytest.raises(InvalidRecord):
            checks.check_long(FULL, inner_poison(3000))
        checks.check(NONE, poison, now_ms=NOW_MS)

    asyncio.run(scenario())


def test_compressed_batches_are_unpacked_until_there_is_too_much_of_them() -> None:
    async def scenario() -> None:
        checks = RecordChecks(InPlace(), load=lambda: None)
        poison = memoryview(bytearray(packed(POISON["bytes after the records"], Codec.ZSTD)))
        noise = random.Random(1).randbytes(UNPACKED_BYTES + 1)
        huge = encode_batch([Record(0, NOW_MS, None, noise)], codec=Codec.LZ4)
        with pytest.raises(InvalidRecord):
            checks.check(AUTO, poison, now_ms=NOW_MS)
        assert checks.takes_long(AUTO, memoryview(huge), now_ms=NOW_MS)
        assert not checks.takes_long(AUTO, memoryview(huge), now_ms=NOW_MS)
        checks.check(AUTO, poison, now_ms=NOW_MS)
        with pytest.raises(InvalidRecord):
            checks.check(FULL, poison, now_ms=NOW_MS)
        with pytest.raises(InvalidRecord):
            checks.check(AUTO, poison, now_ms=NOW_MS + 1000)

    asyncio.run(scenario())


def test_a_count_that_lies_uses_up_nothing_of_what_plain_python_may_check() -> None:
    async def scenario() -> None:
        checks = RecordChecks(InPlace(), load=lambda: None)
        with pytest.raises(InvalidRecord, match="claims 2147483647 records"):
            checks.check(AUTO, absurd(), now_ms=NOW_MS)
        with pytest.raises(InvalidRecord):
            checks.check(AUTO, inner_poison(1000), now_ms=NOW_MS)

    asyncio.run(scenario())


def test_the_native_check_is_loaded_when_there_is_much_to_check_and_finds_all() -> None:
    async def scenario() -> None:
        checks = RecordChecks(InPlace())
        running = asyncio.create_task(checks.run())
        await asyncio.sleep(0)
        good = memoryview(bytearray(many(1000)))
        checks.check(AUTO, good, now_ms=NOW_MS)
        await asyncio.sleep(0)
        assert not running.done()
        for _ in range(PLAIN_RECORDS // 1000):
            checks.check(AUTO, good, now_ms=NOW_MS)
        await running
        assert checks.is_native
        checks.check(AUTO, good, now_ms=NOW_MS)
        for count in (10, 1000, 30_000):
            with pytest.raises(InvalidRecord):
                checks.check(AUTO, inner_poison(count), now_ms=NOW_MS)

    asyncio.run(scenario())


def test_the_kernel_is_there_in_this_environment() -> None:
    assert load_kernel() is not None
