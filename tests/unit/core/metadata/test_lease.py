"""The lease of a broker: for how long its heartbeats keep others from leading in its place."""

from barnabas.core.metadata.lease import MAX_WAITING, Lease

SESSION_MS = 9000
MARGIN_MS = 180  # two percent, for a clock that is slow


def test_there_is_none_before_the_first_answer() -> None:
    assert not Lease().holds(now_ms=0, applied_offset=100)


def test_it_counts_from_when_the_heartbeat_was_sent_less_a_margin() -> None:
    lease = Lease()

    lease.note_answer(sent_ms=1000, lease_ms=SESSION_MS, decided_offset=5)

    assert lease.holds(now_ms=1000 + SESSION_MS - MARGIN_MS - 1, applied_offset=5)
    assert not lease.holds(now_ms=1000 + SESSION_MS - MARGIN_MS, applied_offset=5)


def test_an_answer_counts_once_what_the_controller_had_decided_is_applied() -> None:
    lease = Lease()
    lease.note_answer(sent_ms=1000, lease_ms=SESSION_MS, decided_offset=5)
    lease.note_answer(sent_ms=3000, lease_ms=SESSION_MS, decided_offset=8)

    assert not lease.holds(now_ms=3000, applied_offset=4)
    assert lease.holds(now_ms=9000, applied_offset=7)
    assert not lease.holds(now_ms=11_000, applied_offset=7)
    assert lease.holds(now_ms=11_000, applied_offset=8)


def test_answers_that_are_never_applied_do_not_pile_up_and_the_newest_counts() -> None:
    lease = Lease()
    for number in range(3 * MAX_WAITING):
        lease.note_answer(sent_ms=number * 100, lease_ms=SESSION_MS, decided_offset=100 + number)

    assert len(lease._answered) == MAX_WAITING
    assert lease.holds(now_ms=(3 * MAX_WAITING - 1) * 100 + SESSION_MS - MARGIN_MS - 1, applied_offset=1000)


def test_an_older_answer_that_is_applied_later_shortens_nothing() -> None:
    lease = Lease()
    lease.note_answer(sent_ms=1000, lease_ms=SESSION_MS, decided_offset=50)  # of a controller that is no more
    lease.note_answer(sent_ms=3000, lease_ms=SESSION_MS, decided_offset=40)
    assert lease.holds(now_ms=11_000, applied_offset=45)

    assert lease.holds(now_ms=11_000, applied_offset=50)


def test_given_up_it_is_gone_until_the_next_answer() -> None:
    lease = Lease()
    lease.note_answer(sent_ms=1000, lease_ms=SESSION_MS, decided_offset=5)
    lease.note_answer(sent_ms=1000, lease_ms=SESSION_MS, decided_offset=9)

    lease.end()

    assert not lease.holds(now_ms=1001, applied_offset=9)
    lease.note_answer(sent_ms=2000, lease_ms=SESSION_MS, decided_offset=9)
    assert lease.holds(now_ms=2001, applied_offset=9)


def test_a_controller_that_is_not_sure_of_itself_gives_none() -> None:
    lease = Lease()

    lease.note_answer(sent_ms=1000, lease_ms=0, decided_offset=5)

    assert not lease.holds(now_ms=1000, applied_offset=5)
