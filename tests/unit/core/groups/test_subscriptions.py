"""The topics in a consumer's metadata, which is bytes from a client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.groups.subscriptions import parse_topics
from tests.unit.core.groups.classic.driver import subscription


@given(names=st.lists(st.text(max_size=9), max_size=5))
def test_topics_are_read_whatever_follows_them(names: list[str]) -> None:
    assert parse_topics(subscription(*names)) == frozenset(names)


@given(data=st.binary(max_size=40))
def test_any_bytes_are_topics_or_nothing(data: bytes) -> None:
    topics = parse_topics(data)
    assert topics is None or all(isinstance(name, str) for name in topics)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "0000",
        "ffff00000000",  # a version below 0
        "0000ffffffff",  # a count below 0
        "00007fffffff0001",  # more topics than bytes
        "0000000000010005aa",  # a name beyond the end
        "000000000001ffff",  # a length below 0
        "0000000000010001ff",  # not UTF-8
    ],
)
def test_bytes_that_are_no_subscription_are_nothing(data: str) -> None:
    assert parse_topics(bytes.fromhex(data)) is None
