"""Every response we can be asked for, in every version, against kio's own writer and reader."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema

from barnabas.wire.apis import APIS, Api
from barnabas.wire.frame import MAX_STRING_BYTES
from barnabas.wire.responses import write_response
from tests.support.examples import examples
from tests.unit.wire.kio_values import API_VERSIONS, IDS, decode_response, encode, plain, responses


@pytest.mark.parametrize(("api", "version"), API_VERSIONS, ids=IDS)
def test_every_response_is_written_as_kio_writes_it(api: Api, version: int) -> None:
    @given(responses(api, version))
    @settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
    def check(response: Any) -> None:
        written = bytes(write_response(api.key, version, plain(response)))
        assert written == encode(response)
        assert decode_response(api, version, written) == response

    check()


@pytest.mark.parametrize(("api", "version"), API_VERSIONS, ids=IDS)
def test_what_a_handler_leaves_out_is_written_so_that_it_can_be_read(api: Api, version: int) -> None:
    decode_response(api, version, bytes(write_response(api.key, version, {})))


@given(st.integers(0, 3), st.integers(0, 2**15))
def test_a_message_longer_than_its_format_holds_is_cut_at_a_character(bytes_over: int, start: int) -> None:
    api = APIS[19]
    message = "ä" * start + "x" * (MAX_STRING_BYTES - 2 * start + bytes_over if 2 * start < MAX_STRING_BYTES else 0)
    topic = {"name": "t", "error_code": 17, "error_message": message}
    written = bytes(write_response(api.key, 2, {"throttle_time": 0, "topics": [topic]}))
    read = decode_response(api, 2, written).topics[0].error_message
    assert message.startswith(read)
    assert MAX_STRING_BYTES - 1 <= len(read.encode()) <= MAX_STRING_BYTES or read == message


def test_fields_of_other_versions_are_left_out() -> None:
    written = bytes(write_response(3, 0, {"throttle_time": 5, "cluster_id": "c", "brokers": (), "topics": ()}))
    assert decode_response(APIS[3], 0, written) == load_response_schema(3, 0)(brokers=(), topics=())  # type: ignore[call-arg]


@pytest.mark.parametrize("version", [1, 3])
def test_null_where_there_is_none_is_written_as_empty(version: int) -> None:
    api = APIS[20]
    written = bytes(write_response(api.key, version, {"responses": [{"name": None, "error_code": 42}]}))
    assert decode_response(api, version, written).responses[0].name == ""
    assert decode_response(api, version, bytes(write_response(api.key, version, {"responses": None}))).responses == ()
