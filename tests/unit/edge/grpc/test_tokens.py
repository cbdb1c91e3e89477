"""Producers that are carried from one stream to the next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import InvalidRequest
from barnabas.edge.grpc.tokens import MAX_PARTITIONS, Producer, resume


def test_a_producer_is_resumed_as_it_was() -> None:
    producer = Producer(7, "t", turn=3)
    producer.advance(0, 10)
    producer.advance(2, 1)
    assert resume(producer.token(), "t") == producer


def test_a_sequence_wraps_as_kafkas_do() -> None:
    producer = Producer(7, "t", sequences={0: 2**31 - 2})
    producer.advance(0, 3)
    assert producer.sequence_of(0) == 1


def test_a_producer_of_very_many_partitions_has_no_token() -> None:
    assert Producer(7, "t", sequences=dict.fromkeys(range(MAX_PARTITIONS + 1), 1)).token() == b""


def test_a_token_of_another_topic_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'t'"):
        resume(Producer(7, "t").token(), "other")


@given(st.binary(max_size=60))
def test_a_token_that_is_none_is_refused(data: bytes) -> None:
    try:
        producer = resume(data, "t")
    except InvalidRequest:
        return
    assert producer.producer_id >= 0
