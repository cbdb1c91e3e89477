"""Request headers and the varints in them: what is taken, and every way in which bytes are not a header."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.apis import API_VERSIONS, FETCH, METADATA, PRODUCE, Api
from barnabas.wire.errors import MalformedRequest, UnservedVersion
from barnabas.wire.frame import (
    MAX_STRING_BYTES,
    MAX_TAGGED_FIELDS,
    HeaderReader,
    RequestHeader,
    answer_head,
    cut_string,
    read_request_header,
    read_uvarint,
    skip_tagged_fields,
    write_uvarint,
)
from tests.support.served import SERVED, SERVED_APIS, versions_of


def header(key: int, version: int, *, client_id: bytes | None = b"c", tags: bytes = b"") -> bytes:
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, 7, size) + (client_id or b"") + tags


def read_header(data: bytes, position: int, end: int) -> RequestHeader:
    return read_request_header(memoryview(data), position, end, SERVED)


def test_a_header_says_who_asks_for_what_and_where_the_body_begins() -> None:
    data = b"??" + header(FETCH.key, 11) + b"body"
    assert read_header(data, 2, len(data)) == (FETCH, 11, 7, "c", len(data) - 4)


def test_a_flexible_header_ends_with_tagged_fields() -> None:
    data = header(FETCH.key, 12, tags=b"\x02\x00\x01x\x05\x00") + b"body"
    assert read_header(data, 0, len(data)).body_at == len(data) - 4


@pytest.mark.parametrize("client_id", [None, b"", "häst".encode()])
def test_a_client_id_may_be_null_empty_or_any_text(client_id: bytes | None) -> None:
    data = header(METADATA.key, 1, client_id=client_id)
    assert read_header(data, 0, len(data)).client_id == (None if client_id is None else client_id.decode())


@pytest.mark.parametrize("version", [-1, 5, 32767, -32768])
def test_an_unknown_version_of_api_versions_is_let_through_whatever_follows(version: int) -> None:
    data = header(API_VERSIONS.key, version, client_id=b"\xff")
    read = read_header(data, 0, len(data))
    assert (read.api, read.version, read.body_at) == (API_VERSIONS, version, len(data))
    assert answer_head(read, 3) == struct.pack(">ii", 7, 7)


@pytest.mark.parametrize("api", SERVED_APIS, ids=lambda api: api.name)
def test_versions_just_outside_of_those_served_are_refused(api: Api) -> None:
    for version in (versions_of(api)[0] - 1, versions_of(api)[-1] + 1):
        if api is not API_VERSIONS:
            with pytest.raises(UnservedVersion):
                read_header(header(api.key, version), 0, 11)


@pytest.mark.parametrize("key", [-1, 4, 999, 32767, -32768])
def test_an_api_that_is_not_served_is_refused(key: int) -> None:
    with pytest.raises(UnservedVersion):
        read_header(header(key, 0), 0, 11)


def test_every_truncation_of_a_header_is_malformed() -> None:
    whole = header(FETCH.key, 12, client_id=b"client", tags=b"\x01\x00\x03abc")
    for end in range(len(whole)):
        with pytest.raises(MalformedRequest):
            read_header(whole, 0, end)


@pytest.mark.parametrize("size", [2, 100, 32767])
def test_a_client_id_longer_than_its_request_is_malformed(size: int) -> None:
    data = struct.pack(">hhih", METADATA.key, 1, 0, size) + b"c"
    with pytest.raises(MalformedRequest):
        read_header(data, 0, len(data))


def test_a_client_id_that_is_no_text_is_malformed() -> None:
    data = header(METADATA.key, 1, client_id=b"\xff\xfe")
    with pytest.raises(MalformedRequest):
        read_header(data, 0, len(data))


def test_more_tagged_fields_than_anybody_sends_are_refused_before_they_are_counted() -> None:
    most = write_uvarint(MAX_TAGGED_FIELDS) + b"\x00\x00" * MAX_TAGGED_FIELDS
    assert skip_tagged_fields(most, 0, len(most)) == len(most)
    for count in (MAX_TAGGED_FIELDS + 1, 10_000_000, 2**32 - 1):
        data = write_uvarint(count) + b"\x00\x00" * 1000
        with pytest.raises(MalformedRequest):
            skip_tagged_fields(data, 0, len(data))


def test_a_tagged_field_larger_than_its_request_is_malformed() -> None:
    data = b"\x01\x00\xff\xff\xff\xff\x0f"
    with pytest.raises(MalformedRequest):
        skip_tagged_fields(data, 0, len(data))


@given(st.integers(0, 2**32 - 1))
def test_varints_are_read_as_they_were_written(value: int) -> None:
    written = write_uvarint(value)
    assert read_uvarint(written, 0, len(written)) == (value, len(written))
    for end in range(len(written)):
        with pytest.raises(MalformedRequest):
            read_uvarint(written, 0, end)


@pytest.mark.parametrize("data", [b"\x80" * 5 + b"\x00", b"\xff" * 10, b"\xff\xff\xff\xff\x10", b"\x80" * 100])
def test_varints_that_are_too_long_or_too_large_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_uvarint(data, 0, len(data))


def test_an_answers_head_counts_what_comes_after_it() -> None:
    old = read_header(header(PRODUCE.key, 8), 0, 11)
    assert answer_head(old, 10) == struct.pack(">ii", 14, 7)
    flexible = read_header(header(PRODUCE.key, 9, tags=b"\x00"), 0, 12)
    assert answer_head(flexible, 10) == struct.pack(">iib", 15, 7, 0)
    versions = read_header(header(API_VERSIONS.key, 4, tags=b"\x00"), 0, 12)
    assert answer_head(versions, 10) == struct.pack(">ii", 14, 7)


@given(st.text(st.characters(codec="utf-8")))
def test_a_text_that_fits_is_not_cut(text: str) -> None:
    assert cut_string(text) == text.encode()
    assert len(cut_string(text * 40_000)) <= MAX_STRING_BYTES


def test_a_connection_reads_every_header_as_if_it_were_its_first() -> None:
    frames = [
        header(PRODUCE.key, 7) + b"body",
        header(PRODUCE.key, 7)[:4] + struct.pack(">i", 8) + header(PRODUCE.key, 7)[8:] + b"other",
        header(PRODUCE.key, 7),
        header(PRODUCE.key, 7, client_id=b"d") + b"body",
        header(PRODUCE.key, 7, client_id=b"long"),
        header(PRODUCE.key, 8, client_id=b"long"),
        header(PRODUCE.key, 9, client_id=None, tags=b"\x01\x00\x01x"),
        header(PRODUCE.key, 9, client_id=None, tags=b"\x00") + b"body",
        header(API_VERSIONS.key, 99) + b"body",
        header(API_VERSIONS.key, 99) + b"longer body",
        header(METADATA.key, 1, client_id=b"n" * 300),
        header(METADATA.key, 1, client_id=b"n" * 300),
    ]
    headers = HeaderReader(SERVED)
    for frame in [each for each in frames for _ in range(3)]:
        headers.read(memoryview(frame), len(frame))
        assert headers.header() == read_header(frame, 0, len(frame))


def test_of_a_header_like_the_last_one_only_the_correlation_id_is_read() -> None:
    headers, frame = HeaderReader(SERVED), bytearray(header(PRODUCE.key, 7))
    for _ in range(2):
        assert headers.read(memoryview(frame), len(frame))
    struct.pack_into(">i", frame, 4, 8)
    assert not headers.read(memoryview(frame), len(frame))
    assert headers.correlation_id == 8


def test_a_header_that_is_cut_short_after_another_is_refused() -> None:
    headers, frame = HeaderReader(SERVED), header(PRODUCE.key, 7, client_id=b"name")
    for _ in range(3):
        headers.read(memoryview(frame), len(frame))
    with pytest.raises(MalformedRequest):
        headers.read(memoryview(frame)[:-1], len(frame) - 1)


@given(st.binary(max_size=30))
def test_any_bytes_are_a_header_or_a_refusal(data: bytes) -> None:
    try:
        read = read_header(data, 0, len(data))
    except (MalformedRequest, UnservedVersion):
        return
    assert 0 <= read.body_at <= len(data)
