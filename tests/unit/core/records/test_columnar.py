"""Arrow columns: the same records as `decode_batch`, only faster, and only those a consumer may see."""

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.errors import CorruptRecord, RecordTooLarge, UnsupportedRecordFormat
from barnabas.core.records.batch import Codec, TimestampType, iter_batches, read_header, seal
from barnabas.core.records.columnar import SCHEMA, decode_arrow, next_offset
from barnabas.core.records.control import MarkerType, encode_marker
from barnabas.core.records.record import Record, decode_batch, encode_batch
from tests.support.examples import examples
from tests.unit.core.records.forgery import LIES, body, forge, sized
from tests.unit.core.records.strategies import batches


def rows_by_record(buffer: bytes | bytearray) -> list[dict[str, Any]]:
    """What `decode_arrow(...).to_pylist()` should say, from the record-by-record decoder."""
    rows = []
    for position, header in iter_batches(buffer):
        rows += [
            {
                "key": record.key,
                "value": record.value,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "timestamp_type": int(header.timestamp_type),
                "headers": [{"key": as_shown(key), "value": value} for key, value in record.headers],
            }
            for record in decode_batch(buffer, position)
        ]
    return rows


def as_shown(key: str) -> str:
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """All rows with their timestamps in milliseconds: Python's datetime ends in the year 9999."""
    batch.validate(full=True)
    place = batch.schema.get_field_index("timestamp")
    plain = batch.set_column(place, "timestamp", batch.column(place).cast(pa.int64()))
    rows: list[dict[str, Any]] = plain.to_pylist()
    return rows


def offsets_of(batch: pa.RecordBatch) -> list[int]:
    offsets: list[int] = batch.column("offset").to_pylist()
    return offsets


def plain_batch(first: int, last: int, **options: Any) -> bytearray:
    return encode_batch([Record(n, n, b"k", b"v%d" % n) for n in range(first, last + 1)], **options)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(batches(), max_size=4))
def test_columns_hold_exactly_what_the_records_hold(parts: list[bytearray]) -> None:
    buffer = b"".join(parts)
    batch = decode_arrow(buffer)
    assert batch.schema.equals(SCHEMA)
    assert rows_of(batch) == rows_by_record(buffer)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(batches(), max_size=3), st.permutations(SCHEMA.names), st.integers(0, 6))
def test_any_choice_of_columns_gives_those_columns(parts: list[bytearray], names: list[str], count: int) -> None:
    buffer = b"".join(parts)
    everything = decode_arrow(buffer)
    some = decode_arrow(buffer, columns=names[:count])
    assert some.schema.names == names[:count]
    for name in names[:count]:
        assert some.column(name).equals(everything.column(name))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("per_batch", [1, 3000, 10_000])
def test_many_batches_of_any_size_make_one_table(codec: Codec, per_batch: int) -> None:
    count = 300 if per_batch == 1 else 20_000
    buffer = bytearray()
    for first in range(0, count, per_batch):
        buffer += plain_batch(first, min(first + per_batch, count) - 1, codec=codec)
    batch = decode_arrow(buffer)
    batch.validate(full=True)
    assert offsets_of(batch) == list(range(count))
    assert batch.column("value").to_pylist() == [b"v%d" % n for n in range(count)]


@pytest.mark.parametrize("buffer", [b"", bytearray(), memoryview(b"")])
def test_no_bytes_are_no_rows(buffer: bytes) -> None:
    batch = decode_arrow(buffer)
    assert batch.num_rows == 0
    assert batch.schema.equals(SCHEMA)
    assert next_offset(buffer) is None


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize(
    ("start", "end"), [(0, None), (3, None), (0, 7), (3, 7), (5, 5), (12, 31), (25, 26), (40, None)]
)
def test_only_offsets_in_range_are_given(codec: Codec, start: int, end: int | None) -> None:
    buffer = plain_batch(0, 9, codec=codec) + plain_batch(10, 19, codec=codec) + plain_batch(20, 29, codec=codec)
    batch = decode_arrow(buffer, start_offset=start, end_offset=end)
    assert offsets_of(batch) == list(range(start, 30 if end is None else min(end, 30)))
    assert batch.column("value").to_pylist() == [b"v%d" % n for n in offsets_of(batch)]


def test_a_range_keeps_each_row_with_the_timestamp_type_of_its_batch() -> None:
    buffer = plain_batch(0, 4, timestamp_type=TimestampType.LOG_APPEND_TIME) + plain_batch(5, 9)
    batch = decode_arrow(buffer, start_offset=3, end_offset=7)
    assert batch.column("timestamp_type").to_pylist() == [1, 1, 0, 0]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [4, 4, 5, 6]


def test_batches_out_of_range_are_not_even_decompressed() -> None:
    damaged = plain_batch(0, 9, codec=Codec.GZIP)
    damaged[70] ^= 0xFF
    assert offsets_of(decode_arrow(damaged + plain_batch(10, 11), start_offset=10)) == [10, 11]


def test_an_incomplete_last_batch_is_ignored_at_every_length() -> None:
    whole, last = plain_batch(0, 2), plain_batch(3, 5)
    for size in range(len(last)):
        assert offsets_of(decode_arrow(whole + last[:size])) == [0, 1, 2]
        assert next_offset(whole + last[:size]) == 3
    assert next_offset(whole + last) == 6


def test_an_incomplete_last_batch_is_corrupt_where_none_may_be() -> None:
    whole, last = plain_batch(0, 2), plain_batch(3, 5)
    assert offsets_of(decode_arrow(whole, allow_partial=False)) == [0, 1, 2]
    for size in range(1, len(last)):
        with pytest.raises(CorruptRecord):
            decode_arrow(whole + last[:size], allow_partial=False)


def test_an_old_format_is_refused_even_where_a_header_would_not_fit() -> None:
    old = bytearray(40)
    old[16] = 1
    with pytest.raises(UnsupportedRecordFormat):
        decode_arrow(old)


def marker(type_: MarkerType, producer_id: int, offset: int) -> bytearray:
    return encode_marker(
        type_, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0, base_offset=offset
    )


def transactional(producer_id: int, first: int, last: int) -> bytearray:
    return plain_batch(first, last, producer_id=producer_id, producer_epoch=0, is_transactional=True)


def test_control_batches_have_no_rows() -> None:
    buffer = transactional(1, 0, 1) + marker(MarkerType.COMMIT, 1, 2) + plain_batch(3, 3)
    assert offsets_of(decode_arrow(buffer)) == [0, 1, 3]
    assert next_offset(buffer) == 4


def test_an_aborted_transaction_is_left_out_and_its_producers_next_one_is_not() -> None:
    log = (
        transactional(1, 0, 1)  # committed
        + marker(MarkerType.COMMIT, 1, 2)
        + transactional(1, 3, 4)  # aborted
        + transactional(2, 5, 5)  # another producer's, committed
        + plain_batch(6, 6)  # no transaction
        + transactional(1, 7, 7)  # aborted with the first part
        + marker(MarkerType.ABORT, 1, 8)
        + marker(MarkerType.COMMIT, 2, 9)
        + transactional(1, 10, 10)  # committed again
        + marker(MarkerType.COMMIT, 1, 11)
    )
    assert offsets_of(decode_arrow(log)) == [0, 1, 3, 4, 5, 6, 7, 10]
    assert offsets_of(decode_arrow(log, aborted=[(1, 3)])) == [0, 1, 5, 6, 10]
    assert next_offset(log) == 12


def test_two_aborted_transactions_of_one_producer_are_both_left_out() -> None:
    log = (
        transactional(1, 0, 0)
        + marker(MarkerType.ABORT, 1, 1)
        + transactional(1, 2, 2)
        + marker(MarkerType.COMMIT, 1, 3)
        + transactional(1, 4, 4)
        + marker(MarkerType.ABORT, 1, 5)
    )
    assert offsets_of(decode_arrow(log, aborted=[(1, 4), (1, 0)])) == [2]


def test_a_plain_batch_of_a_producer_that_aborts_stays() -> None:
    log = plain_batch(0, 0, producer_id=1, producer_epoch=0) + transactional(1, 1, 1)
    assert offsets_of(decode_arrow(log, aborted=[(1, 0)])) == [0]


def test_header_keys_that_are_not_utf8_make_a_valid_column() -> None:
    keys = [b"good", b"\xff", b"caf\xc3\xa9", b"caf\xc3", b"\xff"]
    headers = tuple((key.decode("utf-8", "surrogateescape"), key) for key in keys)
    batch = decode_arrow(encode_batch([Record(0, 0, None, None, headers)]))
    batch.validate(full=True)
    shown = batch.column("headers").to_pylist()[0]
    assert [header["key"] for header in shown] == ["good", "\ufffd", "café", "caf\ufffd", "\ufffd"]
    assert [header["value"] for header in shown] == keys


def test_timestamps_are_instants_in_utc() -> None:
    batch = decode_arrow(encode_batch([Record(0, 1_700_000_000_123, None, None), Record(1, -1, None, None)]))
    assert batch.schema.field("timestamp").type == pa.timestamp("ms", "UTC")
    shown = batch.column("timestamp").cast(pa.string()).to_pylist()
    assert shown == ["2023-11-14 22:13:20.123Z", "1969-12-31 23:59:59.999Z"]


@pytest.mark.parametrize("lie", LIES)
def test_a_batch_that_lies_about_its_records_is_corrupt(lie: str) -> None:
    with pytest.raises(CorruptRecord):
        decode_arrow(LIES[lie])
    with pytest.raises(CorruptRecord):
        decode_arrow(plain_batch(0, 2) + LIES[lie], columns=["offset"])


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=40), st.integers(0, 4))
def test_both_decoders_agree_on_any_bytes(section: bytes, count: int) -> None:
    buffer = forge(section, count=count, last_offset_delta=max(count - 1, 0))
    try:
        expected = rows_by_record(buffer)
    except CorruptRecord:
        with pytest.raises(CorruptRecord):
            decode_arrow(buffer)
    else:
        assert rows_of(decode_arrow(buffer)) == expected


def test_a_wrong_checksum_is_corrupt_unless_it_is_not_asked_for() -> None:
    buffer = plain_batch(0, 2)
    buffer[17] ^= 0xFF
    with pytest.raises(CorruptRecord, match="checksum"):
        decode_arrow(buffer)
    assert decode_arrow(buffer, verify_crc=False).num_rows == 3


@pytest.mark.parametrize("codec", Codec)
def test_more_than_the_limit_is_too_large(codec: Codec) -> None:
    buffer = encode_batch([Record(0, 0, None, bytes(500_000))], codec=codec)
    assert decode_arrow(buffer * 2, max_bytes=1_001_000).num_rows == 2
    with pytest.raises(RecordTooLarge):
        decode_arrow(buffer * 2, max_bytes=999_000)


def test_a_limit_that_arrow_could_not_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="max_bytes is 2147483648"):
        decode_arrow(b"", max_bytes=2**31)


@pytest.mark.parametrize("columns", [["offset", "nonsense"], ["key", "key"], "key"])
def test_columns_that_do_not_exist_or_repeat_are_refused_with_the_names_there_are(columns: list[str]) -> None:
    with pytest.raises(ValueError, match=r"pick each at most once from \['key', 'value', 'offset'"):
        decode_arrow(b"", columns=columns)


def test_a_record_count_that_lies_reserves_no_memory() -> None:
    buffer = forge(sized(body()), count=2**31 - 1, last_offset_delta=2**31 - 1)
    with pytest.raises(CorruptRecord, match="claims 2147483647 records"):
        decode_arrow(buffer)


def test_the_rows_do_not_change_when_the_buffer_is_used_again() -> None:
    buffer = plain_batch(0, 0)
    batch = decode_arrow(buffer)
    buffer[:] = bytes(len(buffer))
    assert batch.column("value").to_pylist() == [b"v0"]


@pytest.mark.parametrize("missing", ["pyarrow", "numba"])
def test_a_missing_dependency_is_said_with_what_to_install(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None\nimport barnabas.core.records.columnar"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "pip install 'barnabas[arrow]'" in done.stderr.splitlines()[-1]


def test_the_plain_decoder_needs_neither_arrow_nor_numba() -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = sys.modules['numba'] = sys.modules['numpy'] = None\n"
        "import barnabas.core.records.control, barnabas.core.records.record"
    )
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


def test_the_header_is_resealed_by_forging() -> None:
    buffer = forge(sized(body()))
    copy = bytearray(buffer)
    seal(copy, 0, read_header(copy).size)
    assert copy == buffer
