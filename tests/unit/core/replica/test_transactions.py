"""Transactions in one log: which batches belong to one, which markers end one, and who is not forgotten meanwhile."""

import pytest

from barnabas.core.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from barnabas.core.records.batch import BatchHeader
from barnabas.core.records.control import Marker, MarkerType
from barnabas.core.replica.producers import MAX_PRODUCER_EPOCH, ProducerStates, marker_ends
from tests.unit.core.replica.test_producers import PRODUCER, end, header, in_transaction, states_after

COMMIT = Marker(MarkerType.COMMIT, 0)


def marker(epoch: int) -> BatchHeader:
    return header(-1, epoch=epoch, is_transactional=True, is_control=True)


# Which batches belong to a transaction


def test_only_batches_of_the_epoch_that_has_a_transaction_open_belong_to_it() -> None:
    states = states_after(in_transaction(0, offset=0, epoch=3))
    assert states.is_in_transaction(in_transaction(1, offset=1, epoch=3))
    assert not states.is_in_transaction(in_transaction(1, offset=1, epoch=4))
    assert not states.is_in_transaction(in_transaction(1, offset=1, epoch=2))
    assert not states.is_in_transaction(in_transaction(0, offset=1, producer_id=8))


def test_after_the_marker_nothing_belongs_to_the_transaction() -> None:
    states = states_after(in_transaction(0, offset=0))
    end(states, MarkerType.COMMIT, offset=1)
    assert not states.is_in_transaction(in_transaction(0, offset=9))
    assert not states.is_in_transaction(in_transaction(1, offset=9))


# What is a retry


@pytest.mark.parametrize("type_", [MarkerType.COMMIT, MarkerType.ABORT])
def test_what_a_marker_has_ended_is_not_repeated(type_: MarkerType) -> None:
    states = states_after(in_transaction(0, offset=0), in_transaction(1, offset=1))
    assert states.admit(in_transaction(1, offset=9)) is not None
    end(states, type_, offset=2)
    for sequence in (0, 1):
        with pytest.raises(OutOfOrderSequence, match=f"sent sequence {sequence}, expected 2"):
            states.admit(in_transaction(sequence, offset=9))
    assert states.admit(in_transaction(2, offset=9)) is None


@pytest.mark.parametrize("batches", [2, 7])  # all of them remembered, or not
def test_nor_is_it_by_a_batch_outside_of_transactions(batches: int) -> None:
    states = states_after(*(in_transaction(number, offset=number) for number in range(batches)))
    end(states, MarkerType.ABORT, offset=batches)
    for sequence in range(batches):
        with pytest.raises(OutOfOrderSequence, match=f"sent sequence {sequence}, expected {batches}"):
            states.admit(header(sequence, offset=99))


def test_in_the_next_transaction_only_its_own_batches_are_repeated() -> None:
    states = states_after(in_transaction(0, offset=0))
    end(states, MarkerType.ABORT, offset=1)
    states.apply(in_transaction(1, offset=2))
    with pytest.raises(OutOfOrderSequence):
        states.admit(in_transaction(0, offset=9))
    written = states.admit(in_transaction(1, offset=9))
    assert written is not None
    assert written.first_offset == 2


def test_a_batch_older_than_those_remembered_is_no_duplicate_of_an_ended_one() -> None:
    """A client takes a duplicate for written."""
    states = states_after(*(in_transaction(sequence, offset=sequence) for sequence in range(6)))
    with pytest.raises(DuplicateSequence):
        states.check(in_transaction(0, offset=9))
    end(states, MarkerType.ABORT, offset=6)
    with pytest.raises(OutOfOrderSequence):
        states.check(in_transaction(0, offset=9))
    for sequence in range(6, 11):
        states.apply(in_transaction(sequence, offset=sequence + 1))
    with pytest.raises(OutOfOrderSequence):
        states.check(in_transaction(5, offset=19))  # all that is remembered, and all of this transaction
    states.apply(in_transaction(11, offset=12))
    with pytest.raises(DuplicateSequence):
        states.check(in_transaction(6, offset=19))


def test_a_producer_without_transactions_repeats_its_batches_whatever_markers_say_of_others() -> None:
    states = states_after(header(0), in_transaction(0, offset=1, producer_id=8))
    end(states, MarkerType.ABORT, offset=2, producer_id=8)
    assert states.admit(header(0, offset=9)) is not None


def test_batches_of_an_open_transaction_are_admitted_and_noted_as_any() -> None:
    states = states_after(in_transaction(0, offset=5))
    following = in_transaction(1, offset=0)
    assert states.admit(following) is None
    states.note_data(following, first_offset=6, last_offset=6, timestamp=1000)
    applied = states_after(in_transaction(0, offset=5), in_transaction(1, offset=6))
    assert states.get(PRODUCER) == applied.get(PRODUCER)
    assert states.open_transactions == {5: PRODUCER}


def test_a_transaction_begun_by_an_append_is_noted_as_by_a_replay() -> None:
    states = states_after(header(0))
    states.note_data(in_transaction(1, offset=0), first_offset=1, last_offset=1, timestamp=1000)
    assert states.get(PRODUCER) == states_after(header(0), in_transaction(1, offset=1)).get(PRODUCER)
    assert states.open_transactions == {1: PRODUCER}


def test_a_producer_with_an_epoch_for_each_transaction_begins_at_0() -> None:
    states = ProducerStates()
    states.check_begins_anew(in_transaction(0, offset=0))
    with pytest.raises(OutOfOrderSequence, match="at sequence 2, not 0"):
        states.check_begins_anew(in_transaction(2, offset=0))
    states_after(in_transaction(0, offset=0)).check_begins_anew(in_transaction(1, offset=0))


def test_a_batch_from_before_the_first_that_was_taken_is_not_said_to_be_written() -> None:
    states = states_after(in_transaction(1, offset=0), in_transaction(2, offset=1))  # and 0 was refused
    with pytest.raises(OutOfOrderSequence):
        states.check(in_transaction(0, offset=2))
    for sequence in (3, 4, 5, 6):
        states.apply(in_transaction(sequence, offset=sequence))
    with pytest.raises(DuplicateSequence):
        states.check(in_transaction(1, offset=7))


# Which markers are taken


@pytest.mark.parametrize("version", [0, 1])
def test_before_version_2_a_marker_has_the_epoch_of_its_transaction_or_a_later_one(version: int) -> None:
    states = states_after(in_transaction(0, offset=0, epoch=2))
    assert states.check_marker(marker(2), COMMIT, version=version)
    assert states.check_marker(marker(3), COMMIT, version=version)
    with pytest.raises(InvalidProducerEpoch):
        states.check_marker(marker(1), COMMIT, version=version)
    end(states, MarkerType.COMMIT, offset=1, epoch=2)
    assert states.check_marker(marker(2), COMMIT, version=version)  # it cannot be told from the end of the next


def test_from_version_2_on_a_marker_raises_the_epoch() -> None:
    states = states_after(in_transaction(0, offset=0, epoch=2))
    for epoch in (1, 2):
        with pytest.raises(InvalidProducerEpoch):
            states.check_marker(marker(epoch), COMMIT, version=2)
    assert states.check_marker(marker(3), COMMIT, version=2)


def test_from_version_2_on_a_repeated_marker_ends_nothing() -> None:
    states = states_after(in_transaction(0, offset=0, epoch=2))
    end(states, MarkerType.COMMIT, offset=1, epoch=3, coordinator_epoch=4)
    assert not states.check_marker(marker(3), Marker(MarkerType.COMMIT, 4), version=2)
    assert states.check_marker(marker(4), Marker(MarkerType.COMMIT, 4), version=2)
    with pytest.raises(InvalidProducerEpoch):
        states.check_marker(marker(2), Marker(MarkerType.COMMIT, 4), version=2)
    with pytest.raises(TransactionCoordinatorFenced):
        states.check_marker(marker(3), Marker(MarkerType.COMMIT, 3), version=2)


def test_a_late_marker_does_not_end_the_next_transaction() -> None:
    states = states_after(in_transaction(0, offset=0, epoch=2))
    end(states, MarkerType.COMMIT, offset=1, epoch=3)
    states.apply(in_transaction(0, offset=2, epoch=3))
    with pytest.raises(InvalidProducerEpoch):
        states.check_marker(marker(3), COMMIT, version=2)


def test_a_transaction_in_the_last_epoch_can_be_ended() -> None:
    states = states_after(in_transaction(0, offset=0, epoch=MAX_PRODUCER_EPOCH))
    assert states.check_marker(marker(MAX_PRODUCER_EPOCH), COMMIT, version=2)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_marker_for_an_unknown_producer_is_taken_and_its_epoch_remembered(version: int) -> None:
    states = ProducerStates()
    assert states.check_marker(marker(5), COMMIT, version=version)
    end(states, MarkerType.ABORT, offset=0, epoch=5)
    with pytest.raises(InvalidProducerEpoch):
        states.check_epoch(PRODUCER, 4)
    states.check_epoch(PRODUCER, 5)


@pytest.mark.parametrize(
    ("marker_epoch", "version", "ends"),
    [(4, 0, False), (5, 0, True), (6, 0, True), (4, 2, False), (5, 2, False), (6, 2, True)],
)
def test_a_marker_ends_transactions_of_its_epoch_unless_it_raised_that(
    marker_epoch: int, version: int, ends: bool
) -> None:
    assert marker_ends(5, marker_epoch=marker_epoch, version=version) is ends


# Expiry


def test_a_producer_is_forgotten_only_after_its_transaction_has_ended() -> None:
    states = states_after(in_transaction(0, offset=0))
    for now_ms in (0, 10_000, 20_000):
        assert states.expire(now_ms=now_ms, idle_ms=1000) == 0
    end(states, MarkerType.ABORT, offset=1)
    assert states.expire(now_ms=20_999, idle_ms=1000) == 0
    assert states.expire(now_ms=21_000, idle_ms=1000) == 1


def test_a_producer_seen_only_between_its_transactions_is_not_idle() -> None:
    states = ProducerStates()
    for epoch in range(5):
        states.apply(in_transaction(0, offset=2 * epoch, epoch=epoch))
        end(states, MarkerType.COMMIT, offset=2 * epoch + 1, epoch=epoch + 1)
        assert states.expire(now_ms=1000 * epoch, idle_ms=1000) == 0
