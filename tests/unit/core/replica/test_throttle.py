"""The rate at which replicas that are not in sync are copied."""

import pytest

from barnabas.core.replica.throttle import NOT_THROTTLED, ReplicationQuota, Throttle, ThrottledReplicas

RATE = 1000


def test_more_than_the_rate_of_a_second_is_held_back_until_it_is_paid_off() -> None:
    quota = ReplicationQuota(RATE)
    quota.note(RATE - 1, now_ms=0)
    assert not quota.is_exceeded(now_ms=0)
    quota.note(3 * RATE + 1, now_ms=0)
    assert quota.is_exceeded(now_ms=0)
    assert quota.is_exceeded(now_ms=3000)
    assert not quota.is_exceeded(now_ms=3001)


def test_over_a_long_time_no_more_than_the_rate_is_sent_and_hardly_less() -> None:
    quota, sent = ReplicationQuota(RATE), 0
    for now_ms in range(0, 60_000, 10):
        if not quota.is_exceeded(now_ms=now_ms):
            quota.note(300, now_ms=now_ms)
            sent += 300
    assert 59 * RATE <= sent <= 61 * RATE + 300


def test_what_is_saved_in_quiet_times_is_not_sent_at_once() -> None:
    quota = ReplicationQuota(RATE)
    quota.note(RATE, now_ms=1_000_000)
    assert quota.is_exceeded(now_ms=1_000_000)


def test_a_rate_of_zero_lets_nothing_pass_and_no_rate_everything() -> None:
    assert ReplicationQuota(0).is_exceeded(now_ms=10**9)
    unlimited = ReplicationQuota()
    unlimited.note(2**40, now_ms=0)
    assert not unlimited.is_exceeded(now_ms=0)


def test_only_replicas_that_are_not_in_sync_are_held_back_and_counted() -> None:
    throttle = Throttle(sending=ReplicationQuota(RATE))
    throttle.note_sent(2, (1, 2), 10 * RATE, now_ms=0)
    assert not throttle.holds_back(3, (1, 2), now_ms=0)
    throttle.note_sent(3, (1, 2), 10 * RATE, now_ms=0)
    assert throttle.holds_back(3, (1, 2), now_ms=0)
    assert not throttle.holds_back(2, (1, 2), now_ms=0)
    assert not NOT_THROTTLED.holds_back(3, (1, 2), now_ms=0)


@pytest.mark.parametrize(
    ("listed", "is_named"),
    [
        ((), False),
        (("*",), True),
        (("0:1", "2:7"), True),
        (("2:1", "7:2"), False),
        (("9" * 5000 + ":7", "2:" + "9" * 5000), False),
    ],
)
def test_a_topic_names_replicas_by_partition_and_broker(listed: tuple[str, ...], is_named: bool) -> None:
    assert (2 in ThrottledReplicas(listed, node_id=7)) is is_named


def test_what_is_unpaid_is_forgiven_when_the_rate_changes_and_only_then() -> None:
    quota = ReplicationQuota(1000 * RATE)
    quota.note(5000 * RATE, now_ms=0)
    quota.change(1000 * RATE)
    assert quota.is_exceeded(now_ms=0)

    quota.change(RATE)

    assert not quota.is_exceeded(now_ms=0)
