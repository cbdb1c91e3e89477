"""Ids in Kafka's writing."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.uuids import id_text, parse_id


def test_ids_look_as_they_do_in_kafka() -> None:
    assert id_text(UUID(int=0)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert id_text(UUID(int=2**128 - 1)) == "_____________________w"


@given(st.uuids())
def test_an_id_is_read_as_it_was_written(number: UUID) -> None:
    assert parse_id(id_text(number)) == number


@pytest.mark.parametrize("text", ["", "A", "A" * 21, "A" * 23, "A" * 21 + "B", "!" * 22, "A" * 22 + "==", "é" * 22])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="22 letters"):
        parse_id(text)
