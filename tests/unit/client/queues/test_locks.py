from uuid import UUID

from barnabas.client.queues.locks import MAX_ACKS, Ack, Lock, Locks, Place, ack_batches

A, B = Place(UUID(int=1), 0), Place(UUID(int=1), 1)
NONE: frozenset[Place] = frozenset()


def make(*, can_renew: bool = True) -> Locks:
    return Locks(linger_s=0.01, max_hold_s=100.0, can_renew=can_renew)


def add(locks: Locks, *offsets: int, place: Place = A) -> list[Lock]:
    return [locks.add(place, offset, since=0.0, lock_s=10.0) for offset in offsets]


def test_acknowledgements_wait_for_others_and_go_together() -> None:
    locks = make()
    one, other = add(locks, 1, 2)
    locks.finish(one, Ack.ACCEPT, now=1.0)
    assert locks.take_acks(1.005) == []
    locks.finish(other, Ack.RELEASE, now=1.008)
    assert locks.next_due() == 1.01
    assert locks.take_acks(1.01) == [one, other]
    assert locks.take_acks(2.0) == []


def test_an_urgent_acknowledgement_waits_for_nothing() -> None:
    locks = make()
    (one,) = add(locks, 1)
    locks.finish(one, Ack.ACCEPT, now=1.0, is_urgent=True)
    assert locks.take_acks(1.0) == [one]


def test_acknowledgements_go_early_when_there_are_many_or_it_is_asked_for() -> None:
    locks = make()
    held = add(locks, *range(MAX_ACKS + 1))
    for lock in held:
        locks.finish(lock, Ack.ACCEPT, now=1.0)
    assert locks.take_acks(1.0) == held[:MAX_ACKS]
    assert locks.take_acks(1.0, flush=True) == held[MAX_ACKS:]


def test_only_the_first_answer_counts() -> None:
    locks = make()
    (one,) = add(locks, 1)
    assert locks.finish(one, Ack.REJECT, now=1.0)
    assert not locks.finish(one, Ack.ACCEPT, now=1.0)
    assert one.answer is Ack.REJECT


def test_what_the_broker_has_taken_is_over() -> None:
    locks = make()
    (one,) = add(locks, 1)
    locks.finish(one, Ack.ACCEPT, now=1.0)
    locks.settle_acks(locks.take_acks(2.0), now=2.0, refused=NONE)
    assert (one.is_over, one.is_lost, len(locks)) == (True, False, 0)


def test_a_refused_partition_is_asked_about_record_by_record() -> None:
    locks = make()
    first, second, elsewhere = *add(locks, 1, 2), *add(locks, 7, place=B)
    for lock in (first, second, elsewhere):
        locks.finish(lock, Ack.ACCEPT, now=1.0)
    locks.settle_acks(locks.take_acks(2.0), now=2.0, refused=frozenset({A}))
    assert (first.is_over, elsewhere.is_over) == (False, True)
    alone = locks.take_acks(2.0)
    assert alone == [first]
    locks.settle_acks(alone, now=2.0, refused=frozenset({A}))
    assert first.is_lost
    rest = locks.take_acks(2.0)
    locks.settle_acks(rest, now=2.0, refused=NONE)
    assert (rest, second.is_lost, second.is_over) == ([second], False, True)


def test_a_refusal_that_may_pass_is_tried_again_later() -> None:
    locks = make()
    (one,) = add(locks, 1)
    locks.finish(one, Ack.ACCEPT, now=1.0, is_urgent=True)
    locks.settle_acks(locks.take_acks(2.0), now=2.0, refused=NONE, retried=frozenset({A}))
    assert locks.take_acks(2.0) == []
    assert locks.take_acks(locks.next_due()) == [one]


def test_a_lock_is_renewed_at_half_its_time_while_it_is_worked_on() -> None:
    locks = make()
    one, finished = add(locks, 1, 2)
    locks.finish(finished, Ack.ACCEPT, now=4.0)
    assert locks.take_renewals(4.9) == []
    assert locks.take_renewals(5.0) == [one]
    assert locks.take_renewals(5.0) == []
    locks.settle_renewals([one], since=5.0, lock_s=10.0, refused=NONE)
    assert (one.expires_at, one.renew_at) == (15.0, 10.0)


def test_a_lock_is_not_renewed_for_ever() -> None:
    locks = Locks(linger_s=0.0, max_hold_s=12.0)
    (one,) = add(locks, 1)
    locks.settle_renewals(locks.take_renewals(5.0), since=5.0, lock_s=10.0, refused=NONE)
    locks.settle_renewals(locks.take_renewals(10.0), since=10.0, lock_s=10.0, refused=NONE)
    assert locks.take_renewals(19.0) == []
    assert locks.expire(20.0) == [one]


def test_a_lock_that_cannot_be_renewed_is_good_until_it_runs_out() -> None:
    locks = make()
    one, other = add(locks, 1, 2)
    locks.settle_renewals(locks.take_renewals(5.0), since=5.0, lock_s=10.0, refused=frozenset({A}))
    alone = locks.take_renewals(5.0)
    assert alone == [one]
    locks.settle_renewals(alone, since=5.0, lock_s=10.0, refused=frozenset({A}))
    assert locks.take_renewals(5.0) == [other]
    assert not one.is_over
    assert locks.finish(one, Ack.ACCEPT, now=9.0)


def test_an_old_broker_is_never_asked_to_renew() -> None:
    locks = make(can_renew=False)
    (one,) = add(locks, 1)
    assert locks.take_renewals(9.0) == []
    assert locks.next_due() == 10.0
    assert locks.expire(10.0) == [one]
    assert not locks.finish(one, Ack.ACCEPT, now=10.0)


def test_an_acknowledgement_on_its_way_is_waited_for_when_its_lock_runs_out() -> None:
    locks = make()
    (one,) = add(locks, 1)
    locks.finish(one, Ack.ACCEPT, now=9.0)
    locks.take_acks(9.9)
    assert locks.expire(11.0) == []
    assert locks.next_due() == float("inf")


def test_a_record_that_comes_again_ends_the_lock_of_before() -> None:
    locks = make()
    (before,) = add(locks, 1)
    (again,) = add(locks, 1)
    assert (before.is_lost, again.is_over) == (True, False)
    assert not locks.finish(before, Ack.ACCEPT, now=1.0)
    locks.lose_all([A])
    assert (again.is_lost, len(locks)) == (True, 0)


def test_acknowledgements_are_ascending_ranges_with_one_type_or_one_for_each() -> None:
    locks = make()
    said = {5: Ack.ACCEPT, 3: Ack.ACCEPT, 4: Ack.ACCEPT, 9: Ack.REJECT, 8: Ack.GAP, 11: Ack.RELEASE}
    held = add(locks, *said)
    for lock in held:
        locks.finish(lock, said[lock.offset], now=0.0)
    found = [(each["first_offset"], each["last_offset"], each["acknowledge_types"]) for each in ack_batches(held)]
    assert found == [(3, 5, [1]), (8, 9, [0, 3]), (11, 11, [2])]
    assert ack_batches(held[:3], Ack.RENEW)[0]["acknowledge_types"] == [4]


def test_an_acknowledgement_that_was_sent_and_not_answered_is_in_doubt() -> None:
    locks = make()
    said, working = add(locks, 1, 2)
    locks.finish(said, Ack.ACCEPT, now=1.0)
    locks.take_acks(2.0)
    locks.take_renewals(6.0)
    locks.lose_all()
    assert (said.is_lost, said.is_in_doubt) == (True, True)
    assert (working.is_lost, working.is_in_doubt) == (True, False)


def test_an_acknowledgement_that_was_refused_is_in_doubt_if_it_may_have_been_written() -> None:
    locks = make()
    known, unknown = *add(locks, 1), *add(locks, 1, place=B)
    for lock in (known, unknown):
        locks.finish(lock, Ack.ACCEPT, now=1.0)
    sent = locks.take_acks(2.0)
    locks.settle_acks(sent, now=2.0, refused=frozenset({A, B}), unknown=frozenset({B}))
    assert (known.is_lost, known.is_in_doubt) == (True, False)
    assert (unknown.is_lost, unknown.is_in_doubt) == (True, True)


def test_doubt_about_an_acknowledgement_stays_when_it_is_repeated() -> None:
    locks = make()
    (one,) = add(locks, 1)
    locks.finish(one, Ack.ACCEPT, now=1.0)
    here = frozenset({A})
    locks.settle_acks(locks.take_acks(2.0), now=2.0, refused=NONE, retried=here, unknown=here)
    assert not one.is_over
    locks.settle_acks(locks.take_acks(3.0), now=3.0, refused=here)
    assert (one.is_lost, one.is_in_doubt) == (True, True)
