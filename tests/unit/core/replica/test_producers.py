"""Sequences of idempotent producers and the transactions they have open."""

import pytest

from barnabas.core.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from barnabas.core.records.batch import MAX_SEQUENCE, BatchHeader, Codec, attributes_of
from barnabas.core.records.control import Marker, MarkerType
from barnabas.core.replica.producers import CompletedTransaction, ProducerStates

PRODUCER = 7


def header(
    sequence: int,
    *,
    count: int = 1,
    offset: int = 0,
    epoch: int = 0,
    producer_id: int = PRODUCER,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp: int = 1000,
) -> BatchHeader:
    attributes = attributes_of(Codec.NONE, is_transactional=is_transactional, is_control=is_control)
    return BatchHeader(
        offset, 49, 0, 2, 0, attributes, count - 1, timestamp, timestamp, producer_id, epoch, sequence, count
    )


def in_transaction(sequence: int, *, offset: int, producer_id: int = PRODUCER, epoch: int = 0) -> BatchHeader:
    return header(sequence, offset=offset, producer_id=producer_id, epoch=epoch, is_transactional=True)


def end(
    states: ProducerStates,
    type_: MarkerType,
    *,
    offset: int,
    producer_id: int = PRODUCER,
    epoch: int = 0,
    coordinator_epoch: int = 0,
) -> CompletedTransaction | None:
    batch = header(-1, offset=offset, producer_id=producer_id, epoch=epoch, is_transactional=True, is_control=True)
    return states.apply(batch, Marker(type_, coordinator_epoch))


def states_after(*headers: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    for each in headers:
        states.check(each)
        states.apply(each)
    return states


# Sequences


def test_a_batch_without_a_producer_leaves_no_trace() -> None:
    states = ProducerStates()
    assert states.apply(header(-1, producer_id=-1, epoch=-1)) is None
    assert len(states) == 0


def test_an_unknown_producer_may_begin_with_any_sequence() -> None:
    states = states_after(header(40))
    producer = states.get(PRODUCER)
    assert producer is not None
    assert (producer.epoch, producer.last_sequence, producer.last_data_offset) == (0, 40, 0)


def test_the_next_sequence_is_taken() -> None:
    states = states_after(header(0, count=3), header(3, offset=3))
    states.check(header(4, offset=4))


@pytest.mark.parametrize("sequence", [5, 3, 100])
def test_a_gap_is_refused(sequence: int) -> None:
    states = states_after(header(0, count=4))
    with pytest.raises(OutOfOrderSequence, match="expected 4"):
        states.check(header(sequence, count=2))


def test_checking_changes_nothing() -> None:
    states = states_after(header(0))
    states.check(header(1, offset=1))
    producer = states.get(PRODUCER)
    assert producer is not None
    assert producer.last_sequence == 0


@pytest.mark.parametrize("index", range(5))
def test_each_of_the_last_five_batches_is_known_again(index: int) -> None:
    states = states_after(*(header(2 * n, count=2, offset=10 * n) for n in range(6)))
    written = states.find_duplicate(header(2 * (index + 1), count=2))
    assert written is not None
    assert (written.first_offset, written.last_offset) == (10 * (index + 1), 10 * (index + 1) + 1)


def test_a_retry_older_than_five_batches_is_told_that_it_is_a_duplicate() -> None:
    states = states_after(*(header(n, offset=n) for n in range(6)))
    assert states.find_duplicate(header(0)) is None
    with pytest.raises(DuplicateSequence, match="only the last 5"):
        states.check(header(0))


def test_a_batch_that_overlaps_one_written_before_is_no_retry() -> None:
    states = states_after(header(0, count=3))
    assert states.find_duplicate(header(0, count=2)) is None
    with pytest.raises(OutOfOrderSequence):
        states.check(header(0, count=2))


def test_a_retry_of_another_epoch_is_no_duplicate() -> None:
    states = states_after(header(0))
    assert states.find_duplicate(header(0, epoch=1)) is None


def test_sequences_wrap_to_zero_after_the_largest() -> None:
    states = states_after(header(MAX_SEQUENCE))
    states.check(header(0, offset=1))
    with pytest.raises(OutOfOrderSequence):
        states.check(header(1, offset=1))


def test_a_batch_may_wrap_within() -> None:
    states = states_after(header(MAX_SEQUENCE - 1, count=4))
    producer = states.get(PRODUCER)
    assert producer is not None
    assert producer.last_sequence == 1
    states.check(header(2, offset=4))
    assert states.find_duplicate(header(MAX_SEQUENCE - 1, count=4)) is not None


# Epochs


def test_a_new_epoch_begins_at_sequence_zero() -> None:
    states = states_after(header(0), header(1, offset=1))
    with pytest.raises(OutOfOrderSequence, match="began epoch 1 at sequence 2, not 0"):
        states.check(header(2, offset=2, epoch=1))
    states.check(header(0, offset=2, epoch=1))


def test_a_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    states = states_after(header(0), header(0, offset=1, epoch=1))
    producer = states.get(PRODUCER)
    assert producer is not None
    assert (producer.epoch, len(producer.batches)) == (1, 1)


def test_an_older_epoch_is_fenced() -> None:
    states = states_after(header(0, epoch=3))
    with pytest.raises(InvalidProducerEpoch, match="epoch 3 has replaced it"):
        states.check(header(1, offset=1, epoch=2))


def test_after_a_marker_that_raised_the_epoch_the_producer_begins_at_zero() -> None:
    states = states_after(in_transaction(0, offset=0))
    end(states, MarkerType.COMMIT, offset=1, epoch=1)
    with pytest.raises(OutOfOrderSequence, match="expected 0"):
        states.check(in_transaction(1, offset=2, epoch=1))
    states.check(in_transaction(0, offset=2, epoch=1))


# Transactions


def test_a_transaction_opens_with_its_first_batch() -> None:
    states = states_after(in_transaction(0, offset=4), in_transaction(1, offset=5))
    assert states.open_transactions == {4: PRODUCER}
    assert states.first_unstable_offset(high_watermark=6) == 4


def test_a_write_outside_of_the_open_transaction_is_refused() -> None:
    states = states_after(in_transaction(0, offset=0))
    with pytest.raises(InvalidTxnState, match="open since offset 0"):
        states.check(header(1, offset=1))


@pytest.mark.parametrize(("type_", "is_aborted"), [(MarkerType.COMMIT, False), (MarkerType.ABORT, True)])
def test_a_marker_ends_the_transaction(type_: MarkerType, is_aborted: bool) -> None:
    states = states_after(in_transaction(0, offset=3))
    assert end(states, type_, offset=9) == CompletedTransaction(PRODUCER, 3, 9, is_aborted)
    assert states.open_transactions == {}


def test_a_marker_for_a_transaction_that_wrote_nothing_here_ends_none() -> None:
    states = ProducerStates()
    assert end(states, MarkerType.ABORT, offset=0) is None
    assert end(states, MarkerType.ABORT, offset=1) is None
    assert states.first_unstable_offset(high_watermark=0) is None


def test_a_control_batch_that_is_no_marker_ends_nothing() -> None:
    states = states_after(in_transaction(0, offset=0))
    control = header(-1, offset=1, is_transactional=True, is_control=True)
    assert states.apply(control, None) is None
    assert states.open_transactions == {0: PRODUCER}


def test_a_marker_of_an_older_producer_epoch_is_refused() -> None:
    states = states_after(header(0, epoch=2))
    marker = header(-1, epoch=1, is_transactional=True, is_control=True)
    with pytest.raises(InvalidProducerEpoch):
        states.check_marker(marker, Marker(MarkerType.COMMIT, 0))


def test_a_marker_of_a_coordinator_that_was_replaced_is_refused() -> None:
    states = states_after(in_transaction(0, offset=0))
    end(states, MarkerType.COMMIT, offset=1, coordinator_epoch=5)
    marker = header(-1, is_transactional=True, is_control=True)
    states.check_marker(marker, Marker(MarkerType.COMMIT, 5))
    with pytest.raises(TransactionCoordinatorFenced, match="epoch 5 has replaced it"):
        states.check_marker(marker, Marker(MarkerType.COMMIT, 4))


def test_a_marker_for_an_unknown_producer_is_taken() -> None:
    ProducerStates().check_marker(header(-1, is_control=True), Marker(MarkerType.ABORT, 0))


def test_the_oldest_open_transaction_holds_the_stable_offset_back() -> None:
    states = states_after(in_transaction(0, offset=2, producer_id=1), in_transaction(0, offset=5, producer_id=2))
    aborted = end(states, MarkerType.ABORT, offset=8, producer_id=2)
    assert aborted is not None
    assert states.last_stable_offset_after(aborted) == 2
    assert states.first_unstable_offset(high_watermark=9) == 2
    committed = end(states, MarkerType.COMMIT, offset=9, producer_id=1)
    assert committed is not None
    assert states.last_stable_offset_after(committed) == 10
    assert states.first_unstable_offset(high_watermark=10) is None


def test_an_ended_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    states = states_after(in_transaction(0, offset=2))
    end(states, MarkerType.COMMIT, offset=6)
    assert states.first_unstable_offset(high_watermark=6) == 2
    assert states.first_unstable_offset(high_watermark=7) is None


# Expiry and snapshots


def test_producers_that_are_silent_for_long_are_forgotten() -> None:
    states = states_after(header(0), header(0, producer_id=8))
    assert states.expire(now_ms=5000, idle_ms=1000) == 0
    states.apply(header(1, producer_id=8))
    assert states.expire(now_ms=5999, idle_ms=1000) == 0
    assert states.expire(now_ms=6000, idle_ms=1000) == 1
    assert [producer.producer_id for producer in states] == [8]
    assert states.expire(now_ms=6998, idle_ms=1000) == 0
    assert states.expire(now_ms=6999, idle_ms=1000) == 1


def test_a_producer_of_records_of_long_ago_is_remembered_as_long_as_any() -> None:
    states = states_after(header(0, timestamp=1))
    for now_ms in (10**12, 10**12 + 900):
        assert states.expire(now_ms=now_ms, idle_ms=1000) == 0
    states.apply(header(1, timestamp=2))
    assert states.expire(now_ms=10**12 + 1800, idle_ms=1000) == 0


def test_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    states = states_after(in_transaction(0, offset=0))
    for now_ms in (0, 10**15):
        assert states.expire(now_ms=now_ms, idle_ms=1000) == 0
    assert len(states) == 1


def test_a_restored_state_has_its_transactions_open_oldest_first() -> None:
    states = states_after(in_transaction(0, offset=5, producer_id=2), in_transaction(0, offset=6, producer_id=1))
    restored = ProducerStates()
    restored.restore(sorted(states, key=lambda producer: producer.producer_id))
    assert list(restored.open_transactions.items()) == [(5, 2), (6, 1)]
    assert restored.first_unstable_offset(high_watermark=7) == 5


def test_a_restored_state_is_a_copy() -> None:
    states = states_after(header(0))
    restored = ProducerStates()
    restored.restore(states)
    restored.apply(header(1, offset=1))
    original = states.get(PRODUCER)
    assert original is not None
    assert original.last_sequence == 0


def test_a_gap_where_sequences_wrap_does_not_pass_for_a_duplicate() -> None:
    states = states_after(header(MAX_SEQUENCE))
    with pytest.raises(OutOfOrderSequence, match="expected 0"):
        states.check(header(1, offset=1))


def test_an_old_retry_from_before_the_wrap_is_a_duplicate() -> None:
    states = states_after(header(MAX_SEQUENCE), *(header(n, offset=n + 1) for n in range(5)))
    with pytest.raises(DuplicateSequence):
        states.check(header(MAX_SEQUENCE))
