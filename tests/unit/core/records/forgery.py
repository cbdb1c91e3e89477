"""Batches with a right checksum and wrong records, made to reach the parsers behind the checksum."""

from barnabas.core.records.batch import HEADER_SIZE, read_header, seal, write_header
from barnabas.core.records.record import Record, encode_batch
from barnabas.core.records.varint import encode_varint, encode_varlong


def forge(section: bytes, *, count: int = 1, last_offset_delta: int = 0, **fields: int) -> bytearray:
    """A batch with this records section as it is, and a right checksum, whatever the section holds."""
    batch = encode_batch([Record(0, 0, None, None)])
    header = read_header(batch)._replace(
        batch_length=HEADER_SIZE - 12 + len(section),
        record_count=count,
        last_offset_delta=last_offset_delta,
        **fields,
    )
    out = bytearray(HEADER_SIZE) + section
    write_header(out, 0, header)
    seal(out, 0, len(out))
    return out


def body(
    *,
    timestamp_delta: int = 0,
    offset_delta: int = 0,
    key: bytes = b"\x01",
    value: bytes = b"\x01",
    headers: bytes = b"\x00",
    attributes: bytes = b"\x00",
) -> bytes:
    """One record without its length; key, value and headers as they are on the wire."""
    return attributes + encode_varlong(timestamp_delta) + encode_varint(offset_delta) + key + value + headers


def sized(record: bytes, *, off_by: int = 0) -> bytes:
    return encode_varint(len(record) + off_by) + record


# Every lie that the bytes of a records section can tell, each told alone. Both decoders are
# held to this list.
LIES: dict[str, bytearray] = {
    "length beyond the batch": forge(sized(body(), off_by=1)),
    "length too short": forge(sized(body(), off_by=-1)),
    "length negative": forge(encode_varint(-1) + body()),
    "length over-long": forge(b"\x80" * 5 + body()),
    "length huge": forge(encode_varint(2**31 - 1) + body()),
    "no bytes at all": forge(b""),
    "count larger than the bytes": forge(sized(body()), count=2),
    "count absurd": forge(sized(body()), count=2**31 - 1),
    "count negative": forge(sized(body()), count=-1),
    "count too small": forge(sized(body()) * 2, last_offset_delta=1),
    "count zero with records": forge(sized(body()), count=0),
    "bytes after the records": forge(sized(body()) + b"\x00"),
    "bytes left in the record": forge(sized(body() + b"\x00")),
    "record ends within a field": forge(encode_varint(6) + body(key=b"\x04ab") + b"\x00"),
    "offset negative": forge(sized(body(offset_delta=-1))),
    "offset repeated": forge(sized(body()) * 2, count=2, last_offset_delta=5),
    "offset beyond the last": forge(sized(body(offset_delta=1))),
    "offset over-long": forge(sized(b"\x00\x00" + b"\x80" * 5 + b"\x00\x01\x01\x00")),
    "last offset delta negative": forge(sized(body()), last_offset_delta=-1),
    "last offset beyond 64 bits": forge(sized(body()), last_offset_delta=9, base_offset=2**63 - 5),
    "timestamp beyond 64 bits": forge(sized(body(timestamp_delta=1)), base_timestamp=2**63 - 1),
    "timestamp below 64 bits": forge(sized(body(timestamp_delta=-1)), base_timestamp=-(2**63)),
    "timestamp far beyond 64 bits": forge(sized(body(timestamp_delta=2**63 - 1)), base_timestamp=2**63 - 1),
    "timestamp over-long": forge(sized(b"\x00" + b"\x80" * 10 + b"\x00\x00\x01\x01\x00")),
    "timestamp of 65 bits": forge(sized(b"\x00" + b"\xff" * 9 + b"\x02\x00\x01\x01\x00")),
    "key length -2": forge(sized(body(key=encode_varint(-2)))),
    "key beyond the record": forge(sized(body(key=encode_varint(3)))),
    "key length huge": forge(sized(body(key=encode_varint(2**31 - 1)))),
    "value length -2": forge(sized(body(value=encode_varint(-2)))),
    "value beyond the record": forge(sized(body(value=encode_varint(2)))),
    "value length of 33 bits": forge(sized(body(value=b"\xff\xff\xff\xff\x10"))),
    "header count negative": forge(sized(body(headers=encode_varint(-1)))),
    "header count larger than the bytes": forge(sized(body(headers=encode_varint(2) + b"\x00\x01"))),
    "header count absurd": forge(sized(body(headers=encode_varint(2**31 - 1)))),
    "header key null": forge(sized(body(headers=encode_varint(1) + b"\x01\x01"))),
    "header key beyond the record": forge(sized(body(headers=encode_varint(1) + b"\x06\x01"))),
    "header value length -2": forge(sized(body(headers=encode_varint(1) + b"\x00\x03"))),
    "header value beyond the record": forge(sized(body(headers=encode_varint(1) + b"\x00\x02"))),
    "header value missing": forge(sized(body(headers=encode_varint(1) + b"\x02a"))),
}
