"""Arrow columns to batches: byte for byte what `encode_batch` makes of the same records."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.partitioning import partition_for_key
from barnabas.core.records import encode_kernels
from barnabas.core.records.arrow_encoding import (
    BatchBuilder,
    EncodedBatch,
    RowColumns,
    bytes_column,
    headers_column,
    null_column,
)
from barnabas.core.records.batch import HEADER_SIZE, Codec
from barnabas.core.records.record import Record, decode_batch, encode_batch
from tests.unit.core.records.strategies import codecs, nullable_bytes

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
PRODUCER: dict[str, Any] = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 11}

timestamps = st.integers(0, 2**62) | st.integers(1_700_000_000_000, 1_700_000_100_000)
headers = st.none() | st.lists(st.tuples(st.text(max_size=5), nullable_bytes), max_size=3)
rows = st.tuples(nullable_bytes, nullable_bytes, timestamps, headers)


def columns_of(given_rows: list[Any], *, large: bool = False, before: int = 0) -> RowColumns:
    """Rows as columns; `before` rows are sliced off first."""
    padded = [(b"xx", b"yyy", 5, [("h", b"z")])] * before + given_rows
    kind = pa.large_binary() if large else pa.binary()
    as_dicts = [None if r[3] is None else [{"key": k, "value": v} for k, v in r[3]] for r in padded]
    return RowColumns(
        bytes_column(pa.array([r[0] for r in padded], kind)[before:]),
        bytes_column(pa.array([r[1] for r in padded], kind)[before:]),
        np.array([r[2] for r in given_rows], np.int64),
        headers_column(pa.array(as_dicts, HEADERS)[before:]),
    )


def encode_all(columns: RowColumns, limit: int, codec: Codec = Codec.NONE) -> list[EncodedBatch]:
    builder, batches = BatchBuilder(limit), []
    numbers, first = np.arange(len(columns.timestamps_ms)), 0
    while first < len(numbers):
        taken = builder.add(columns, numbers, first)
        first += taken
        if first < len(numbers):
            batches.append(builder.take(codec))
    if builder.record_count:
        batches.append(builder.take(codec))
    for batch in batches:
        batch.stamp(7, 3, 11, is_transactional=True)
    return batches


def records_of(given_rows: list[Any]) -> list[Record]:
    return [Record(n, r[2], r[0], r[1], tuple(r[3] or ())) for n, r in enumerate(given_rows)]


@given(st.lists(rows, min_size=1, max_size=8), codecs, st.booleans(), st.integers(0, 2))
def test_a_batch_is_what_the_plain_encoder_makes(given_rows: list[Any], codec: Codec, large: bool, before: int) -> None:
    (batch,) = encode_all(columns_of(given_rows, large=large, before=before), 1 << 20, codec)

    expected = encode_batch(records_of(given_rows), codec=codec, is_transactional=True, **PRODUCER)
    assert bytes(batch.buffer) == bytes(expected)
    assert batch.record_count == len(given_rows)


@given(st.lists(rows, min_size=1, max_size=30), st.integers(0, 400))
def test_batches_end_at_the_limit_and_lose_nothing(given_rows: list[Any], limit: int) -> None:
    batches = encode_all(columns_of(given_rows), limit)

    found = [record for batch in batches for record in decode_batch(batch.buffer)]
    assert [(r.key, r.value, r.timestamp, list(r.headers)) for r in found] == [
        (r[0], r[1], r[2], r[3] or []) for r in given_rows
    ]
    for batch in batches:
        assert len(batch.buffer) <= limit or batch.record_count == 1


def test_a_batch_is_as_full_as_it_may_be() -> None:
    given_rows: list[Any] = [(None, b"v" * 90, 1, None)] * 1000
    size = len(encode_batch(records_of(given_rows[:1]))) - HEADER_SIZE

    batches = encode_all(columns_of(given_rows), HEADER_SIZE + 10 * size)

    assert [batch.record_count for batch in batches] == [10] * 100


def test_a_record_larger_than_the_limit_is_alone() -> None:
    given_rows: list[Any] = [(b"k", b"v" * n, 1, None) for n in (10, 50_000, 10)]

    batches = encode_all(columns_of(given_rows), 1000)

    assert [batch.record_count for batch in batches] == [1, 1, 1]


def test_rows_without_keys_and_headers() -> None:
    columns = RowColumns(null_column(2), bytes_column(pa.array(["a", "ü"])), np.array([5, 6], np.int64))

    (batch,) = encode_all(columns, 1000)

    assert [(r.key, r.value, r.headers) for r in decode_batch(batch.buffer)] == [
        (None, b"a", ()),
        (None, "ü".encode(), ()),
    ]


def test_rows_are_taken_in_the_order_given() -> None:
    columns = columns_of([(None, b"%d" % n, n, None) for n in range(5)])
    builder = BatchBuilder(1000)

    builder.add(columns, np.array([4, 1, 3]), 1)
    batch = builder.take()
    batch.stamp(-1, -1, -1, is_transactional=False)

    assert [r.value for r in decode_batch(batch.buffer)] == [b"1", b"3"]
    assert (batch.base_timestamp, batch.max_timestamp) == (1, 3)


@given(st.lists(nullable_bytes, min_size=1, max_size=20), st.integers(1, 50))
def test_keys_go_where_every_client_puts_them(keys: list[bytes | None], count: int) -> None:
    out = np.full(len(keys), -1, np.int32)

    encode_kernels.assign_partitions(*bytes_column(pa.array(keys, pa.binary())), count - 1, count, out)

    assert out.tolist() == [count - 1 if key is None else partition_for_key(key, count) for key in keys]


def test_a_partition_that_was_chosen_stays() -> None:
    out = np.array([3, -1], np.int32)

    encode_kernels.assign_partitions(*bytes_column(pa.array([b"a", b"a"])), 0, 2, out)

    assert out.tolist() == [3, partition_for_key(b"a", 2)]


@given(st.lists(st.integers(0, 6), max_size=40))
def test_rows_are_grouped_by_partition_in_their_order(partitions: list[int]) -> None:
    ends, order = np.empty(7, np.int64), np.empty(len(partitions), np.int64)

    encode_kernels.group_rows(np.array(partitions, np.int32), ends, order)

    expected = sorted(range(len(partitions)), key=lambda row: partitions[row])
    assert order.tolist() == expected
    assert ends.tolist() == [sum(each <= limit for each in partitions) for limit in range(7)]


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_string()])
def test_an_empty_column(kind: Any) -> None:
    assert len(bytes_column(pa.array([], kind)).lengths) == 0
