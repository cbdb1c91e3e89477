"""What a dead letter says, to whoever reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.records.dead_letters import Cause, LetterRange, Source, build_letter, read_letter
from barnabas.core.records.record import Header, Record

SOURCE = Source("g", "t", 2, 7)
RANGE = LetterRange(7, 9, 3, Cause.LIMIT)
NAMES = st.one_of(st.text(max_size=5), st.sampled_from(["__dlq.errors.offset", "barnabas-dlq-copied"]))
HEADERS = st.lists(st.tuples(NAMES, st.one_of(st.none(), st.binary(max_size=3))), max_size=4)
BYTES = st.one_of(st.none(), st.binary(max_size=3))


@given(key=BYTES, value=BYTES, headers=HEADERS)
def test_a_copy_has_all_of_its_record_but_what_an_earlier_letter_said(
    key: bytes | None, value: bytes | None, headers: list[Header]
) -> None:
    record = Record(7, 1, key, value, tuple(headers))
    letter = build_letter(SOURCE, at=RANGE, record=record, number=0, now_ms=5)
    assert (letter.key, letter.value, letter.timestamp, letter.offset) == (key, value, 5, 0)
    read = read_letter(letter.headers, has_content=key is not None or value is not None)
    assert read is not None
    assert (read.source, read.is_copy) == (SOURCE, True)
    kept = [each for each in headers if not each[0].startswith("__dlq.") and each[0] != "barnabas-dlq-copied"]
    assert list(read.headers) == kept


def test_a_letter_without_its_record_is_no_copy() -> None:
    letter = build_letter(SOURCE, at=RANGE, record=None, number=3, now_ms=5)
    assert (letter.offset, letter.key, letter.value) == (3, None, None)
    read = read_letter(letter.headers, has_content=False)
    assert read is not None
    assert (read.source, read.is_copy, read.headers) == (SOURCE, False, ())


def test_a_letter_of_another_broker_that_has_content_is_a_copy() -> None:
    letter = build_letter(SOURCE, at=RANGE, record=None, number=3, now_ms=5)
    read = read_letter(letter.headers, has_content=True)
    assert read is not None
    assert read.is_copy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group", None),
        ("group", b""),
        ("group", b"\xff"),
        ("topic", b""),
        ("partition", b"-1"),
        ("partition", b"one"),
        ("offset", b"-1"),
        ("offset", None),
    ],
)
def test_what_does_not_say_where_its_record_is_is_no_letter(name: str, value: bytes | None) -> None:
    letter = build_letter(SOURCE, at=RANGE, record=None, number=0, now_ms=5)
    changed = tuple((key, value if key == f"__dlq.errors.{name}" else old) for key, old in letter.headers)
    assert read_letter(changed, has_content=True) is None
    left = tuple(each for each in letter.headers if each[0] != f"__dlq.errors.{name}")
    assert read_letter(left, has_content=True) is None
