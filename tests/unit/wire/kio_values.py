"""Entities of kio made by hypothesis from their own fields, and as the plain values that our writers take."""

import io
from dataclasses import Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from barnabas.wire.apis import Api
from barnabas.wire.endpoints import NodeEndpoint
from barnabas.wire.own_fields import FIRST_TAG
from barnabas.wire.schema import implicit_default, take_apart
from tests.support.served import SERVED_APIS, versions_of

API_VERSIONS = [(api, version) for api in SERVED_APIS for version in versions_of(api)]
IDS = [f"{api.name}-v{version}" for api, version in API_VERSIONS]

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _ints(bits: int) -> st.SearchStrategy[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.integers(low, high) | st.sampled_from([0, -1, 1, low, high])


def _unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


_TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(["t", "", "..", "a/b"])
_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "int8": _ints(8),
    "int16": _ints(16),
    "int32": _ints(32),
    "int64": _ints(64),
    "uint8": _unsigned(8),
    "uint16": _unsigned(16),
    "uint32": _unsigned(32),
    "uint64": _unsigned(64),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "string": _TEXT,
    "bytes": st.binary(max_size=20),
    "records": st.binary(max_size=200),
    "uuid": st.builds(UUID, int=st.integers(1, 2**128 - 1)),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": _ints(32).map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": st.integers(-(10**15), 10**15).map(lambda ms: timedelta(milliseconds=ms)),
    # Whole seconds: kio reads milliseconds through a float, and is off by one now and then.
    "datetime_i64": st.integers(0, 10**10).map(lambda seconds: _EPOCH + timedelta(seconds=seconds)),
}


@cache
def entities(entity: Any, *, max_size: int = 2) -> st.SearchStrategy[Any]:
    """Entities of a kio class with any values that the format has."""
    made: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields(entity):
        inner, is_nullable, is_array = take_apart(field.type)
        is_entity = is_dataclass(inner)
        values = entities(inner, max_size=max_size) if is_entity else _KINDS[field.metadata["kafka_type"]]
        if is_array:
            values = st.lists(values, max_size=max_size).map(tuple)
        if field.metadata.get("tag") is not None:
            # A tagged field of a type that has no null cannot say it, but can be left out.
            values = st.just(implicit_default(field)) | values
        elif is_nullable:
            values = st.none() | values
        made[field.name] = values
    return st.builds(entity, **made)


def responses(api: Api, version: int) -> st.SearchStrategy[Any]:
    return entities(load_response_schema(api.key, version))


def requests(api: Api, version: int) -> st.SearchStrategy[Any]:
    return entities(load_request_schema(api.key, version))


def encode(entity: Any) -> bytes:
    """An entity as kio writes it."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def decode_response(api: Api, version: int, data: bytes) -> Any:
    """A response as kio reads it, which must be all of `data`."""
    entity, size = entity_reader(load_response_schema(api.key, version))(data, 0)
    assert size == len(data)
    return entity


def endpoints_of(entity: Any) -> list[NodeEndpoint]:
    """The endpoints of leaders that a response has."""
    found = getattr(entity, "node_endpoints", ())
    return [NodeEndpoint(each.node_id, each.host, each.port, each.rack) for each in found]


def is_of_kafka(field: "Field[Any]") -> bool:
    return bool(field.metadata.get("tag", 0) < FIRST_TAG)


def plain(value: Any) -> Any:
    """An entity, or a row of numbers, as the mapping that a handler returns; without fields that kio does not have."""
    if is_dataclass(value) or hasattr(value, "_fields"):
        names = [each.name for each in fields(value) if is_of_kafka(each)] if is_dataclass(value) else value._fields
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, ErrorCode):
        return value.value
    if isinstance(value, timedelta):
        return value // _MILLISECOND
    if isinstance(value, datetime):
        return (value - _EPOCH) // _MILLISECOND
    return bytes(value) if isinstance(value, memoryview) else value
