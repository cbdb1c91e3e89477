"""Backoff doubles, has a limit, and varies."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.groups.backoff import Backoff


@given(
    first=st.integers(1, 100_000),
    most=st.integers(1, 10_000_000),
    count=st.integers(0, 100),
    seed=st.integers(0, 2**64),
)
def test_a_wait_is_at_most_a_fifth_shorter_than_it_would_be(first: int, most: int, count: int, seed: int) -> None:
    whole = min(first * 2 ** max(count - 1, 0), most)
    assert max(whole * 0.8 - 1, 1) <= Backoff(first, most).wait_ms(count, seed=seed) <= max(whole, 1)


def test_records_that_failed_together_are_not_tried_again_together() -> None:
    backoff = Backoff(10_000, 60_000)
    assert len({backoff.wait_ms(1, seed=offset) for offset in range(100)}) > 90


def test_without_a_setting_there_is_none() -> None:
    assert not Backoff().is_on
