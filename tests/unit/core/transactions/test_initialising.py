"""InitProducerId: who gets a transactional id, at which epoch, and who is fenced."""

import pytest

from barnabas.core.errors import ConcurrentTransactions, InvalidRequest, InvalidTransactionTimeout, ProducerFenced
from barnabas.core.model import TopicPartition
from barnabas.core.transactions.initialising import AbortFirst, Initialised, InitRequest, decide_init
from barnabas.core.transactions.records import State, TransactionRecord
from barnabas.core.transactions.transactions import Transactions
from tests.unit.core.transactions.transaction_driver import (
    FIRST_ID,
    MAX_TIMEOUT_MS,
    NAME,
    T0,
    TIMEOUT_MS,
    TIMER,
    Coordinator,
)

P = FIRST_ID
IDLE = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


# A producer that says nothing of itself


def test_the_first_producer_of_an_id_gets_a_new_producer_id_at_epoch_zero() -> None:
    coordinator = Coordinator()
    assert coordinator.init() == Initialised(P, 0)
    assert coordinator.record == TransactionRecord(NAME, P, 0, TIMEOUT_MS, State.EMPTY, update_ms=coordinator.now_ms)
    assert coordinator.timers == {}


@pytest.mark.parametrize("state", IDLE)
def test_the_next_producer_gets_the_next_epoch_and_its_own_timeout(state: State) -> None:
    coordinator = Coordinator()
    coordinator.put(state, last_epoch=4)
    assert coordinator.init(timeout_ms=7) == Initialised(P, 6)
    record = coordinator.record
    assert (record.state, record.timeout_ms, record.start_ms, record.last_epoch) == (State.EMPTY, 7, -1, -1)


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize("epoch", [32766, 32767])
def test_a_producer_whose_epochs_are_used_up_gets_a_new_id(state: State, epoch: int) -> None:
    coordinator = Coordinator()
    coordinator.put(state, producer_epoch=epoch)
    assert coordinator.init() == Initialised(P + 1, 0)
    assert (coordinator.record.previous_producer_id, coordinator.record.last_epoch) == (P, -1)


def test_the_last_epoch_of_an_id_is_given_out() -> None:
    coordinator = Coordinator()
    coordinator.put(State.EMPTY, producer_epoch=32765)
    assert coordinator.init() == Initialised(P, 32766)


def test_an_open_transaction_is_aborted_first_and_its_producer_fenced() -> None:
    coordinator = Coordinator()
    coordinator.put(State.ONGOING, version=0)
    assert coordinator.init() == AbortFirst(NAME)
    record = coordinator.record
    assert coordinator.standing == (P, 6, State.PREPARE_ABORT)
    assert (record.last_epoch, record.next_producer_id, record.version) == (5, -1, 2)
    assert record.partitions == (("t", (0, 1)),)
    assert coordinator.timers == {}
    with pytest.raises(ProducerFenced):
        coordinator.add(P, 5, T0)


def test_the_producer_that_asks_again_after_the_abort_gets_the_epoch_after() -> None:
    coordinator = Coordinator()
    coordinator.put(State.ONGOING)
    coordinator.init()
    with pytest.raises(ConcurrentTransactions):
        coordinator.init()
    coordinator.complete()
    assert coordinator.init() == Initialised(P, 7)


def test_fencing_the_last_epoch_of_an_id_takes_a_new_one() -> None:
    coordinator = Coordinator()
    coordinator.put(State.ONGOING, producer_epoch=32766)
    assert coordinator.init() == AbortFirst(NAME)
    assert coordinator.standing == (P, 32767, State.PREPARE_ABORT)
    assert coordinator.record.next_producer_id == P + 1
    coordinator.complete()
    assert coordinator.standing == (P + 1, 0, State.COMPLETE_ABORT)
    assert coordinator.init() == Initialised(P + 1, 1)


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
@pytest.mark.parametrize("named", [(-1, -1), (P, 5), (P, 4), (P + 7, 0)])
def test_a_transaction_that_is_being_ended_is_waited_for(state: State, named: tuple[int, int]) -> None:
    coordinator = Coordinator()
    coordinator.put(state)
    with pytest.raises(ConcurrentTransactions):
        coordinator.init(*named)


@pytest.mark.parametrize("timeout_ms", [-1, 0, MAX_TIMEOUT_MS + 1])
def test_a_timeout_that_cannot_be_is_refused(timeout_ms: int) -> None:
    with pytest.raises(InvalidTransactionTimeout):
        Coordinator().init(timeout_ms=timeout_ms)


@pytest.mark.parametrize("timeout_ms", [1, MAX_TIMEOUT_MS])
def test_a_timeout_at_its_limits_is_taken(timeout_ms: int) -> None:
    assert Coordinator().init(timeout_ms=timeout_ms) == Initialised(P, 0)


@pytest.mark.parametrize("named", [(P, -1), (-1, 0)])
def test_half_of_a_producer_is_refused(named: tuple[int, int]) -> None:
    with pytest.raises(InvalidRequest):
        Coordinator().init(*named)


def test_an_empty_transactional_id_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        decide_init(
            Transactions(),
            InitRequest(transactional_id="", timeout_ms=1),
            new_producer_id=P,
            max_timeout_ms=1,
            now_ms=0,
        )


# A producer that goes on after an error (KIP-360)


@pytest.mark.parametrize("state", IDLE)
def test_a_producer_that_goes_on_gets_the_next_epoch(state: State) -> None:
    coordinator = Coordinator()
    coordinator.put(state)
    assert coordinator.init(P, 5) == Initialised(P, 6)
    assert coordinator.record.last_epoch == 5


@pytest.mark.parametrize("state", IDLE)
def test_a_producer_that_did_not_hear_the_answer_gets_it_again(state: State) -> None:
    coordinator = Coordinator()
    coordinator.put(state, producer_epoch=6, last_epoch=5)
    assert coordinator.init(P, 5) == Initialised(P, 6)
    assert coordinator.init(P, 5) == Initialised(P, 6)
    assert coordinator.record.state is State.EMPTY


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_epoch_in_which_a_transaction_was_ended_is_not_given_again(is_commit: bool) -> None:
    """Of a producer of version 1, which goes on at its epoch: a late request of its own must not begin that anew."""
    coordinator = Coordinator()
    coordinator.put(State.EMPTY)
    assert coordinator.init(P, 5) == Initialised(P, 6)
    coordinator.add(P, 6, TopicPartition("t", 0), version=1)
    coordinator.end(P, 6, is_commit=is_commit, version=1)
    coordinator.complete()
    with pytest.raises(ProducerFenced):
        coordinator.init(P, 5)
    coordinator.end(P, 6, is_commit=is_commit, version=1)  # as before: its answer may have been lost
    assert coordinator.init(P, 6) == Initialised(P, 7)


def test_a_producer_that_another_replaced_is_fenced() -> None:
    coordinator = Coordinator()
    coordinator.put(State.EMPTY)
    coordinator.init()
    for epoch in (5, 4, 7):
        with pytest.raises(ProducerFenced):
            coordinator.init(P, epoch)
    assert coordinator.standing == (P, 6, State.EMPTY)


def test_a_producer_of_another_id_is_fenced() -> None:
    coordinator = Coordinator()
    coordinator.put(State.EMPTY, previous_producer_id=P - 1)
    for producer_id, epoch in ((P - 1, 5), (P + 1, 5), (P - 1, 32766)):
        with pytest.raises(ProducerFenced):
            coordinator.init(producer_id, epoch)


def test_a_producer_of_an_id_that_is_not_known_any_more_gets_a_new_one() -> None:
    assert Coordinator().init(P - 1, 9) == Initialised(P, 0)


def test_a_producer_that_goes_on_at_its_last_epoch_gets_a_new_id_however_often_it_asks() -> None:
    coordinator = Coordinator()
    coordinator.put(State.COMPLETE_COMMIT, producer_epoch=32766)
    given = Initialised(P + 1, 0)
    assert [coordinator.init(P, 32766) for _ in range(3)] == [given] * 3
    assert coordinator.init(*given) == Initialised(P + 1, 1)
    with pytest.raises(ProducerFenced):
        coordinator.init(P, 32766)


def test_an_answer_with_the_last_epoch_of_an_id_is_given_again() -> None:
    coordinator = Coordinator()
    coordinator.put(State.EMPTY, producer_epoch=32765)
    assert [coordinator.init(P, 32765) for _ in range(2)] == [Initialised(P, 32766)] * 2
    with pytest.raises(ProducerFenced):
        coordinator.init(P, 32764)


def test_a_rotation_by_another_producer_fences_the_one_before() -> None:
    coordinator = Coordinator()
    coordinator.put(State.EMPTY, producer_epoch=32766)
    coordinator.init()
    with pytest.raises(ProducerFenced):
        coordinator.init(P, 32766)


def test_a_producer_that_goes_on_aborts_its_own_open_transaction() -> None:
    coordinator = Coordinator()
    coordinator.put(State.ONGOING)
    assert coordinator.init(P, 5) == AbortFirst(NAME)
    coordinator.complete()
    assert coordinator.init(P, 5) == Initialised(P, 6)


@pytest.mark.parametrize("last_epoch", [-1, 4])
def test_a_producer_that_was_replaced_does_not_abort_what_its_successor_has_open(last_epoch: int) -> None:
    coordinator = Coordinator()
    coordinator.put(State.ONGOING, last_epoch=last_epoch)
    with pytest.raises(ProducerFenced):
        coordinator.init(P, 4)
    assert coordinator.standing == (P, 5, State.ONGOING)
    assert TIMER in coordinator.timers


def test_a_producer_whose_transaction_expired_goes_on_at_the_epoch_that_fenced_it() -> None:
    coordinator = Coordinator()
    coordinator.put(State.ONGOING)
    coordinator.now_ms += TIMEOUT_MS
    coordinator.fire()
    coordinator.complete()
    assert coordinator.init(P, 5) == Initialised(P, 6)
