"""A partition in transactions: markers, and the guards of what the coordinator is being asked about."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from barnabas.core.errors import (
    CorruptRecord,
    InvalidProducerEpoch,
    InvalidTxnState,
    NotLeaderOrFollower,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import read_header
from barnabas.core.records.control import MarkerType
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.guards import Guard
from barnabas.runtime.logs import Logs
from barnabas.runtime.partition import Partition
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import SimulatedDisk
from tests.unit.storage.builders import in_transaction, produced

NOW_MS = 5000
PRODUCER = 7
T = TypeVar("T")


class InPlace:
    """Blocking work, done at once."""

    async def run(self, function: Callable[[], T]) -> T:
        return function()


def new_partition(**settings: Any) -> Partition:
    logs = Logs(DataDir(SimulatedDisk(1), "/data"))
    logs.flusher = Flusher(InPlace(), listener=logs)
    config = LogConfig(flush_policy=FlushPolicy.OS, **settings)
    return Partition(TopicPartition("t", 0), logs, config, leader_epoch=0)


def write(partition: Partition, sequence: int, *, epoch: int = 0, guard: Guard | None = None) -> int:
    batch = in_transaction(PRODUCER, sequence, epoch=epoch)
    return partition.append_in_transaction(batch, guard=guard, now_ms=NOW_MS).first_offset


def begun(partition: Partition, *, epoch: int = 0) -> Partition:
    """The partition, with a transaction open."""
    guard = partition.begin_verification(PRODUCER, epoch)
    write(partition, 0, epoch=epoch, guard=guard)
    partition.end_verification(guard)
    return partition


def end(
    partition: Partition,
    epoch: int,
    *,
    version: int = 2,
    coordinator_epoch: int = 0,
    marker: MarkerType = MarkerType.COMMIT,
) -> int:
    return partition.append_marker(
        marker,
        producer_id=PRODUCER,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        version=version,
        now_ms=NOW_MS,
    )


# Guards


def test_a_batch_in_no_transaction_is_refused_without_a_guard() -> None:
    partition = new_partition()
    with pytest.raises(InvalidTxnState, match="no transaction open"):
        write(partition, 0)
    begun(partition, epoch=3)
    assert write(partition, 1, epoch=3) == 1
    with pytest.raises(InvalidTxnState):
        write(partition, 0, epoch=4)
    with pytest.raises(InvalidProducerEpoch):
        write(partition, 0, epoch=2)
    assert partition.end_offset == 2


def test_nothing_is_taken_for_a_repetition_when_its_transaction_has_ended() -> None:
    partition = begun(new_partition())
    assert write(partition, 0) == 0
    end(partition, 0, version=1)
    for sequence in (0, 1):
        with pytest.raises(InvalidTxnState):
            write(partition, sequence)
    guard = partition.begin_verification(PRODUCER, 0)
    with pytest.raises(OutOfOrderSequence):
        write(partition, 0, guard=guard)
    assert write(partition, 1, guard=guard) == 2


def test_a_guard_is_ended_by_a_marker_of_its_transaction() -> None:
    partition = new_partition()
    guard = partition.begin_verification(PRODUCER, 0)
    partition.check_verified(guard)
    end(partition, 0, version=1)
    with pytest.raises(InvalidTxnState, match="was ended"):
        partition.check_verified(guard)
    with pytest.raises(InvalidTxnState, match="was ended"):
        write(partition, 0, guard=guard)
    assert partition.end_offset == 1


def test_a_guard_of_an_epoch_that_a_marker_replaced_is_fenced() -> None:
    partition = new_partition()
    guard = partition.begin_verification(PRODUCER, 0)
    end(partition, 1)
    with pytest.raises(InvalidProducerEpoch):
        write(partition, 0, guard=guard)
    with pytest.raises(InvalidProducerEpoch):
        partition.begin_verification(PRODUCER, 0)


def test_the_marker_of_the_last_transaction_leaves_the_guard_of_the_next_alone() -> None:
    partition = begun(new_partition())
    guard = partition.begin_verification(PRODUCER, 1, begins_anew=True)
    end(partition, 1)
    assert write(partition, 0, epoch=1, guard=guard) == 2


def test_markers_of_other_producers_leave_a_guard_alone() -> None:
    partition = new_partition()
    guard = partition.begin_verification(PRODUCER + 1, 0)
    end(partition, 0, version=1)
    partition.check_verified(guard)


def test_a_guard_does_not_outlive_a_change_of_leaders() -> None:
    partition = new_partition()
    guard = partition.begin_verification(PRODUCER, 0)
    partition.lead(1)
    with pytest.raises(NotLeaderOrFollower):
        write(partition, 0, guard=guard)


def test_a_guard_of_a_deleted_partition_is_of_no_use() -> None:
    partition = new_partition()
    guard = partition.begin_verification(PRODUCER, 0)
    partition.delete()
    with pytest.raises(UnknownTopicOrPartition):
        write(partition, 0, guard=guard)
    partition.end_verification(guard)


def test_several_guards_of_one_producer_hold_at_the_same_time() -> None:
    partition = new_partition()
    first = partition.begin_verification(PRODUCER, 0)
    second = partition.begin_verification(PRODUCER, 0)
    assert write(partition, 0, guard=second) == 0
    partition.end_verification(second)
    assert write(partition, 1, guard=first) == 1
    partition.end_verification(first)
    assert partition._guards is None


def test_a_marker_ends_every_guard_of_its_producer() -> None:
    partition = new_partition()
    guards = [partition.begin_verification(PRODUCER, 0) for _ in range(2)]
    end(partition, 0, version=0)
    for guard in guards:
        with pytest.raises(InvalidTxnState):
            write(partition, 0, guard=guard)
        partition.end_verification(guard)
    assert partition._guards is None


def test_a_guard_makes_no_files() -> None:
    partition = new_partition()
    guard = partition.begin_verification(PRODUCER, 0)
    assert not partition.is_in_transaction(read_header(in_transaction(PRODUCER, 0)))
    partition.end_verification(guard)
    assert not partition.has_log


def test_a_later_batch_does_not_overtake_the_first_of_a_transaction() -> None:
    partition = new_partition()
    guard = partition.begin_verification(PRODUCER, 0, begins_anew=True)
    with pytest.raises(OutOfOrderSequence):
        write(partition, 1, guard=guard)
    assert write(partition, 0, guard=guard) == 0
    assert write(partition, 1, guard=guard) == 1


def test_a_damaged_batch_is_refused_in_a_transaction_too() -> None:
    partition = begun(new_partition())
    batch = in_transaction(PRODUCER, 1)
    batch[-1] ^= 1
    with pytest.raises(CorruptRecord):
        partition.append_in_transaction(batch, guard=None, now_ms=NOW_MS)


# Markers


@pytest.mark.parametrize("marker", [MarkerType.COMMIT, MarkerType.ABORT])
@pytest.mark.parametrize(("version", "epoch"), [(0, 0), (1, 0), (1, 1), (2, 1)])
def test_a_marker_ends_the_transaction_and_says_where_it_is(marker: MarkerType, version: int, epoch: int) -> None:
    partition = begun(new_partition())
    assert partition.last_stable_offset == 0
    assert end(partition, epoch, version=version, marker=marker) == 2
    assert partition.last_stable_offset == 2
    assert len(partition.log.active.txn_index.aborted()) == (marker is MarkerType.ABORT)
    producer = partition.log.producers.get(PRODUCER)
    assert producer is not None
    assert (producer.epoch, producer.last_timestamp, producer.transaction_start) == (epoch, NOW_MS, None)


def test_a_repeated_marker_is_not_written_again() -> None:
    partition = begun(new_partition())
    assert end(partition, 1) == 2
    partition.append(produced(9, 0), now_ms=NOW_MS)
    assert end(partition, 1) == 3
    assert partition.end_offset == 3


def test_a_marker_that_does_not_raise_the_epoch_of_an_open_transaction_is_refused() -> None:
    partition = begun(new_partition(), epoch=3)
    for epoch in (2, 3):
        with pytest.raises(InvalidProducerEpoch):
            end(partition, epoch)
    assert partition.end_offset == 1


def test_a_marker_of_a_coordinator_that_was_replaced_is_refused() -> None:
    partition = begun(new_partition())
    end(partition, 1, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFenced):
        end(partition, 2, coordinator_epoch=4)


def test_a_marker_is_written_where_its_producer_wrote_nothing_and_fences_what_comes_late() -> None:
    partition = new_partition()
    assert end(partition, 1) == 1
    with pytest.raises(InvalidProducerEpoch):
        partition.begin_verification(PRODUCER, 0)
    with pytest.raises(InvalidProducerEpoch):
        write(partition, 0)


def test_a_marker_is_written_however_small_the_limit_of_its_topic() -> None:
    partition = begun(new_partition())
    partition.configure(LogConfig(flush_policy=FlushPolicy.OS, max_message_bytes=1))
    assert end(partition, 1) == 2


def test_a_marker_is_not_durable_before_it_is_flushed() -> None:
    partition = begun(new_partition())
    partition.configure(LogConfig(flush_policy=FlushPolicy.FSYNC))
    end_offset = end(partition, 1)
    acked: list[object] = []
    partition.call_when_acked(end_offset, acked.append)
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
    partition.log.flush()
    partition.note_flushed()
    assert (acked, partition.last_stable_offset) == ([None], 2)
