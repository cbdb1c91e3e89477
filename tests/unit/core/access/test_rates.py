"""Allowances: the average is the limit, whatever the size of what is used, and what is idle says nothing."""

import pytest

from barnabas.core.access.rates import MAX_THROTTLE_MS, Allowance, throttle_ms

BURST_S = 10.0


def used_by_a_client_that_waits(*, limit: float, size: float, until_s: float) -> list[tuple[float, float]]:
    """When how much was used by a client that uses all it may, and waits as it is told."""
    allowance = Allowance(limit, burst_s=BURST_S)
    now_s, used = 0.0, []
    while now_s < until_s:
        delay_s = allowance.take(size, now_s=now_s)
        used.append((now_s, size))
        now_s += delay_s
    return used


@pytest.mark.parametrize("limit", [1_000.0, 50_000.0, 12_345_678.0])
@pytest.mark.parametrize("part", [1 / 1000, 1 / 7, 3.0])  # of what may be used in a second
def test_after_the_burst_every_window_of_ten_seconds_has_the_limit(limit: float, part: float) -> None:
    used = used_by_a_client_that_waits(limit=limit, size=limit * part, until_s=100)
    for begin_s in range(11, 80):
        in_window = sum(size for at_s, size in used if begin_s <= at_s < begin_s + 10)
        assert in_window == pytest.approx(limit * 10, rel=0.1, abs=limit * part)


@pytest.mark.parametrize("seconds", [25.0, 60.0, 500.0])
def test_what_is_far_larger_than_a_window_is_waited_for_to_the_last_byte(seconds: float) -> None:
    used = used_by_a_client_that_waits(limit=1000, size=1000 * seconds, until_s=50 * seconds)
    last_s, _ = used[-1]
    assert sum(size for _, size in used[:-1]) == pytest.approx(1000 * (last_s + BURST_S))


def test_the_delay_is_kafkas() -> None:
    allowance = Allowance(100, burst_s=BURST_S)
    rate = 1500 / BURST_S
    assert allowance.take(1500, now_s=7) == (rate - 100) / 100 * BURST_S


def test_a_burst_costs_nothing_and_what_follows_it_does() -> None:
    allowance = Allowance(100, burst_s=BURST_S)
    assert allowance.take(1000, now_s=0) == 0
    assert allowance.take(50, now_s=0) == 0.5
    assert allowance.delay_s(now_s=0.25) == 0.25
    assert allowance.delay_s(now_s=0.5) == 0


def test_what_was_put_back_was_never_used() -> None:
    allowance = Allowance(100, burst_s=BURST_S)
    allowance.take(3000, now_s=0)
    allowance.put_back(3000)
    assert allowance.is_idle(now_s=0)


def test_an_allowance_is_idle_when_all_is_paid_for() -> None:
    allowance = Allowance(100, burst_s=BURST_S)
    allowance.take(500, now_s=0)
    assert not allowance.is_idle(now_s=4.9)
    assert allowance.is_idle(now_s=5)


def test_a_debt_may_be_bounded() -> None:
    allowance = Allowance(1, burst_s=BURST_S, max_debt_s=BURST_S)
    assert allowance.take(1_000_000, now_s=0) == BURST_S


def test_another_limit_does_not_punish_for_what_was_allowed() -> None:
    allowance = Allowance(1000, burst_s=BURST_S)
    allowance.take(10_000, now_s=0)
    allowance.change(10, burst_s=BURST_S, now_s=0)
    assert allowance.delay_s(now_s=0) == 0
    assert allowance.take(10, now_s=0) == 1


def test_time_does_not_run_backwards() -> None:
    allowance = Allowance(100, burst_s=BURST_S)
    allowance.take(1000, now_s=5)
    assert allowance.take(100, now_s=1) == 1


def test_a_throttle_time_is_never_shorter_than_the_delay_and_fits_its_field() -> None:
    assert throttle_ms(0.0001) == 1
    assert throttle_ms(1.5) == 1500
    assert throttle_ms(1e12) == MAX_THROTTLE_MS
