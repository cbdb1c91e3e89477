"""Partitions of a transaction: added, verified, refused."""

import pytest

from barnabas.core.errors import (
    BarnabasError,
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRequest,
    ProducerFenced,
    TransactionAbortable,
)
from barnabas.core.transactions.partitions import decide_add, verify
from barnabas.core.transactions.records import State
from barnabas.core.transactions.transactions import Transactions
from tests.unit.core.transactions.transaction_driver import (
    FIRST_ID,
    NAME,
    T0,
    T1,
    TIMEOUT_MS,
    TIMER,
    U0,
    Coordinator,
)

P = FIRST_ID
IDLE = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize(("version", "kept"), [(0, 0), (1, 0), (2, 2)])
def test_the_first_partitions_begin_a_transaction(state: State, version: int, kept: int) -> None:
    coordinator = Coordinator()
    coordinator.put(state, last_epoch=4)
    coordinator.now_ms += 9
    coordinator.add(P, 5, U0, T1, T0, T1, version=version)
    record = coordinator.record
    assert coordinator.standing == (P, 5, State.ONGOING)
    assert record.partitions == (("t", (0, 1)), ("u", (0,)))
    assert (record.start_ms, record.update_ms) == (coordinator.now_ms, coordinator.now_ms)
    assert (record.version, record.last_epoch) == (kept, 4)
    assert coordinator.timers == {TIMER: coordinator.now_ms + TIMEOUT_MS}


def test_more_partitions_do_not_give_a_transaction_more_time() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.add(P, 0, T1)
    began_ms, timers = coordinator.now_ms, dict(coordinator.timers)
    coordinator.now_ms += 9
    coordinator.add(P, 0, T0, U0)
    record = coordinator.record
    assert record.partitions == (("t", (0, 1)), ("u", (0,)))
    assert (record.start_ms, record.update_ms) == (began_ms, began_ms + 9)
    assert coordinator.timers == timers


def test_nothing_is_written_when_all_partitions_are_there() -> None:
    coordinator = Coordinator()
    coordinator.put(State.ONGOING)
    for names in ([T0], [T1, T0], []):
        decision = decide_add(coordinator.transactions, NAME, P, 5, names, version=2, now_ms=coordinator.now_ms)
        assert decision == ([], None, ())


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [(P + 1, 5, InvalidProducerIdMapping), (P, 4, ProducerFenced), (P, 6, ProducerFenced)],
)
def test_another_producer_is_refused(state: State, producer_id: int, epoch: int, error: type[BarnabasError]) -> None:
    coordinator = Coordinator()
    coordinator.put(state)
    with pytest.raises(error):
        coordinator.add(producer_id, epoch, U0)
    with pytest.raises(error):
        verify(coordinator.transactions, NAME, producer_id, epoch, [T0])


@pytest.mark.parametrize("state", PREPARED)
@pytest.mark.parametrize("version", [0, 2])
def test_the_next_transaction_waits_for_the_end_of_the_one_before(state: State, version: int) -> None:
    coordinator = Coordinator()
    coordinator.put(state, version=version)
    with pytest.raises(ConcurrentTransactions):
        coordinator.add(P, 5, U0)
    with pytest.raises(ConcurrentTransactions):
        verify(coordinator.transactions, NAME, P, 5, [T0])


def test_a_producer_under_its_new_id_waits_too() -> None:
    coordinator = Coordinator()
    coordinator.put(State.PREPARE_COMMIT, producer_epoch=32767, last_epoch=32766, next_producer_id=P + 1)
    with pytest.raises(ConcurrentTransactions):
        coordinator.add(P + 1, 0, U0)
    for epoch in (32766, 32767):
        with pytest.raises(InvalidProducerIdMapping):
            coordinator.add(P, epoch, U0)
    coordinator.complete()
    assert coordinator.record.previous_producer_id == P
    coordinator.add(P + 1, 0, U0)
    assert coordinator.standing == (P + 1, 0, State.ONGOING)


def test_an_id_without_a_producer_is_refused() -> None:
    with pytest.raises(InvalidProducerIdMapping):
        Coordinator().add(P, 0, T0)
    with pytest.raises(InvalidProducerIdMapping):
        verify(Transactions(), NAME, P, 0, [T0])
    with pytest.raises(InvalidRequest):
        verify(Transactions(), "", P, 0, [T0])
    with pytest.raises(InvalidRequest):
        decide_add(Transactions(), "", P, 0, [T0], version=0, now_ms=0)


def test_partitions_that_were_not_added_are_told_from_those_that_were() -> None:
    coordinator = Coordinator()
    coordinator.put(State.ONGOING)
    found = verify(coordinator.transactions, NAME, P, 5, [T0, U0])
    assert found[T0] is None
    assert isinstance(found[U0], TransactionAbortable)


@pytest.mark.parametrize("state", IDLE)
def test_a_transaction_that_has_not_begun_has_no_partitions(state: State) -> None:
    coordinator = Coordinator()
    coordinator.put(state)
    assert isinstance(verify(coordinator.transactions, NAME, P, 5, [T0])[T0], TransactionAbortable)
