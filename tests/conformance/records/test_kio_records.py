"""kio's record reader and writer against ours. kio knows no compression and keeps whole seconds only."""

import datetime
import io

from kio.records import readers, schema, writers
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from barnabas.core.records.batch import check_batch, read_header
from barnabas.core.records.columnar import decode_arrow
from barnabas.core.records.record import Record, decode_batch, encode_batch
from tests.conformance.records.samples import sample_records


def whole_seconds(records: list[Record]) -> list[Record]:
    return [Record(r.offset, 1000 * r.offset, r.key, r.value, r.headers) for r in records]


def as_kio(record: Record) -> schema.Record:
    return schema.Record(
        attributes=i8(0),
        timestamp=TZAwareMicros.parse(datetime.datetime.fromtimestamp(record.timestamp // 1000, datetime.UTC)),
        offset=i64(record.offset),
        key=record.key,
        value=record.value,
        headers=tuple(schema.RecordHeader(key=key.encode(), value=value) for key, value in record.headers),
    )


def test_kio_reads_what_we_write() -> None:
    records = whole_seconds(sample_records())
    encoded = bytes(encode_batch(records, producer_id=5, producer_epoch=6, base_sequence=7, leader_epoch=8))
    batch, size = readers.read_batch(encoded, 0)
    assert size == len(encoded)
    assert list(batch.records) == [as_kio(record) for record in records]
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 6, 7)
    assert (batch.partition_leader_epoch, batch.last_offset_delta) == (8, len(records) - 1)


def test_we_read_what_kio_writes() -> None:
    records = whole_seconds(sample_records())
    out = io.BytesIO()
    writers.write_new_batch(
        out,
        schema.NewRecordBatch(
            producer_id=i64(5),
            producer_epoch=i16(6),
            base_sequence=i32(7),
            attributes=i16(0),
            records=tuple(as_kio(record) for record in records),
        ),
    )
    encoded = out.getvalue()
    check_batch(encoded, 0, read_header(encoded))
    assert decode_batch(encoded) == records
    assert decode_arrow(encoded).column("value").to_pylist() == [record.value for record in records]


def test_both_write_the_same_bytes() -> None:
    records = whole_seconds(sample_records())
    out = io.BytesIO()
    writers.write_new_batch(
        out,
        schema.NewRecordBatch(
            producer_id=i64(-1),
            producer_epoch=i16(-1),
            base_sequence=i32(-1),
            attributes=i16(0),
            records=tuple(as_kio(record) for record in records),
        ),
    )
    assert encode_batch(records, leader_epoch=0) == out.getvalue()
