"""The messages that members put into joins and syncs: what they say, and bytes that say nothing."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.groups.embedded import (
    MAX_BYTES,
    EmbeddedAssignment,
    MalformedEmbedded,
    Partitions,
    Subscription,
    build_assignment,
    build_subscription,
    parse_assignment,
    parse_subscription,
)

NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
PARTITIONS = st.dictionaries(NAMES, st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple), max_size=4)


@given(
    st.integers(0, 3),
    st.lists(NAMES, max_size=4).map(tuple),
    st.none() | st.binary(max_size=9),
    PARTITIONS,
    st.integers(-1, 9),
    st.none() | NAMES,
)
def test_a_subscription_is_read_as_it_was_written(
    version: int,
    names: tuple[str, ...],
    user_data: bytes | None,
    owned: Partitions,
    generation: int,
    rack: str | None,
) -> None:
    written = Subscription(version, names, user_data, owned, generation, rack)
    read = parse_subscription(build_subscription(written))
    assert read == Subscription(
        version,
        names,
        user_data,
        owned if version >= 1 else {},
        generation if version >= 2 else -1,
        rack if version >= 3 else None,
    )


@given(st.integers(0, 3), PARTITIONS, st.none() | st.binary(max_size=9))
def test_an_assignment_is_read_as_it_was_written(version: int, partitions: Partitions, user_data: bytes | None) -> None:
    written = EmbeddedAssignment(version, partitions, user_data)
    assert parse_assignment(build_assignment(written)) == written


def test_a_newer_version_is_read_like_the_newest_known_one() -> None:
    data = bytearray(build_subscription(Subscription(3, ("t",), rack="r")) + b"more")
    data[1] = 9
    assert parse_subscription(bytes(data))._replace(version=3) == Subscription(3, ("t",), rack="r")


@given(st.binary(max_size=40))
def test_bytes_of_any_kind_are_read_or_refused(data: bytes) -> None:
    for parse in (parse_subscription, parse_assignment):
        try:
            parse(data)
        except MalformedEmbedded as error:
            assert str(error)  # noqa: PT017


def test_the_messages_are_those_of_kafka() -> None:
    assert build_subscription(Subscription(0, ("ab",))) == bytes.fromhex("0000 00000001 0002 6162 ffffffff")
    written = build_subscription(Subscription(3, ("t",), owned={"t": (7,)}, generation=5, rack="r"))
    assert written == bytes.fromhex(
        "0003 00000001 0001 74 ffffffff 00000001 0001 74 00000001 00000007 00000005 0001 72"
    )
    assignment = build_assignment(EmbeddedAssignment(1, {"t": (1, 2)}))
    assert assignment == bytes.fromhex("0001 00000001 0001 74 00000002 00000001 00000002 ffffffff")


def test_a_topic_that_is_named_again_and_again_has_all_its_partitions() -> None:
    times = 5000  # each of them once copied all that came before it
    again = struct.pack(">hii", 0, 1, 7) * times
    data = struct.pack(">hiii", 1, 0, -1, times) + again
    assert parse_subscription(data).owned == {"": (7,) * times}


def test_a_message_that_would_take_long_is_refused() -> None:
    with pytest.raises(MalformedEmbedded, match="the maximum is"):
        parse_subscription(struct.pack(">hii", 0, 0, MAX_BYTES) + bytes(MAX_BYTES))
