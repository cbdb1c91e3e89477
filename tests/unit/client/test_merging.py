"""The merge by time, without a wire."""

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.merging import Merge
from barnabas.client.message import Message
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import TimestampType

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def record(partition: int, offset: int, timestamp_ms: int, value: bytes = b"") -> Message:
    return Message("t", partition, offset, timestamp_ms, TimestampType.CREATE_TIME, None, value)


def ids(records: Sequence[Message]) -> list[tuple[int, int]]:
    return [(one.partition, one.offset) for one in records]


def test_nothing_is_given_while_a_partition_may_still_have_something_older() -> None:
    merge = Merge([A, B])
    merge.add(record(0, 0, 10))

    assert list(merge.take(set())) == []
    merge.add(record(1, 0, 5))
    assert ids(list(merge.take(set()))) == [(1, 0)]
    assert ids(list(merge.take({B}))) == [(0, 0)]
    assert merge.is_empty()


def test_ties_go_by_partition_then_offset() -> None:
    merge = Merge([A, B])
    for partition, offset in [(1, 0), (1, 1), (0, 0), (0, 1)]:
        merge.add(record(partition, offset, 7))

    assert ids(list(merge.take({A, B}))) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_within_a_partition_the_order_of_the_log_stands() -> None:
    merge = Merge([A])
    for offset, timestamp_ms in enumerate([5, 3, 9]):
        merge.add(record(0, offset, timestamp_ms))

    assert ids(list(merge.take({A}))) == [(0, 0), (0, 1), (0, 2)]


def test_a_buffer_is_full_by_records_or_bytes_and_drains_well_below() -> None:
    merge = Merge([A, B], max_records=4, max_bytes=100)
    for offset in range(4):
        merge.add(record(0, offset, offset))
    merge.add(record(1, 0, 2, b"x" * 100))

    assert merge.is_full(A)
    assert merge.is_full(B)
    assert not merge.has_drained(A)
    taken = list(merge.take({A}))
    assert ids(taken) == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert merge.has_drained(A)
    assert merge.has_drained(B)


@given(st.lists(st.lists(st.integers(0, 20), max_size=20).map(sorted), min_size=1, max_size=5))
def test_sorted_partitions_give_a_sorted_whole(partitions: list[list[int]]) -> None:
    keys = [TopicPartition("t", id_) for id_ in range(len(partitions))]
    merge = Merge(keys)
    # Fed in turns, a record at a time, with what can be taken taken in between.
    given_out: list[Message] = []
    finished: set[TopicPartition] = set()
    for offset, row in enumerate(itertools.zip_longest(*partitions)):
        for id_, timestamp_ms in enumerate(row):
            if timestamp_ms is None:
                finished.add(keys[id_])
            else:
                merge.add(record(id_, offset, timestamp_ms))
        given_out += merge.take(finished)
    given_out += merge.take(set(keys))

    order = [(one.timestamp_ms, one.partition, one.offset) for one in given_out]
    assert order == sorted(order)
    assert len(order) == sum(map(len, partitions))
