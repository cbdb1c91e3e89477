"""What is outstanding."""

import pytest

from barnabas.core.errors import InvalidRequest
from barnabas.core.model import TopicPartition
from barnabas.edge.grpc.window import Window

NAME = TopicPartition("t", 0)


def window() -> Window:
    made = Window(max_records=10, max_bytes=100)
    made.add(NAME, 5)
    return made


def test_a_response_counts_until_all_of_it_is_acknowledged() -> None:
    w = window()
    w.note_sent(NAME, next_offset=9, records=4, size=40)
    assert w.acknowledge(NAME, 8)
    assert w.room == (6, 60)
    assert w.acknowledge(NAME, 9)
    assert w.room == (10, 100)
    assert w.acked() == {NAME: 9}


def test_records_or_bytes_fill_it() -> None:
    by_records, by_bytes = window(), window()
    by_records.note_sent(NAME, next_offset=20, records=10, size=1)
    by_bytes.note_sent(NAME, next_offset=6, records=1, size=500)
    assert by_records.is_full
    assert by_bytes.is_full
    assert by_bytes.room == (9, 0)


def test_a_partition_that_is_taken_away_counts_no_longer() -> None:
    w = window()
    w.note_sent(NAME, next_offset=15, records=10, size=100)
    w.remove(NAME)
    assert w.room == (10, 100)
    assert not w.acknowledge(NAME, 15)  # too late: ignored


def test_acknowledgements_do_not_go_back() -> None:
    w = window()
    w.note_sent(NAME, next_offset=9, records=4, size=40)
    w.acknowledge(NAME, 9)
    w.acknowledge(NAME, 6)
    assert w.acked() == {NAME: 9}


@pytest.mark.parametrize("offset", [6, -1])
def test_what_was_not_sent_cannot_be_acknowledged(offset: int) -> None:
    with pytest.raises(InvalidRequest):
        window().acknowledge(NAME, offset)
