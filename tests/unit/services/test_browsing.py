"""Pages over batches that a fake reader holds: every record once, in order, within budgets."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast

from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import LeaderNotAvailable
from barnabas.core.model import TopicPartition
from barnabas.core.records.murmur2 import partition_for_key
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.other_leaders import FetchedBatches
from barnabas.services.browsing import MAX_WINDOW_BYTES, WINDOW, Browser, Position, Span, Wanted
from barnabas.services.reading import ClusterReader

T = TypeVar("T")


class AtOnce:
    async def run(self, work: Callable[[], T]) -> T:
        return work()


class FakeReader:
    """One batch of one record for each time, in each partition."""

    def __init__(self, times: dict[int, list[int]], *, lost: int | None = None, value: bytes = b"v") -> None:
        self._times = times
        self._value = value
        self._lost = lost

    async def read(self, name: TopicPartition, offset: int, *, max_bytes: int, is_committed: bool) -> FetchedBatches:
        if name.partition == self._lost:
            raise LeaderNotAvailable("nobody leads it")
        times = self._times[name.partition]
        some = range(offset, min(offset + 3, len(times)))
        data = b"".join(bytes(encode_batch([Record(at, times[at], None, self._value)], base_offset=at)) for at in some)
        return FetchedBatches(data, len(times), len(times), 0)


def pages(reader: FakeReader, position: Position, wanted: Wanted) -> list[tuple[int, int, int]]:
    browser = Browser(cast("ClusterReader", reader), AtOnce())
    found: list[tuple[int, int, int]] = []

    async def read() -> None:
        at = position
        for _ in range(1000):
            page = await browser.read("t", at, wanted)
            assert len(page.records) <= wanted.limit
            found.extend((each.partition, each.record.offset, each.record.timestamp) for each in page.records)
            at = page.position
            if page.is_complete:
                return
        raise AssertionError("it does not end")

    asyncio.run(read())
    return found


@given(
    st.lists(st.lists(st.integers(0, 50), max_size=12), min_size=1, max_size=4),
    st.integers(1, 7),
    st.booleans(),
)
def test_pages_have_every_record_once_and_offsets_in_order(times: list[list[int]], limit: int, newest: bool) -> None:
    by_partition = dict(enumerate(times))
    position = {index: Span(0, len(each)) for index, each in by_partition.items()}
    found = pages(FakeReader(by_partition), position, Wanted(limit=limit, is_newest_first=newest, max_s=60))
    assert sorted((index, offset) for index, offset, _ in found) == [
        (index, offset) for index, each in by_partition.items() for offset in range(len(each))
    ]
    for index in by_partition:
        offsets = [offset for partition, offset, _ in found if partition == index]
        assert offsets == sorted(offsets, reverse=newest)


@given(
    st.lists(st.lists(st.integers(0, 20), max_size=5).map(sorted), min_size=1, max_size=10),
    st.integers(1, 7),
    st.booleans(),
    st.sampled_from([None, 2, 5]),
)
def test_pages_are_in_order_of_time_over_all_partitions_and_pages(
    times: list[list[int]], limit: int, newest: bool, every: int | None
) -> None:
    by_partition = dict(enumerate(times))
    position = {index: Span(0, len(each)) for index, each in by_partition.items()}
    passes = None if every is None else (lambda _, index: index % every == 0)
    wanted = Wanted(limit=limit, is_newest_first=newest, max_s=60, passes=passes)
    found = [time for *_, time in pages(FakeReader(by_partition), position, wanted)]
    assert found == sorted(found, reverse=newest)
    assert len(found) == sum(len(each) for index, each in by_partition.items() if every is None or not index % every)


def test_partitions_have_their_turns_where_records_have_the_same_time() -> None:
    reader = FakeReader({0: [5, 5, 7], 1: [5, 5, 5]})
    wanted = Wanted(limit=10, is_newest_first=True, max_s=60)

    found = pages(reader, {0: Span(0, 3), 1: Span(0, 3)}, wanted)

    assert [(index, offset) for index, offset, _ in found] == [(0, 2), (0, 1), (1, 2), (0, 0), (1, 1), (1, 0)]


def test_what_passes_in_one_partition_waits_for_what_may_pass_in_another() -> None:
    # The newest window of partition 0 has nothing that passes; before it is what is newer than all of partition 1.
    reader = FakeReader({0: list(range(10_000, 10_000 + 2 * WINDOW)), 1: list(range(5))})
    position = {0: Span(0, 2 * WINDOW), 1: Span(0, 5)}
    wanted = Wanted(
        limit=3,
        is_newest_first=True,
        max_s=60,
        passes=lambda record, index: index == 1 or record.offset < 10,
    )

    found = pages(reader, position, wanted)

    assert [index for index, *_ in found] == [0] * 10 + [1] * 5


def test_large_records_are_read_backwards_without_a_gap() -> None:
    reader = FakeReader({0: list(range(12))}, value=b"v" * (MAX_WINDOW_BYTES // 5))
    wanted = Wanted(limit=4, is_newest_first=True, max_s=60, max_bytes=4 * MAX_WINDOW_BYTES)

    found = pages(reader, {0: Span(0, 12)}, wanted)

    assert [offset for _, offset, _ in found] == list(range(11, -1, -1))


def test_a_budget_ends_a_search_that_finds_nothing_and_the_next_goes_on() -> None:
    reader = FakeReader({0: list(range(30))})
    wanted = Wanted(limit=5, passes=lambda *_: False, max_bytes=200, max_s=60)
    page = asyncio.run(Browser(cast("ClusterReader", reader), AtOnce()).read("t", {0: Span(0, 30)}, wanted))
    assert (page.records, page.is_complete) == ([], False)
    assert 0 < page.position[0].first < 30


def test_a_partition_without_a_leader_does_not_hold_up_the_others() -> None:
    reader = FakeReader({0: [1], 1: [2]}, lost=0)
    position = {0: Span(0, 1), 1: Span(0, 1)}
    page = asyncio.run(Browser(cast("ClusterReader", reader), AtOnce()).read("t", position, Wanted(limit=5)))
    assert [each.partition for each in page.records] == [1]
    assert list(page.refusals) == [0]
    assert page.position[0] == Span(0, 1)


def test_keys_go_where_kafka_puts_them() -> None:
    assert [partition_for_key(key, 1000) for key in (b"21", b"foobar", b"abc", b"")] == [340, 166, 107, 681]
