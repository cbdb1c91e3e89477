"""Produce on a whole broker: what is taken, what is refused and how, and when it is acknowledged."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

import pytest

from barnabas.core.errors import StorageError
from barnabas.core.records.batch import (
    ATTRIBUTES_AT,
    MAGIC_AT,
    Codec,
    TimestampType,
    iter_batches,
    read_header,
    seal,
)
from barnabas.core.records.control import MarkerType, encode_marker
from barnabas.core.records.record import Record, decode_batch, encode_batch
from barnabas.edge.kafka.producing import RefusedUnanswered
from barnabas.services.broker import Broker
from barnabas.services.produce import MAX_RECORD_ERRORS
from barnabas.wire.apis import METADATA, PRODUCE
from barnabas.wire.produce import MAX_PARTITIONS
from tests.unit.edge.kafka.calling import NAMED, Caller, batch, frame_of
from tests.unit.edge.kafka.support import NOW_MS, create, run

T = TypeVar("T")
DAY_MS = 86_400_000
VERSIONS = range(PRODUCE.min_version, PRODUCE.max_version + 1)


class Gate:
    """Blocking work that does not end before it is let through."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_waited_for = asyncio.Event()

    async def run(self, function: Callable[[], T]) -> T:
        self.is_waited_for.set()
        await self.is_open.wait()
        return function()


def hold_flushes(broker: Broker) -> Gate:
    gate = Gate()
    broker.logs.flusher._offload = gate
    return gate


def records_of(broker: Broker, topic: str, partition: int = 0) -> list[Record]:
    log = broker.served.get_partition(topic, partition).log
    return [record for segment in log.segments for each in segment.batches() for record in decode_batch(each.data)]


def header_of(broker: Broker, topic: str) -> Any:
    log = broker.served.get_partition(topic, 0).log
    return [each.header for segment in log.segments for each in segment.batches()][-1]


# Acknowledgements


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_answered_with_where_the_records_are(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller = Caller(broker)
        first = await caller.produced("t", batch(b"a", b"b"), version=version)
        second = await caller.produced("t", batch(b"c"), version=version, acks=1)
        assert (first.error_code.value, first.base_offset, second.base_offset) == (0, 0, 2)
        assert getattr(first, "log_start_offset", 0) == 0
        assert first.log_append_time is None
        assert [record.value for record in records_of(broker, "t")] == [b"a", b"b", b"c"]

    run(scenario)


def test_acks_all_is_answered_only_when_the_records_are_on_disk() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller, gate = Caller(broker), hold_flushes(broker)
        waiting = caller.produce("t", batch())
        pipelined = caller.produce("t", batch())
        at_once = caller.produce("t", batch(), acks=1)
        await gate.is_waited_for.wait()
        assert [call.is_answered for call in (waiting, pipelined, at_once)] == [False, False, True]
        assert broker.served.get_partition("t", 0).high_watermark == 0
        gate.is_open.set()
        assert (await waiting.read()).responses[0].partition_responses[0].base_offset == 0
        assert (await pipelined.read()).responses[0].partition_responses[0].base_offset == 1
        assert broker.served.get_partition("t", 0).high_watermark == 3

    run(scenario)


def test_acks_all_of_a_topic_that_leaves_flushing_to_the_system_waits_for_nothing() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", flush_policy="os")
        hold_flushes(broker)
        call = Caller(broker).produce("t", batch())
        assert call.is_answered

    run(scenario)


def test_acks_0_gets_no_answer() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await create(broker, "compacted", cleanup_policy="compact")
        for topic in ("t", "compacted"):
            assert await Caller(broker).produce(topic, batch(), acks=0).bytes() == b""
            assert len(records_of(broker, topic)) == 1

    run(scenario)


def test_acks_0_that_is_refused_closes_the_connection() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "compacted", cleanup_policy="compact")
        with pytest.raises(RefusedUnanswered):
            Caller(broker).produce("missing", batch(), acks=0)
        with pytest.raises(RefusedUnanswered):
            await Caller(broker).produce("compacted", batch(key=None), acks=0).bytes()

    run(scenario)


@pytest.mark.parametrize("acks", [2, -2, 32767, -32768])
def test_other_acks_are_refused(acks: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await create(broker, "compacted", cleanup_policy="compact")
        assert await Caller(broker).refusal("t", batch(), acks=acks) == 21
        assert await Caller(broker).refusal("compacted", batch(), acks=acks) == 21
        assert records_of(broker, "t") == []

    run(scenario)


def test_a_flush_that_hangs_is_answered_as_timed_out_and_heard_of_no_more() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        await create(broker, "compacted", cleanup_policy="compact")
        gate = hold_flushes(broker)
        caller = Caller(broker)
        assert await caller.refusal("t", batch(), timeout_ms=10) == 7
        assert await caller.refusal("compacted", batch(), timeout_ms=10) == 7
        assert await caller.refusal("t", batch(), timeout_ms=-5) == 7
        gate.is_open.set()
        assert await caller.refusal("t", batch()) == 0
        assert len(records_of(broker, "t")) == 3

    run(scenario)


def test_partitions_acknowledged_before_the_timeout_are_not_timed_out() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        await create(broker, "os", flush_policy="os")
        hold_flushes(broker)
        caller = Caller(broker)
        data = [{"index": 0, "records": batch()}]
        topics = [{"name": "t", "partition_data": data}, {"name": "os", "partition_data": data}]
        response = await caller.request(PRODUCE, 9, acks=-1, timeout=10, topic_data=topics).read()
        assert [topic.partition_responses[0].error_code.value for topic in response.responses] == [7, 0]

    run(scenario)


def test_a_disk_that_fails_fails_whoever_waits() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        gate = hold_flushes(broker)
        call = Caller(broker).produce("t", batch())
        await gate.is_waited_for.wait()
        broker.logs.note_failed(broker.served.get_partition("t", 0).log, StorageError("broken"))
        assert (await call.read()).responses[0].partition_responses[0].error_code.value == 56
        gate.is_open.set()

    run(scenario)


def test_a_topic_deleted_while_its_producers_wait_tells_them() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        gate = hold_flushes(broker)
        call = Caller(broker).produce("t", batch())
        await gate.is_waited_for.wait()
        await broker.topics.delete("t")
        assert (await call.read()).responses[0].partition_responses[0].error_code.value == 3
        gate.is_open.set()

    run(scenario)


def test_a_callback_that_is_called_twice_counts_once() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        gate = hold_flushes(broker)
        call = Caller(broker).produce("t", batch(), batch())
        acks = broker.served.get_partition("t", 0)._acks
        assert acks is not None
        (_, callback) = acks[0]
        callback(None)
        callback(None)
        await asyncio.sleep(0)
        assert not call.is_answered
        gate.is_open.set()
        assert len((await call.read()).responses[0].partition_responses) == 2

    run(scenario)


def test_min_insync_replicas_that_are_not_there_refuse_acks_all_only() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", min_insync_replicas="2")
        assert await Caller(broker).refusal("t", batch()) == 19
        assert await Caller(broker).refusal("t", batch(), acks=1) == 0

    run(scenario)


# Where to


def test_unknown_topics_partitions_and_ids_are_refused_each_with_its_code() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        caller = Caller(broker)
        assert await caller.refusal("missing", batch()) == 3
        for partition in (2, -1, 2**31 - 1, -(2**31)):
            assert await caller.refusal("t", batch(), partition=partition) == 3
        assert await caller.refusal("", batch(), version=13, topic_id=UUID(int=5)) == 100
        assert await caller.refusal("", batch(), version=13, topic_id=None) == 100

    run(scenario)


@pytest.mark.parametrize("name", ["", "..", "a/b", "x" * 250, "x" * 32_767, "<script>", "t\x00"])
@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_a_name_no_topic_has_is_unknown_whatever_it_looks_like(name: str, version: int) -> None:
    async def scenario(broker: Broker) -> None:
        answer = await Caller(broker).produced(name, batch(), version=version)
        assert answer.error_code.value == 3
        assert len(getattr(answer, "error_message", None) or "") <= 500

    run(scenario)


def test_a_long_name_is_not_repeated_for_each_of_many_partitions() -> None:
    async def scenario(broker: Broker) -> None:
        call = Caller(broker).produce("n" * 30_000, *[None] * 1000, version=8)
        assert len(await call.bytes()) < 1_000_000

    run(scenario)


def test_the_most_partitions_a_request_may_have_are_answered() -> None:
    async def scenario(broker: Broker) -> None:
        response = await Caller(broker).produce("missing", *[None] * MAX_PARTITIONS).read()
        assert len(response.responses[0].partition_responses) == MAX_PARTITIONS

    run(scenario)


def test_partitions_are_taken_and_refused_each_for_itself() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        response = await Caller(broker).produce("t", batch(), b"x" * 70, batch()).read()
        answers = response.responses[0].partition_responses
        assert [answer.error_code.value for answer in answers] == [0, 43, 3]
        assert [answer.base_offset for answer in answers] == [0, -1, -1]

    run(scenario)


# What


PACKED = bytes(encode_batch([Record(0, NOW_MS, b"k", b"v")], codec=Codec.ZSTD))


def patched(data: bytes, at: int, value: bytes) -> bytes:
    """A batch with other bytes, and the checksum that belongs to them."""
    out = bytearray(data)
    out[at : at + len(value)] = value
    seal(out, 0, len(out))
    return bytes(out)


GOOD = batch(b"a", b"b")
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
    "transactional": (patched(GOOD, ATTRIBUTES_AT, b"\x00\x10"), 48),
    "codec 5": (patched(GOOD, ATTRIBUTES_AT, b"\x00\x05"), 76),
    "codec 7": (patched(GOOD, ATTRIBUTES_AT, b"\x00\x07"), 76),
    "no records": (patched(GOOD, 57, struct.pack(">i", 0)), 87),
    "compressed, with more records than it can hold": (
        patched(patched(PACKED, 23, struct.pack(">i", 2**31 - 2)), 57, struct.pack(">i", 2**31 - 1)),
        87,
    ),
    "billions of records": (
        patched(patched(GOOD, 57, struct.pack(">i", 2**31 - 1)), 23, struct.pack(">i", 2**31 - 2)),
        2,
    ),
    "negative records": (patched(GOOD, 57, struct.pack(">i", -1)), 87),
    "offset delta": (patched(GOOD, 23, struct.pack(">i", 5)), 87),
    "negative offset delta": (patched(GOOD, 23, struct.pack(">i", -1)), 87),
    "a producer without a sequence": (patched(GOOD, 43, struct.pack(">q", 5)), 87),
    "a negative producer": (patched(GOOD, 43, struct.pack(">qhi", -7, 0, 0)), 87),
}


@pytest.mark.parametrize("settings", [{}, {"cleanup_policy": "compact"}, {"compression_type": "zstd"}], ids=str)
@pytest.mark.parametrize(("records", "code"), BAD.values(), ids=BAD)
def test_bad_batches_are_refused_and_leave_no_trace(records: bytes | None, code: int, settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        if settings and records == BAD["no records"][0]:
            assert await Caller(broker).refusal("t", records) == 2  # found when it was opened
            return
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


@pytest.mark.parametrize("settings", [{}, {"cleanup_policy": "compact"}], ids=str)
def test_timestamps_too_far_ahead_are_refused(settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", message_timestamp_after_max_ms="1000", **settings)
        caller = Caller(broker)
        assert await caller.refusal("t", batch(timestamp=NOW_MS + 1001)) == 32
        assert await caller.refusal("t", batch(timestamp=2**63 - 1)) == 32
        assert await caller.refusal("t", batch(timestamp=NOW_MS + 1000)) == 0
        assert await caller.refusal("t", batch(timestamp=-1)) == 0

    run(scenario)


def test_timestamps_too_old_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", message_timestamp_before_max_ms="1000")
        caller = Caller(broker)
        assert await caller.refusal("t", batch(timestamp=NOW_MS - 1001)) == 32
        assert await caller.refusal("t", batch(timestamp=0)) == 32
        assert await caller.refusal("t", batch(timestamp=NOW_MS - 1000)) == 0
        assert await caller.refusal("t", batch(timestamp=-1)) == 0

    run(scenario)


def test_log_append_time_replaces_any_timestamp_and_is_told() -> None:
    async def scenario(broker: Broker) -> None:
        await create(
            broker,
            "t",
            message_timestamp_type="LogAppendTime",
            message_timestamp_before_max_ms="1",
            message_timestamp_after_max_ms="1",
        )
        for timestamp in (5, NOW_MS + 10 * DAY_MS):
            answer = await Caller(broker).produced("t", batch(timestamp=timestamp))
            assert answer.error_code.value == 0
            assert round(answer.log_append_time.timestamp() * 1000) == NOW_MS
        assert {record.timestamp for record in records_of(broker, "t")} == {NOW_MS}
        assert header_of(broker, "t").timestamp_type is TimestampType.LOG_APPEND_TIME

    run(scenario)


CODECS = {"uncompressed": Codec.NONE, **{codec.name.lower(): codec for codec in Codec if codec}}


@pytest.mark.parametrize("settings", [{}, {"cleanup_policy": "compact"}], ids=str)
@pytest.mark.parametrize("setting", [*CODECS, "producer"])
@pytest.mark.parametrize("codec", Codec)
def test_batches_get_the_codec_of_their_topic(codec: Codec, setting: str, settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", compression_type=setting, **settings)
        caller = Caller(broker)
        values = [b"x" * 500, b"y" * 500]
        assert await caller.refusal("t", batch(b"first")) == 0
        assert (
            await caller.refusal("t", batch(*values, codec=codec, producer_id=9, producer_epoch=0, base_sequence=0))
            == 0
        )
        header = header_of(broker, "t")
        assert header.codec is CODECS.get(setting, codec)
        assert (header.producer_id, header.base_sequence, header.base_offset) == (9, 0, 1)
        records = records_of(broker, "t")
        assert [record.value for record in records] == [b"first", *values]
        assert {record.timestamp for record in records} == {NOW_MS}
        fetched = await caller.fetched(("t", 0, 1))
        assert [each.codec for _, each in iter_batches(fetched.records)] == [CODECS.get(setting, codec)]

    run(scenario)


def test_what_cannot_be_unpacked_is_corrupt() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", compression_type="lz4")
        await create(broker, "compacted", cleanup_policy="compact")
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.ZSTD):
            bad = patched(batch(b"x" * 100, codec=codec), 61, b"\xff\xff\xff\xff")
            assert await Caller(broker).refusal("t", bad) == 2
            assert await Caller(broker).refusal("compacted", bad) == 2

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


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("settings", [{"cleanup_policy": "compact"}, {"compression_type": "snappy"}], ids=str)
def test_a_batch_that_unpacks_to_far_more_than_it_is_is_refused(codec: Codec, settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        assert await Caller(broker).refusal("t", batch(bytes(40_000_000), codec=codec)) == 10

    run(scenario)


def test_snappy_that_claims_more_than_it_can_hold_is_corrupt() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", cleanup_policy="compact")
        claim = patched(batch(b"x" * 100, codec=Codec.SNAPPY), 61, b"\xff\xff\xff\x7f")
        assert await Caller(broker).refusal("t", claim) == 2

    run(scenario)


# Semantics


def test_delivery_semantics_refuse_what_is_weaker() -> None:
    idempotent: dict[str, Any] = {"producer_id": 4, "producer_epoch": 0, "base_sequence": 0}

    async def scenario(broker: Broker) -> None:
        for name in ("at-most-once", "at-least-once", "exactly-once"):
            await create(broker, name, delivery_semantics=name)
        caller = Caller(broker)
        assert await caller.refusal("at-most-once", batch(), acks=1) == 0
        assert await caller.refusal("at-least-once", batch(), acks=1) == 44
        assert await caller.refusal("at-least-once", batch()) == 0
        assert await caller.refusal("exactly-once", batch()) == 44
        assert await caller.refusal("exactly-once", batch(**idempotent), acks=1) == 44
        assert await caller.refusal("exactly-once", batch(**idempotent)) == 0
        with pytest.raises(RefusedUnanswered):
            caller.produce("at-least-once", batch(), acks=0)

    run(scenario)


def idempotent(sequence: int, *values: bytes, producer_epoch: int = 0) -> bytes:
    return batch(*values, producer_id=7, producer_epoch=producer_epoch, base_sequence=sequence)


@pytest.mark.parametrize("settings", [{}, {"cleanup_policy": "compact"}], ids=str)
def test_a_retry_is_answered_with_where_the_records_are_and_not_written_again(settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        caller = Caller(broker)
        assert (await caller.produced("t", idempotent(0, b"a", b"b"))).base_offset == 0
        assert (await caller.produced("t", idempotent(2, b"c"))).base_offset == 2
        assert (await caller.produced("t", idempotent(0, b"a", b"b"))).base_offset == 0
        assert (await caller.produced("t", idempotent(2, b"c"), acks=1)).base_offset == 2
        assert len(records_of(broker, "t")) == 3

    run(scenario)


def test_a_retry_of_what_is_not_on_disk_yet_waits_for_that() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller, gate = Caller(broker), hold_flushes(broker)
        calls = [caller.produce("t", idempotent(n)) for n in range(3)]
        retry = caller.produce("t", idempotent(1))
        await gate.is_waited_for.wait()
        assert not retry.is_answered
        gate.is_open.set()
        assert (await retry.read()).responses[0].partition_responses[0].base_offset == 1
        assert [(await call.read()).responses[0].partition_responses[0].base_offset for call in calls] == [0, 1, 2]

    run(scenario)


def test_gaps_old_retries_and_old_epochs_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller = Caller(broker)
        for sequence in range(8):
            assert await caller.refusal("t", idempotent(sequence)) == 0
        assert await caller.refusal("t", idempotent(9)) == 45
        assert await caller.refusal("t", idempotent(0)) == 46
        assert await caller.refusal("t", idempotent(5, producer_epoch=1)) == 45
        assert await caller.refusal("t", idempotent(0, producer_epoch=1)) == 0
        assert await caller.refusal("t", idempotent(8)) == 47

    run(scenario)


def test_a_frame_with_markup_in_its_client_id_is_as_any_other() -> None:
    async def scenario(broker: Broker) -> None:
        body = b"\xff\xff\xff\xff"
        for client_id in (b"<script>alert(1)</script>", b"'; drop table", b"../../etc/passwd", b"%s%n\r\n", b""):
            response = await Caller(broker).send(frame_of(METADATA, 1, body, client_id)).read()
            assert response.topics == ()

    run(scenario)


def test_no_partition_keeps_waiters_when_all_is_answered() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        for _ in range(5):
            assert await Caller(broker).refusal("t", batch(), version=NAMED) == 0
        assert not broker.served.get_partition("t", 0)._acks

    run(scenario)


def test_the_bytes_written_are_those_that_were_sent_but_for_their_place() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        assert await Caller(broker).refusal("t", GOOD) == 0
        fetched = await Caller(broker).fetched(("t", 0, 0))
        assert fetched.records[16:] == GOOD[16:]
        assert read_header(fetched.records).leader_epoch == 0

    run(scenario)


@pytest.mark.parametrize("acks", [1, -1])
def test_a_client_may_not_write_to_the_topic_of_groups(acks: int) -> None:
    async def scenario(broker: Broker) -> None:
        await broker.groups.create_topic()
        answer = await Caller(broker).produced("__consumer_offsets", batch(b"a"), acks=acks)
        assert answer.error_code.value == 17
        assert not broker.served.get_partition("__consumer_offsets", 0).has_log

    run(scenario)
