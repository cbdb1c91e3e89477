"""The histories of several nodes as one."""

from barnabas.console.merging import merged
from barnabas.console.models import Series


def _series(until_ms: int, **values: list[float]) -> Series:
    return Series(step_s=10, until_ms=until_ms, values=values)


def test_rates_are_added_and_of_times_the_longest_counts() -> None:
    one = _series(60_000, bytes_in_per_second=[1.0, 2.0], produce_p99_seconds=[0.1, 0.5])
    two = _series(60_400, bytes_in_per_second=[10.0, 20.0], produce_p99_seconds=[0.2, 0.2])

    both = merged([one, two])

    assert both.values == {"bytes_in_per_second": [11.0, 22.0], "produce_p99_seconds": [0.2, 0.5]}
    assert both.until_ms == 60_400


def test_steps_that_ended_earlier_and_shorter_memories_are_moved_to_fit() -> None:
    old = _series(40_000, lag_records=[1.0, 2.0, 3.0])
    new = _series(60_000, lag_records=[5.0])

    assert merged([old, new]).values == {"lag_records": [1.0, 2.0, 3.0, 0.0, 5.0]}


def test_a_node_that_remembers_nothing_changes_nothing() -> None:
    known, empty = _series(60_000, lag_records=[1.0]), _series(0)

    assert merged([empty, known]) == known
    assert merged([empty]) == empty
    assert merged([]).values == {}
