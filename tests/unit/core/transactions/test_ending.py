"""The end of a transaction: every state, asked by its producer, by a retry, by others, and by the clock."""

import pytest

from barnabas.core.errors import (
    BarnabasError,
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTxnState,
    ProducerFenced,
)
from barnabas.core.transactions.ending import (
    Ended,
    MarkersDue,
    decide_end,
    markers_due,
)
from barnabas.core.transactions.records import State
from barnabas.core.transactions.transactions import Transactions
from tests.unit.core.transactions.transaction_driver import FIRST_ID, NAME, T0, T1, Coordinator

P = FIRST_ID
PREPARED, AGAIN = "prepared", "the same answer"
EMPTY, ONGOING = State.EMPTY, State.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = State.PREPARE_COMMIT, State.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = State.COMPLETE_COMMIT, State.COMPLETE_ABORT
Expected = str | type[BarnabasError]


def check_end(coordinator: Coordinator, epoch: int, *, is_commit: bool, version: int, expected: Expected) -> None:
    before, written = coordinator.record, len(coordinator.log)
    if not isinstance(expected, str):
        with pytest.raises(expected):
            coordinator.end(P, epoch, is_commit=is_commit, version=version)
    else:
        is_prepared = expected == PREPARED
        told = (P, before.producer_epoch + is_prepared) if version == 2 else (-1, -1)
        assert coordinator.end(P, epoch, is_commit=is_commit, version=version) == Ended(*told, is_prepared)
    if expected == PREPARED:
        assert coordinator.record.state is (PREPARE_COMMIT if is_commit else PREPARE_ABORT)
        assert coordinator.timers == {}
    else:
        assert (coordinator.record, len(coordinator.log)) == (before, written)


# Version 2


@pytest.mark.parametrize(
    ("state", "abort_again", "abort", "commit_again", "commit"),
    [
        (EMPTY, ProducerFenced, PREPARED, ProducerFenced, InvalidTxnState),
        (ONGOING, ProducerFenced, PREPARED, ProducerFenced, PREPARED),
        (PREPARE_COMMIT, InvalidTxnState, ConcurrentTransactions, ConcurrentTransactions, ConcurrentTransactions),
        (PREPARE_ABORT, ConcurrentTransactions, ConcurrentTransactions, InvalidTxnState, ConcurrentTransactions),
        (COMPLETE_COMMIT, InvalidTxnState, PREPARED, AGAIN, InvalidTxnState),
        (COMPLETE_ABORT, AGAIN, PREPARED, InvalidTxnState, InvalidTxnState),
    ],
)
def test_each_state_takes_the_end_of_a_transaction_and_its_retry_with_version_2(
    state: State, abort_again: Expected, abort: Expected, commit_again: Expected, commit: Expected
) -> None:
    for epoch, is_commit, expected in (
        (4, False, abort_again),
        (5, False, abort),
        (4, True, commit_again),
        (5, True, commit),
    ):
        coordinator = Coordinator()
        coordinator.put(state, producer_epoch=5, last_epoch=4)
        check_end(coordinator, epoch, is_commit=is_commit, version=2, expected=expected)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("is_commit", [True, False])
def test_producers_of_other_ids_and_epochs_are_refused(version: int, state: State, *, is_commit: bool) -> None:
    coordinator = Coordinator()
    coordinator.put(state, producer_epoch=5, last_epoch=4, previous_producer_id=P - 1)
    for producer_id, epoch, error in (
        (P + 1, 5, InvalidProducerIdMapping),
        (P - 1, 4, InvalidProducerIdMapping),
        (P - 1, 32766, InvalidProducerIdMapping),
        (P, 3, ProducerFenced),
        (P, 6, ProducerFenced),
    ):
        with pytest.raises(error):
            coordinator.end(producer_id, epoch, is_commit=is_commit, version=version)
    assert coordinator.log == []


def test_ending_a_transaction_raises_the_epoch_and_keeps_its_partitions() -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING)
    began_ms = coordinator.now_ms
    coordinator.now_ms += 9
    assert coordinator.end(P, 5, is_commit=True) == Ended(P, 6, is_prepared=True)
    record = coordinator.record
    assert (record.last_epoch, record.version, record.next_producer_id) == (5, 2, -1)
    assert (record.start_ms, record.update_ms) == (began_ms, began_ms + 9)
    assert markers_due(record) == MarkersDue(NAME, P, 6, True, 2, (T0, T1))


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_an_abort_before_anything_began_raises_the_epoch_too(state: State) -> None:
    coordinator = Coordinator()
    coordinator.put(state, start_ms=-1)
    coordinator.now_ms += 9
    assert coordinator.end(P, 5, is_commit=False) == Ended(P, 6, is_prepared=True)
    assert coordinator.record.start_ms == coordinator.now_ms
    assert markers_due(coordinator.record) == MarkersDue(NAME, P, 6, False, 2, ())
    assert coordinator.complete()
    assert coordinator.standing == (P, 6, COMPLETE_ABORT)


def test_a_retry_does_not_end_the_next_transaction() -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING)
    coordinator.end(P, 5, is_commit=True)
    coordinator.complete()
    coordinator.add(P, 6, T0)
    for is_commit in (True, False):
        with pytest.raises(ProducerFenced):
            coordinator.end(P, 5, is_commit=is_commit)
    assert coordinator.standing == (P, 6, ONGOING)


def test_a_producer_whose_transaction_was_aborted_for_another_hears_that_it_was() -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING)
    coordinator.init()
    coordinator.complete()
    with pytest.raises(InvalidTxnState):
        coordinator.end(P, 5, is_commit=True)
    assert coordinator.end(P, 5, is_commit=False) == Ended(P, 6, is_prepared=False)
    coordinator.init()
    with pytest.raises(ProducerFenced):
        coordinator.end(P, 5, is_commit=False)


@pytest.mark.parametrize("fields", [{"version": 0, "last_epoch": 4}, {"version": 2, "last_epoch": -1}])
def test_what_another_producer_committed_is_no_answer_to_the_one_it_replaced(fields: dict[str, int]) -> None:
    coordinator = Coordinator()
    coordinator.put(COMPLETE_COMMIT, producer_epoch=5, **fields)
    with pytest.raises(ProducerFenced):
        coordinator.end(P, 4, is_commit=True)


# Below version 2


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("state", "abort", "commit"),
    [
        (EMPTY, InvalidTxnState, InvalidTxnState),
        (ONGOING, PREPARED, PREPARED),
        (PREPARE_COMMIT, InvalidTxnState, ConcurrentTransactions),
        (PREPARE_ABORT, ConcurrentTransactions, InvalidTxnState),
        (COMPLETE_COMMIT, InvalidTxnState, AGAIN),
        (COMPLETE_ABORT, AGAIN, InvalidTxnState),
    ],
)
def test_each_state_takes_the_end_of_a_transaction_below_version_2(
    version: int, state: State, abort: Expected, commit: Expected
) -> None:
    for is_commit, expected in ((False, abort), (True, commit)):
        coordinator = Coordinator()
        coordinator.put(state, last_epoch=4, version=0)
        check_end(coordinator, 5, is_commit=is_commit, version=version, expected=expected)
        with pytest.raises(ProducerFenced):
            coordinator.end(P, 4, is_commit=is_commit, version=version)


def test_below_version_2_the_producer_keeps_its_epoch_and_so_do_the_markers() -> None:
    coordinator = Coordinator()
    coordinator.put(ONGOING, producer_epoch=32766, last_epoch=32765)
    assert coordinator.end(P, 32766, is_commit=True, version=1) == Ended(-1, -1, is_prepared=True)
    assert markers_due(coordinator.record) == MarkersDue(NAME, P, 32766, True, 0, (T0, T1))
    coordinator.complete()
    assert coordinator.standing == (P, 32766, COMPLETE_COMMIT)
    assert coordinator.record.last_epoch == 32765


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_producer_that_was_downgraded_waits_for_what_version_2_ended(state: State, *, is_commit: bool) -> None:
    coordinator = Coordinator()
    coordinator.put(state, version=2)
    with pytest.raises(ConcurrentTransactions):
        coordinator.end(P, 5, is_commit=is_commit, version=0)


@pytest.mark.parametrize("version", [0, 2])
def test_an_id_without_a_producer_ends_nothing(version: int) -> None:
    with pytest.raises(InvalidProducerIdMapping):
        Coordinator().end(P, 0, is_commit=True, version=version)
    with pytest.raises(InvalidRequest):
        decide_end(Transactions(), "", P, 0, is_commit=True, version=version, next_producer_id=-1, now_ms=0)
