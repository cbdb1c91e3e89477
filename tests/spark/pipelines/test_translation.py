"""Offsets of a source as offsets of its mirror: the search itself, against logs of any shape."""

import bisect

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'barnabas[spark]'")

from barnabas.spark.pipelines.group_sync import choose_groups, forward_only
from barnabas.spark.pipelines.translation import Point, find_crossing

Log = tuple[list[Point], int, int]


@st.composite
def mirrors(draw: st.DrawFn, copies: int = 1) -> Log:
    """A partition of a mirror: gaps on both sides, a start above 0, markers at the end; mirrored so many times."""
    offset = draw(st.integers(0, 5))
    start = offset
    points = []
    for _ in range(copies):
        source_offset = draw(st.integers(0, 5))
        for gap, source_gap in draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=30)):
            offset, source_offset = offset + gap, source_offset + source_gap
            points.append(Point(offset, source_offset))
            offset, source_offset = offset + 1, source_offset + 1
    return points, start, offset + draw(st.integers(0, 3))


def find(log: Log, wanted: int) -> int:
    points, start, end = log

    def first_at(offset: int) -> Point | None:
        assert start <= offset <= end
        index = bisect.bisect_left(points, (offset, -1))
        return points[index] if index < len(points) else None

    return find_crossing(first_at, wanted, start, end)


@given(mirrors(), st.integers(0, 200))
def test_all_that_was_read_is_before_it_and_nothing_that_was_not(log: Log, wanted: int) -> None:
    found = find(log, wanted)

    points, start, end = log
    assert start <= found <= end
    assert all((point.offset < found) == (point.source_offset < wanted) for point in points)
    assert found in [*(point.offset for point in points), end]


@given(mirrors(copies=2), st.integers(0, 200))
def test_where_a_source_was_mirrored_twice_nothing_that_was_not_read_is_skipped(log: Log, wanted: int) -> None:
    found = find(log, wanted)

    points, _, _ = log
    ahead = {point.source_offset for point in points if point.offset >= found}
    before = [point for point in points if point.offset < found]
    # What is wanted and only before it can be a first copy whose second has not come so far: it is still to come.
    missed = {point.source_offset for point in before if point.source_offset >= wanted} - ahead
    reached = max((point.source_offset for point in before[-1:]), default=-1)
    assert not before or before[-1].source_offset < wanted
    assert all(source_offset > reached for source_offset in missed)


@given(st.dictionaries(st.integers(0, 3), st.integers(0, 9)), st.dictionaries(st.integers(0, 3), st.integers(0, 9)))
def test_a_group_is_only_moved_forward(translated: dict[int, int], reached: dict[int, int]) -> None:
    moved = forward_only(translated, reached)

    after = {**reached, **moved}
    assert all(after[partition] >= offset for partition, offset in reached.items())
    assert all(after[partition] >= offset for partition, offset in translated.items())


def test_groups_are_chosen_by_name_or_by_a_regular_expression_of_the_whole_name() -> None:
    names = ["billing", "billing-2", "mirror", "team.a", "a+b"]

    assert choose_groups(names, ["billing"]) == ["billing"]
    assert choose_groups(names, ["a+b"]) == ["a+b"]
    assert choose_groups(names, ["bill.*", "team.*"]) == ["billing", "billing-2", "team.a"]
    assert choose_groups(names, [".*"], left_out=["mirror"]) == ["billing", "billing-2", "team.a", "a+b"]
