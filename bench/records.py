"""Records: batches to Arrow, against copying or decompressing the same bytes, and against plain Python."""

from collections.abc import Iterator

import numpy as np

from barnabas.core.records.batch import Codec, iter_batches, read_header
from barnabas.core.records.columnar import decode_arrow
from barnabas.core.records.record import decode_records, encode_batch, payload
from bench.logs import make_batch, make_records
from bench.measure import Row, compare, rate, seconds


def rows(*, quick: bool) -> Iterator[Row]:
    # About what a consumer fetches at once.
    total = (2 if quick else 8) * 1024 * 1024
    yield _columnar_row("record batches to Arrow, 100 B values", 100, Codec.NONE, total)
    yield _columnar_row("the same, 1,000 records a batch", 100, Codec.NONE, total, batch_size=116 * 1000)
    yield _columnar_row("record batches to Arrow, 1 kB values", 1000, Codec.NONE, total)
    for codec in (Codec.LZ4, Codec.ZSTD, Codec.SNAPPY, Codec.GZIP):
        name = f"record batches to Arrow, 100 B values, {codec.name.lower()}"
        yield _columnar_row(name, 100, codec, total)
    yield _against_python_row(total)
    yield _encode_row(total)


def _buffer(value_size: int, codec: Codec, total: int, batch_size: int = 16 * 1024) -> tuple[bytes, int]:
    """Batches one after the other, and how many records they have; `batch_size` is before compression."""
    batch = make_batch(batch_size, value_size=value_size)
    count = read_header(batch).record_count
    batch = encode_batch(make_records(count, value_size=value_size), codec=codec)
    copies = max(1, total // batch_size)
    return bytes(batch) * copies, count * copies


def _columnar_row(name: str, value_size: int, codec: Codec, total: int, batch_size: int = 16 * 1024) -> Row:
    buffer, count = _buffer(value_size, codec, total, batch_size)
    decode_arrow(buffer)  # compiles, or loads what was compiled
    source = np.frombuffer(buffer, np.uint8)

    def decompress() -> None:
        for position, header in iter_batches(buffer):
            payload(buffer, position, header)

    limit, limit_name = (source.copy, "copying the bytes") if codec is Codec.NONE else (decompress, "decompressing")
    found = compare(lambda: seconds(lambda: decode_arrow(buffer)), lambda: seconds(limit), amount=count, rounds=15)
    return Row(name, rate(found.ours, "rows/s"), f"{limit_name} {rate(found.limit, 'rows/s')}", found.ratio)


def _against_python_row(total: int) -> Row:
    buffer, count = _buffer(100, Codec.NONE, total)

    def plain() -> None:
        for position, header in iter_batches(buffer):
            decode_records(buffer, position, header)

    found = compare(lambda: seconds(lambda: decode_arrow(buffer)), lambda: seconds(plain), amount=count, rounds=5)
    return Row(
        "the same against plain Python",
        rate(found.ours, "rows/s"),
        f"decode_records {rate(found.limit, 'rows/s')}",
        found.ratio,
    )


def _encode_row(total: int) -> Row:
    records = make_records(max(1, total // 116))
    joined = [(record.key or b"", record.value or b"") for record in records]
    found = compare(
        lambda: seconds(lambda: encode_batch(records)),
        lambda: seconds(lambda: b"".join(part for pair in joined for part in pair)),
        amount=len(records),
    )
    return Row(
        "records to a batch, plain Python",
        rate(found.ours, "records/s"),
        f"joining keys and values {rate(found.limit, 'records/s')}",
        found.ratio,
    )
