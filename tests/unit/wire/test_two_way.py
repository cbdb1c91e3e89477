"""Every message of the protocol, in every version there is, both ways, against kio's own writer and reader."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader

from barnabas.core.errors import InvalidRequest
from barnabas.wire.apis import METADATA
from barnabas.wire.errors import MalformedAnswer, UnservedVersion
from barnabas.wire.fetch_request import read_fetch
from barnabas.wire.frame import MAX_STRING_BYTES, read_request_header
from barnabas.wire.own_fields import FLUSHED_OFFSET_TAG
from barnabas.wire.reading import read_struct, read_struct_in_steps
from barnabas.wire.reading_values import Body
from barnabas.wire.requests import frame_request, read_request, write_request, write_request_in_steps
from barnabas.wire.responses import MAX_ELEMENTS, read_response, read_response_in_steps, write_response
from barnabas.wire.schemas import known_versions, request_schema
from tests.support.examples import examples
from tests.support.served import SERVED
from tests.unit.wire.kio_values import encode, entities, plain

EVERY = [(key, version) for key, name in sorted(api_key_map.items()) for version in sorted(schema_name_map[name])]
IDS = [f"{api_key_map[key]}-v{version}" for key, version in EVERY]
FEW = settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
BAD_BYTES = [b"\x00", b"\xff", b"\xff\xff\xff\xff\x0f", b"\x7f", b"\x80"]
VOTE = 52
FETCH_SNAPSHOT = 59
BROKER_HEARTBEAT = 63


def finished(steps: Any) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def head_of(schema: Any) -> bytes:
    """The header of an answer to request 7."""
    return b"\x00\x00\x00\x07" + (b"\x00" if schema.__header_schema__.__flexible__ else b"")


@pytest.mark.parametrize(("key", "version"), EVERY, ids=IDS)
def test_every_request_is_written_as_kio_writes_it_and_read_back(key: int, version: int) -> None:
    schema = load_request_schema(key, version)

    @given(entities(schema))
    @FEW
    def check(request: Any) -> None:
        values = plain(request)
        written = bytes(write_request(key, version, values))
        assert written == encode(request)
        assert bytes(finished(write_request_in_steps(key, version, values))) == written
        for read, end in (
            read_struct(schema, Body(written, max_elements=1000)),
            finished(read_struct_in_steps(schema, Body(written, max_elements=1000))),
        ):
            assert end == len(written)
            assert plain(read) == values

    check()


@pytest.mark.parametrize(("key", "version"), EVERY, ids=IDS)
def test_every_response_is_written_as_kio_writes_it_and_read_back(key: int, version: int) -> None:
    schema = load_response_schema(key, version)

    @given(entities(schema))
    @FEW
    def check(response: Any) -> None:
        values = plain(response)
        written = bytes(write_response(key, version, values))
        assert written == encode(response)
        frame = head_of(schema) + written
        assert plain(read_response(key, version, frame)) == values
        assert plain(finished(read_response_in_steps(key, version, memoryview(frame)))) == values

    check()


@pytest.mark.parametrize(("key", "version"), EVERY, ids=IDS)
def test_a_request_has_the_header_that_kio_gives_it(key: int, version: int) -> None:
    schema = load_request_schema(key, version)
    frame = frame_request(key, version, {}, correlation_id=7, client_id="c")
    header, size = entity_reader(schema.__header_schema__)(frame[4:], 0)
    assert (header.request_api_key, header.request_api_version) == (key, version)
    assert (header.correlation_id, header.client_id) == (7, "c")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4 + size :] == write_request(key, version, {})


@pytest.mark.parametrize(("key", "version"), EVERY, ids=IDS)
def test_any_damaged_answer_is_read_or_malformed(key: int, version: int) -> None:
    schema = load_response_schema(key, version)

    @given(entities(schema), st.data())
    @FEW
    def check(response: Any, data: st.DataObject) -> None:
        frame = bytearray(head_of(schema) + encode(response))
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(frame) - 1))
            frame[at : at + 1] = data.draw(st.sampled_from(BAD_BYTES))
        del frame[data.draw(st.integers(0, len(frame))) :]
        for read in (read_response, lambda *args: finished(read_response_in_steps(*args))):
            with suppress(MalformedAnswer):
                read(key, version, bytes(frame))

    check()


@pytest.mark.parametrize("frame", [b"", b"\x00", b"\x00\x00\x00\x07", b"\x00\x00\x00\x07\xff\xff\xff\xff\xff\x7f"])
def test_an_answer_without_a_whole_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        read_response(METADATA.key, 12, frame)


@pytest.mark.parametrize("count", [2**31 - 1, 2**28, 1000])
def test_an_answer_that_claims_more_than_there_is_is_malformed(count: int) -> None:
    with pytest.raises(MalformedAnswer):
        read_response(METADATA.key, 0, b"\x00\x00\x00\x07" + count.to_bytes(4, "big") + bytes(20))


def test_the_elements_of_an_answer_are_bounded() -> None:
    head = b"\x00\x00\x00\x07" + b"\x00\x00\x00\x00" + (MAX_ELEMENTS + 1).to_bytes(4, "big")
    with pytest.raises(MalformedAnswer, match="elements"):
        read_response(METADATA.key, 0, head + bytes(MAX_ELEMENTS + 1))


def test_bytes_behind_an_answer_are_passed_over() -> None:
    frame = head_of(load_response_schema(VOTE, 2)) + write_response(VOTE, 2, {})
    assert read_response(VOTE, 2, frame).topics == ()
    assert read_response(VOTE, 2, frame + b"\x00").topics == ()


def test_tagged_fields_that_nobody_knows_are_skipped_in_an_answer() -> None:
    frame = b"\x00\x00\x00\x07" + b"\x01\x05\x03abc" + write_response(VOTE, 2, {})[:-1] + b"\x01\x63\x02no"
    assert read_response(VOTE, 2, frame).error_code == 0


def test_a_struct_that_is_left_out_of_an_answer_is_all_zeros() -> None:
    partition = {"index": 3, "unaligned_records": b"records"}
    values = {"topics": [{"name": "t", "partitions": [partition]}]}
    frame = b"\x00\x00\x00\x07\x00" + write_response(FETCH_SNAPSHOT, 1, values)
    (found,) = read_response(FETCH_SNAPSHOT, 1, frame).topics[0].partitions
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (0, 0)
    assert found.unaligned_records == b"records"


def test_an_array_of_ids_may_have_the_id_that_is_all_zeros() -> None:
    written = write_request(BROKER_HEARTBEAT, 1, {"offline_log_dirs": [None]})
    read, _ = read_struct(request_schema(BROKER_HEARTBEAT, 1), Body(bytes(written), max_elements=10))
    assert read.offline_log_dirs == (None,)


def test_records_of_an_answer_are_not_copied() -> None:
    partition = {"partition_index": 0, "records": b"0123456789"}
    written = write_response(1, 13, {"responses": [{"partitions": [partition]}]})
    frame = bytearray(b"\x00\x00\x00\x07\x00" + written)
    (read,) = read_response(1, 13, frame).responses[0].partitions
    frame[frame.index(b"0")] = ord("9")
    assert read.records == b"9123456789"


@pytest.mark.parametrize("version", [11, 12])
def test_a_request_whose_text_is_too_long_is_refused(version: int) -> None:
    topic = {"topic": "t" * (MAX_STRING_BYTES + 1)}
    with pytest.raises(InvalidRequest, match="the maximum is"):
        write_request(1, version, {"topics": [topic]})


@pytest.mark.parametrize("values", [{"topics": [{"topic": None}]}, {"topics": None}])
def test_a_request_with_null_where_there_is_none_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="null"):
        write_request(1, 12, values)


def test_what_versions_there_are_is_known_without_loading_them() -> None:
    assert known_versions(VOTE) == (0, 2)
    with pytest.raises(UnservedVersion):
        known_versions(9999)


@pytest.mark.parametrize("version", [12, 16, 17, 18])
def test_a_field_of_our_own_travels_with_a_fetch(version: int) -> None:
    partitions = [{"partition": 1, "fetch_offset": 9, "flushed_offset": 7}, {"partition": 2, "fetch_offset": 9}]
    frame = frame_request(1, version, {"topics": [{"partitions": partitions}]}, correlation_id=1, client_id=None)
    data = memoryview(frame)[4:]
    header = read_request_header(data, 0, len(data), SERVED)

    by_schema = read_request(header, data, len(data)).topics[0].partitions
    by_hand = read_fetch(data, header.body_at, len(data), version).topics[0][1]

    assert [each.flushed_offset for each in by_schema] == [7, -1]
    assert [each.flushed_offset for each in by_hand] == [7, -1]


def test_those_who_do_not_know_a_field_of_our_own_skip_it() -> None:
    written = write_request(1, 17, {"topics": [{"partitions": [{"partition": 1, "flushed_offset": 7}]}]})
    tag = bytes([FLUSHED_OFFSET_TAG & 0x7F | 0x80, FLUSHED_OFFSET_TAG >> 7])
    assert tag in written
    unknown = bytes(written).replace(tag, bytes([tag[0], tag[1] + 1]))
    read, _ = read_struct(request_schema(1, 17), Body(unknown, max_elements=10))
    assert read.topics[0].partitions[0].flushed_offset == -1
