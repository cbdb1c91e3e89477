"""The types of requests and answers are those of the schemas, and of what is read."""

from importlib import import_module
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings

from barnabas.edge.kafka import messages
from barnabas.edge.kafka.messages.__main__ import generate, leftovers
from barnabas.wire.apis import Api
from barnabas.wire.frame import RequestHeader
from barnabas.wire.requests import read_request
from tests.support.served import HANDLERS, SERVED_APIS, versions_of
from tests.unit.wire.kio_values import encode, requests

VERSIONS = [
    pytest.param(api, version, id=f"{api.name}-{version}")
    for api in SERVED_APIS
    if api.key in HANDLERS
    for version in versions_of(api)
]


def test_the_committed_modules_are_up_to_date() -> None:
    stale = [path.name for path, text in generate().items() if not path.exists() or path.read_text() != text]
    assert not stale, "run: make messages"
    assert not leftovers(), "run: make messages"


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_a_request_of_every_version_has_all_fields_of_its_type(api: Api, version: int) -> None:
    module = import_module(f"{messages.__name__}.{api.name}")

    @given(requests(api, version))
    @settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
    def check(entity: Any) -> None:
        body = encode(entity)
        read = read_request(RequestHeader(api, version, 0, None, 0), body, len(body))
        assert is_a(read, getattr(module, type(entity).__name__))

    check()


def is_a(value: Any, kind: Any) -> bool:
    """Whether a value that was read is of the type that the checker is told."""
    if get_origin(kind) is UnionType:
        return any(is_a(value, each) for each in get_args(kind))
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(is_a(each, get_args(kind)[0]) for each in value)
    if getattr(kind, "_is_protocol", False):
        return value is not None and all(
            is_a(getattr(value, name), each) for name, each in get_type_hints(kind).items()
        )
    return type(value) is (NoneType if kind is None else kind)
