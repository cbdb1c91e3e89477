"""What tasks of a batch read, without Spark running: slices, and ranges against what partitions have."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.model import TopicPartition
from barnabas.spark.source.data_loss import Backwards, Beyond, Loss, Uncommitted, report_loss
from barnabas.spark.source.options import parse_options
from barnabas.spark.source.planning import OffsetRange, plan
from barnabas.spark.source.ranges import Extent, fit
from barnabas.spark.source.refusals import DataLoss
from barnabas.spark.source.slices import TaskPartition, slice_up

KEYS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
KEY = KEYS[0]
COUNTS = st.fixed_dictionaries({key: st.integers(0, 100) for key in KEYS})


def options(**given: str) -> Any:
    return parse_options({"kafka.bootstrap.servers": "x:1", "subscribe": "a,b", **given}, "batch")


@given(COUNTS, st.none() | st.integers(1, 20), COUNTS)
def test_tasks_that_were_cut_earlier_read_every_offset_once(
    before: dict[TopicPartition, int], min_partitions: int | None, added: dict[TopicPartition, int]
) -> None:
    planned = plan([OffsetRange(key, 10, 10 + count) for key, count in before.items()], min_partitions=min_partitions)

    tasks = slice_up(planned, KEYS, {"a": "id of a"}, options())

    read = []
    for task in (TaskPartition(task).task for task in tasks):
        for each in task.slices:
            now = OffsetRange(each.key, 12, 12 + before[each.key] + added[each.key])
            cut = each.cut(now)
            read += [(each.key, offset) for offset in range(cut.start_offset, cut.end_offset)]
    assert sorted(read) == [(key, 12 + at) for key in KEYS for at in range(before[key] + added[key])]
    assert [task.known for task in tasks] == [tuple(KEYS), *(None for _ in tasks[1:])]


def test_offsets_that_are_all_named_leave_nothing_to_look_for() -> None:
    both = '{"a": {"0": 5, "1": 5}, "b": {"0": 5}}'

    assert slice_up([], KEYS, {}, options(startingOffsets=both, endingOffsets=both)) == []


@pytest.mark.parametrize(
    ("start", "end", "found", "problems"),
    [
        (5, 20, (5, 20), []),
        (2, 8, (5, 8), [Loss(KEY, 2, 5, 5, 30)]),
        (1, 3, (3, 3), [Loss(KEY, 1, 3, 5, 30)]),
        (10, 40, (10, 30), [Loss(KEY, 30, 40, 5, 30)]),
        (35, 40, (35, 35), [Loss(KEY, 35, 40, 5, 30)]),
        (10, 25, (10, 25), [Uncommitted(KEY, 20, 25)]),
        (22, 25, (22, 25), [Uncommitted(KEY, 22, 25)]),
        (22, 20, (22, 22), []),  # up to the latest, from behind the start of an open transaction
        (31, 20, (31, 31), [Backwards(KEY, 31, 20)]),
        (5, 3, (5, 5), [Backwards(KEY, 5, 3)]),
    ],
)
def test_a_range_is_compared_with_what_there_is(
    start: int, end: int, found: tuple[int, int], problems: list[Any]
) -> None:
    there = {KEY: Extent(earliest=5, end_offset=20, high_watermark=30)}

    assert fit([OffsetRange(KEY, start, end)], there) == ([OffsetRange(KEY, *found)], problems)


def test_a_range_that_is_backwards_is_not_called_lost() -> None:
    with pytest.raises(DataLoss, match="nothing can be read: a-0 is to be read from offset 31 on, and ends before it"):
        report_loss([Backwards(KEY, 31, 20)], fail=True)


def test_what_options_name_behind_the_end_is_not_called_lost() -> None:
    with pytest.raises(DataLoss) as refused:
        report_loss([Beyond(KEY, 40, 30)], fail=True)
    assert str(refused.value).startswith(
        "requested records do not exist: a-0 is to be read up to offset 40, and ends before that, at 30."
    )
    with pytest.raises(DataLoss, match="records were lost: "):
        report_loss([Beyond(KEY, 40, 30), Loss(KEY, 1, 5, 5, 30)], fail=True)
