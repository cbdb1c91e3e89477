"""Requests read by their schemas, against what kio wrote; and every claim that its bytes do not bear out."""

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.testing.wire_client import LENGTH_SIZE, encode_request
from barnabas.wire.apis import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    SYNC_GROUP,
    Api,
)
from barnabas.wire.errors import MalformedRequest
from barnabas.wire.frame import RequestHeader, read_request_header, write_uvarint
from barnabas.wire.requests import MAX_ELEMENTS, read_request, read_request_in_steps
from tests.support.examples import examples
from tests.support.served import SERVED, SERVED_APIS
from tests.unit.wire.kio_values import API_VERSIONS, IDS, encode, plain, requests

FEW = settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])

BAD_BYTES = [b"\x00", b"\xff", b"\xff\xff\xff\xff\x0f", b"\x7f", b"\x80"]


def read(api: Api, version: int, body: bytes) -> Any:
    return read_request(RequestHeader(api, version, 0, None, 0), memoryview(body), len(body))


def in_steps(api: Api, version: int, body: bytes) -> Any:
    steps = read_request_in_steps(RequestHeader(api, version, 0, None, 0), memoryview(body), len(body))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize(("api", "version"), API_VERSIONS, ids=IDS)
def test_every_request_is_read_as_kio_wrote_it(api: Api, version: int) -> None:
    @given(requests(api, version), st.binary(max_size=3))
    @FEW
    def check(entity: Any, after: bytes) -> None:
        body = encode(entity)
        assert plain(read(api, version, body + after)) == plain(entity)
        assert plain(in_steps(api, version, body)) == plain(entity)

    check()


def test_few_elements_of_many_bytes_are_read_in_many_steps() -> None:
    assignments = [{"member_id": str(n), "assignment": bytes(500_000)} for n in range(20)]
    values = {"group_id": "g", "generation_id": 1, "member_id": "m", "assignments": assignments}
    whole = encode_request(SYNC_GROUP, 5, {**values, "protocol_type": "t", "protocol_name": "p"})
    frame = memoryview(whole)[LENGTH_SIZE:]
    steps = read_request_in_steps(read_request_header(frame, 0, len(frame), SERVED), frame, len(frame))
    assert sum(1 for _ in steps) >= 20


@pytest.mark.parametrize(("api", "version"), API_VERSIONS, ids=IDS)
def test_every_truncation_is_malformed_and_nothing_else(api: Api, version: int) -> None:
    @given(requests(api, version))
    @settings(max_examples=examples(8), suppress_health_check=[HealthCheck.too_slow])
    def check(entity: Any) -> None:
        body = encode(entity)
        for end in range(len(body)):
            with pytest.raises(MalformedRequest):
                read(api, version, body[:end])

    check()


@pytest.mark.parametrize(("api", "version"), API_VERSIONS, ids=IDS)
def test_any_changed_byte_is_read_or_malformed(api: Api, version: int) -> None:
    @given(requests(api, version), st.data())
    @FEW
    def check(entity: Any, data: st.DataObject) -> None:
        body = bytearray(encode(entity))
        for _ in range(data.draw(st.integers(1, 4)) if body else 0):
            at = data.draw(st.integers(0, len(body) - 1))
            body[at : at + 1] = data.draw(st.sampled_from(BAD_BYTES))
        with suppress(MalformedRequest):
            read(api, version, bytes(body))

    check()


@pytest.mark.parametrize("count", [2**32 - 1, 2**31, 2**28, 1000])
def test_an_array_that_claims_more_than_there_is_is_malformed(count: int) -> None:
    with pytest.raises(MalformedRequest):
        read(METADATA, 9, write_uvarint(count) + b"\x00" * 20)
    with pytest.raises(MalformedRequest):
        read(METADATA, 1, min(count, 2**31 - 1).to_bytes(4, "big") + b"\x00" * 20)


def test_the_elements_of_a_request_are_bounded() -> None:
    names = b"\x00\x00" * MAX_ELEMENTS
    assert len(read(METADATA, 1, MAX_ELEMENTS.to_bytes(4, "big") + names).topics) == MAX_ELEMENTS
    with pytest.raises(MalformedRequest):
        read(METADATA, 1, (MAX_ELEMENTS + 1).to_bytes(4, "big") + names + b"\x00\x00")


def test_the_elements_of_nested_arrays_count_together() -> None:
    topic = b"\x00\x00" + (0).to_bytes(4, "big") + b"\x00\x01" + (1000).to_bytes(4, "big")
    topic += (b"\x00\x00\x00\x00" + (0).to_bytes(4, "big")) * 1000 + (0).to_bytes(4, "big")
    body = (200).to_bytes(4, "big") + topic * 200 + b"\x00" * 5
    with pytest.raises(MalformedRequest, match="elements"):
        read(CREATE_TOPICS, 2, body)


def test_tagged_fields_that_nobody_knows_are_ignored() -> None:
    body = b"\x01\x00\x00\x00" + b"\x02\x05\x03abc\x63\x00"
    assert read(METADATA, 9, body) == read(METADATA, 9, b"\x01\x00\x00\x00\x00")


@pytest.mark.parametrize("read_it", [read, in_steps])
def test_a_row_of_numbers_may_have_tagged_fields_that_nobody_knows(read_it: Callable[[Api, int, bytes], Any]) -> None:
    numbers = [struct.pack(">iiq", partition, -1, -2) for partition in range(3)]
    partitions = b"\x04" + numbers[0] + b"\x00" + numbers[1] + b"\x01\x05\x03abc" + numbers[2] + b"\x00"
    body = struct.pack(">ib", -1, 0) + b"\x02" + b"\x02t" + partitions + b"\x00" + b"\x00"

    found = read_it(LIST_OFFSETS, 7, body).topics[0].partitions

    assert [(each.partition_index, each.timestamp) for each in found] == [(0, -2), (1, -2), (2, -2)]


def test_a_tagged_field_that_is_known_must_be_as_long_as_it_says() -> None:
    head = struct.pack(">iiib", 0, 0, 0, 0) + struct.pack(">ii", 0, -1) + b"\x01\x01\x01"
    state = struct.pack(">iqb", 3, 4, 0)
    assert read(FETCH, 15, head + b"\x01\x01\x0d" + state).replica_state.replica_id == 3
    for size in (b"\x0c", b"\x0e", b"\x00", b"\xff\xff\xff\xff\x0f"):
        with pytest.raises(MalformedRequest):
            read(FETCH, 15, head + b"\x01\x01" + size + state + b"\x00\x00")


def test_null_where_there_is_none_is_malformed() -> None:
    with pytest.raises(MalformedRequest, match="null"):
        read(CREATE_TOPICS, 2, b"\xff\xff\xff\xff" + b"\x00" * 5)
    with pytest.raises(MalformedRequest, match="null"):
        read(METADATA, 1, b"\x00\x00\x00\x01\xff\xff")
    with pytest.raises(MalformedRequest, match="null"):
        read(DELETE_TOPICS, 1, b"\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00")
    assert read(METADATA, 1, b"\xff\xff\xff\xff").topics is None


def test_a_text_that_is_none_is_malformed() -> None:
    with pytest.raises(MalformedRequest):
        read(METADATA, 1, b"\x00\x00\x00\x01\x00\x02\xff\xfe")


def test_ten_million_tagged_fields_are_refused_by_their_count() -> None:
    body = b"\x00\x00\x00\x00" + write_uvarint(10_000_000) + b"\x05\x00" * 1000
    with pytest.raises(MalformedRequest):
        read(METADATA, 9, body)


def test_all_apis_are_here() -> None:
    assert {api for api, _ in API_VERSIONS} == set(SERVED_APIS) >= {PRODUCE, FETCH}
