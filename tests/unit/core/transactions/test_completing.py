"""The end of a transaction at the last epoch of an id, by the clock, and its completion."""

import pytest

from barnabas.core.coordination import SetTimer
from barnabas.core.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from barnabas.core.transactions.ending import (
    Ended,
    MarkersDue,
    decide_abort_expired,
    decide_complete,
    decide_end,
    markers_due,
    needs_producer_id,
)
from barnabas.core.transactions.records import State
from barnabas.core.transactions.transactions import Transactions
from tests.unit.core.transactions.transaction_driver import FIRST_ID, NAME, T0, T1, TIMEOUT_MS, TIMER, Coordinator

P = FIRST_ID
EMPTY, ONGOING = State.EMPTY, State.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = State.PREPARE_COMMIT, State.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = State.COMPLETE_COMMIT, State.COMPLETE_ABORT


# Used up epochs


@pytest.mark.parametrize("is_commit", [True, False])
def test_at_its_last_epoch_a_producer_goes_on_under_a_new_id(*, is_commit: bool) -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING, producer_epoch=32766)
    given = Ended(P + 1, 0, is_prepared=True)
    assert coordinator.end(P, 32766, is_commit=is_commit) == given
    assert coordinator.standing == (P, 32767, PREPARE_COMMIT if is_commit else PREPARE_ABORT)
    assert markers_due(coordinator.record) == MarkersDue(NAME, P, 32767, is_commit, 2, (T0, T1))
    with pytest.raises(ConcurrentTransactions):
        coordinator.end(P, 32766, is_commit=is_commit)
    with pytest.raises(InvalidTxnState):
        coordinator.end(P, 32766, is_commit=not is_commit)
    with pytest.raises(ConcurrentTransactions):
        coordinator.end(P + 1, 0, is_commit=is_commit)
    coordinator.complete()
    assert coordinator.standing == (P + 1, 0, COMPLETE_COMMIT if is_commit else COMPLETE_ABORT)
    record = coordinator.record
    assert (record.previous_producer_id, record.last_epoch, record.next_producer_id) == (P, 32766, -1)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_retry_of_the_end_that_used_up_the_epochs_gets_the_new_id_again(*, is_commit: bool) -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING, producer_epoch=32766)
    coordinator.end(P, 32766, is_commit=is_commit)
    coordinator.complete()
    assert coordinator.end(P, 32766, is_commit=is_commit) == Ended(P + 1, 0, is_prepared=False)
    with pytest.raises(InvalidTxnState):
        coordinator.end(P, 32766, is_commit=not is_commit)
    for epoch in (32765, 32767):
        with pytest.raises(InvalidProducerIdMapping):
            coordinator.end(P, epoch, is_commit=is_commit)
    coordinator.add(P + 1, 0, T0)
    with pytest.raises(InvalidProducerIdMapping):
        coordinator.end(P, 32766, is_commit=is_commit)


def test_the_epoch_before_the_last_needs_no_new_id() -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING, producer_epoch=32765)
    assert not needs_producer_id(coordinator.transactions, NAME)
    assert coordinator.end(P, 32765, is_commit=True) == Ended(P, 32766, is_prepared=True)
    assert not needs_producer_id(coordinator.transactions, NAME)
    coordinator.complete()
    assert needs_producer_id(coordinator.transactions, NAME)
    assert coordinator.end(P, 32766, is_commit=False) == Ended(P + 1, 0, is_prepared=True)
    assert not needs_producer_id(coordinator.transactions, "another")


def test_an_id_that_is_needed_and_not_given_is_waited_for() -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING, producer_epoch=32766)
    with pytest.raises(ConcurrentTransactions):
        decide_end(coordinator.transactions, NAME, P, 32766, is_commit=True, version=2, next_producer_id=-1, now_ms=0)


def test_an_id_that_is_given_and_not_needed_is_left_unused() -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING)
    decision = decide_end(
        coordinator.transactions, NAME, P, 5, is_commit=True, version=2, next_producer_id=77, now_ms=0
    )
    assert decision.reply == Ended(P, 6, is_prepared=True)


def test_a_record_at_the_highest_epoch_can_still_be_aborted() -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING, producer_epoch=32767)
    coordinator.now_ms += TIMEOUT_MS
    assert coordinator.fire()
    assert coordinator.standing == (P, 32767, PREPARE_ABORT)
    coordinator.complete()
    assert coordinator.standing == (P + 1, 0, COMPLETE_ABORT)


# The clock


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(version: int) -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING, version=version)
    coordinator.now_ms += TIMEOUT_MS
    assert coordinator.fire()
    assert coordinator.timers == {}
    assert markers_due(coordinator.record) == MarkersDue(NAME, P, 6, False, 2, (T0, T1))
    coordinator.complete()
    with pytest.raises(ProducerFenced):
        coordinator.end(P, 5, is_commit=True, version=0)
    with pytest.raises(InvalidTxnState):
        coordinator.end(P, 5, is_commit=True)
    assert coordinator.end(P, 5, is_commit=False) == Ended(P, 6, is_prepared=False)


def test_a_timer_that_fires_early_is_set_for_the_rest() -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING)
    coordinator.now_ms += TIMEOUT_MS - 1
    assert not coordinator.fire()
    assert coordinator.timers == {TIMER: coordinator.now_ms + 1}
    assert coordinator.standing == (P, 5, ONGOING)


def test_a_transaction_that_began_by_a_clock_ahead_of_this_one_ends_when_its_timer_fires() -> None:
    """It was given its whole timeout again and again, until this clock had caught up."""
    coordinator = Coordinator()
    coordinator.put(ONGOING)
    coordinator.now_ms -= 120_000
    assert coordinator.fire()
    assert coordinator.standing == (P, 6, PREPARE_ABORT)


def test_an_expired_transaction_at_the_last_epoch_goes_on_under_a_new_id() -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING, producer_epoch=32766)
    coordinator.now_ms += TIMEOUT_MS
    assert coordinator.fire()
    assert markers_due(coordinator.record) == MarkersDue(NAME, P, 32767, False, 2, (T0, T1))
    coordinator.complete()
    assert coordinator.standing == (P + 1, 0, COMPLETE_ABORT)


def test_an_expired_transaction_without_the_id_it_needs_is_tried_again_soon() -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING, producer_epoch=32766)
    now_ms = coordinator.now_ms + TIMEOUT_MS
    decision = decide_abort_expired(coordinator.transactions, NAME, next_producer_id=-1, now_ms=now_ms)
    assert decision == ([], False, [SetTimer(TIMER, 1_000)])


@pytest.mark.parametrize("state", [state for state in State if state is not ONGOING])
def test_a_timer_of_what_is_not_ongoing_does_nothing(state: State) -> None:
    coordinator = Coordinator()
    coordinator.put(state)
    coordinator.now_ms += TIMEOUT_MS
    assert not coordinator.fire()
    assert (coordinator.log, coordinator.timers) == ([], {})


def test_a_timer_of_an_id_that_is_gone_does_nothing() -> None:
    assert decide_abort_expired(Transactions(), NAME, next_producer_id=-1, now_ms=0) == ([], False, ())


# Completion


@pytest.mark.parametrize(("state", "after"), [(PREPARE_COMMIT, COMPLETE_COMMIT), (PREPARE_ABORT, COMPLETE_ABORT)])
@pytest.mark.parametrize("version", [0, 2])
def test_a_prepared_transaction_completes_once(state: State, after: State, version: int) -> None:
    coordinator = Coordinator()
    coordinator.put(state, last_epoch=4, version=version)
    began_ms = coordinator.now_ms
    coordinator.now_ms += 9
    assert coordinator.complete()
    record = coordinator.record
    assert coordinator.standing == (P, 5, after)
    assert (record.partitions, record.last_epoch, record.version) == ((), 4, version)
    assert (record.start_ms, record.update_ms) == (began_ms, began_ms + 9)
    assert not coordinator.complete()
    assert len(coordinator.log) == 1


@pytest.mark.parametrize("state", [EMPTY, ONGOING, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_what_is_not_prepared_has_no_markers_and_does_not_complete(state: State) -> None:
    coordinator = Coordinator()
    coordinator.put(state)
    assert markers_due(coordinator.record) is None
    assert not coordinator.complete()
    assert decide_complete(Transactions(), NAME, now_ms=0) == ([], False, ())
