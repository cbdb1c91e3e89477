"""Appending: offsets are given, segments roll, refusals leave no trace."""

import copy
import errno
from collections.abc import Callable

import pytest

from barnabas.core.errors import (
    BarnabasError,
    CorruptRecord,
    DuplicateSequence,
    FencedLeaderEpoch,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordTooLarge,
    StorageError,
    TransactionCoordinatorFenced,
    UnsupportedCompression,
    UnsupportedRecordFormat,
)
from barnabas.core.records.batch import Codec, read_header, seal
from barnabas.core.records.control import MarkerType
from barnabas.core.records.record import decode_batch
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.log import Log
from barnabas.testing.disk import Keep, SimulatedDisk
from tests.unit.storage.builders import (
    NOW_MS,
    PARTITION,
    SMALL,
    abort,
    all_bytes,
    append,
    claiming,
    commit,
    files_of,
    fill,
    in_transaction,
    marker,
    new_log,
    offsets,
    open_dir,
    plain,
    produced,
    records,
    reopened,
)


def patched(batch: bytearray, byte: int, value: int) -> bytearray:
    """The batch with one byte changed and its checksum right again."""
    batch[byte] = value
    seal(batch, 0, len(batch))
    return batch


# Offsets


def test_a_batch_gets_the_next_offsets_and_the_leader_s_epoch() -> None:
    log = new_log(SimulatedDisk())
    first = log.append(plain(3), leader_epoch=5, now_ms=NOW_MS)
    data = plain(2)
    second = log.append(data, leader_epoch=6, now_ms=NOW_MS)
    assert (first.first_offset, first.last_offset) == (0, 2)
    assert (second.first_offset, second.last_offset) == (3, 4)
    header = read_header(data)
    assert (header.base_offset, header.leader_epoch) == (3, 6)
    assert offsets(log) == [0, 1, 2, 3, 4]
    assert log.epochs.entries == ((5, 0), (6, 3))


def test_several_batches_are_written_in_one_go() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    before = disk.mutations
    appended = log.append(plain(2) + plain(1) + plain(3), leader_epoch=0, now_ms=NOW_MS)
    assert (appended.first_offset, appended.last_offset) == (0, 5)
    assert offsets(log) == [0, 1, 2, 3, 4, 5]
    assert disk.mutations == before + 1


def test_what_is_on_disk_is_what_came_over_the_wire_but_for_offset_and_epoch() -> None:
    log = new_log(SimulatedDisk())
    batch = plain(2, value=b"x" * 300, codec=Codec.ZSTD)
    wire = bytes(batch)
    append(log, plain(), batch)
    stored = all_bytes(log)[-len(wire) :]
    assert stored[16:] == wire[16:]
    assert [record.value for record in decode_batch(stored)] == [b"x" * 300] * 2


def test_under_log_append_time_the_log_puts_its_own_time() -> None:
    log = new_log(SimulatedDisk(), LogConfig(message_timestamp_type="LogAppendTime"))
    appended = log.append(plain(2, timestamp=5), leader_epoch=0, now_ms=NOW_MS)
    assert appended.log_append_time == NOW_MS
    assert [record.timestamp for record in records(log)] == [NOW_MS, NOW_MS]
    both = log.append(plain(timestamp=5) + plain(timestamp=6), leader_epoch=0, now_ms=NOW_MS + 1)
    assert both.log_append_time == NOW_MS + 1


def test_a_marker_keeps_its_time_under_log_append_time() -> None:
    log = new_log(SimulatedDisk(), LogConfig(message_timestamp_type="LogAppendTime"))
    append(log, in_transaction(7, 0))
    appended = log.append(marker(MarkerType.COMMIT, 7, timestamp=77), leader_epoch=0, now_ms=NOW_MS)
    assert appended.log_append_time == -1
    assert records(log)[-1].timestamp == 77


# Rolling


def test_a_segment_rolls_before_it_grows_beyond_its_size() -> None:
    log = new_log(SimulatedDisk(), SMALL)
    fill(log, 20)
    assert len(log.segments) > 3
    assert all(segment.size <= SMALL.segment_bytes for segment in log.segments)
    assert log.segments[0].base_offset == 0
    assert offsets(log) == list(range(20))


def test_a_batch_larger_than_a_segment_gets_one_of_its_own() -> None:
    log = new_log(SimulatedDisk(), SMALL)
    append(log, plain(), plain(value=b"x" * 5000), plain())
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]


def test_a_segment_rolls_when_a_record_is_much_later_than_its_first() -> None:
    log = new_log(SimulatedDisk(), LogConfig(segment_ms=1000))
    append(log, plain(timestamp=NOW_MS), plain(timestamp=NOW_MS + 1000), plain(timestamp=NOW_MS + 1001))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_the_age_of_a_segment_counts_from_its_first_record_after_a_restart_too() -> None:
    disk = SimulatedDisk()
    config = LogConfig(segment_ms=1000)
    append(new_log(disk, config), plain(timestamp=NOW_MS))
    disk.restart()
    log = open_dir(disk, config).logs[PARTITION]
    append(log, plain(timestamp=NOW_MS + 1000), plain(timestamp=NOW_MS + 1001))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_rolls_before_an_offset_does_not_fit_its_index() -> None:
    log = new_log(SimulatedDisk())
    log.append_as_follower(plain(base_offset=0, leader_epoch=0))
    wide = claiming(plain(base_offset=1, leader_epoch=0), last_offset_delta=2**31 - 1)
    log.append_as_follower(wide)
    log.append_as_follower(plain(base_offset=2**31 + 1, leader_epoch=0))
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2**31 + 1]


def test_an_empty_segment_does_not_roll() -> None:
    log = new_log(SimulatedDisk())
    log.roll()
    assert len(log.segments) == 1
    append(log, plain())
    log.roll()
    log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_a_changed_configuration_holds_from_the_next_append_on() -> None:
    log = new_log(SimulatedDisk(), LogConfig())
    fill(log, 4)
    log.config = SMALL
    fill(log, 2)
    assert len(log.segments) > 1
    log.config = LogConfig(max_message_bytes=80)
    with pytest.raises(RecordTooLarge):
        append(log, plain(value=b"x" * 100))


# Idempotence and transactions


def test_a_retry_gets_the_offsets_of_the_batch_it_repeats_and_is_not_written() -> None:
    log = new_log(SimulatedDisk())
    for n in range(6):
        append(log, produced(7, 2 * n, count=2))
    size = log.size
    for n in range(1, 6):
        appended = log.append(produced(7, 2 * n, count=2), leader_epoch=0, now_ms=NOW_MS)
        assert appended == (2 * n, 2 * n + 1, -1, True)
    assert log.size == size


def test_an_aborted_transaction_is_noted_with_the_stable_offset_of_its_time() -> None:
    log = new_log(SimulatedDisk())
    append(log, in_transaction(7, 0), in_transaction(8, 0), abort(8), commit(7))
    assert log.active.txn_index.aborted() == [(8, 1, 2, 0)]


def test_the_stable_offset_is_held_back_by_an_open_transaction_and_an_unreplicated_marker() -> None:
    log = new_log(SimulatedDisk())
    append(log, plain(), in_transaction(7, 0), plain())
    assert log.last_stable_offset(high_watermark=3) == 1
    append(log, commit(7))
    assert log.last_stable_offset(high_watermark=3) == 1
    assert log.last_stable_offset(high_watermark=4) == 4


# Following


def test_a_follower_takes_batches_as_they_are() -> None:
    leader, follower = new_log(SimulatedDisk(), SMALL), new_log(SimulatedDisk(), SMALL)
    append(leader, plain(2), produced(7, 0), in_transaction(8, 0), abort(8), leader_epoch=3)
    append(leader, plain(), leader_epoch=4)
    data = all_bytes(leader)
    appended = follower.append_as_follower(bytearray(data))
    assert (appended.first_offset, appended.last_offset) == (0, 5)
    assert all_bytes(follower) == data
    assert follower.epochs.entries == leader.epochs.entries
    assert list(follower.producers) == list(leader.producers)
    assert follower.active.txn_index.aborted() == leader.active.txn_index.aborted()


def test_a_follower_takes_the_gaps_of_a_compacted_leader() -> None:
    log = new_log(SimulatedDisk())
    log.append_as_follower(plain(base_offset=5, leader_epoch=0) + plain(base_offset=9, leader_epoch=0))
    assert (log.end_offset, offsets(log)) == (10, [5, 9])


@pytest.mark.parametrize("count", [0, 3])
def test_a_follower_takes_a_gap_wider_than_a_segment_can_be(count: int) -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    if count:
        append(log, plain(count))
    far = 2**33
    data = plain(base_offset=far, leader_epoch=0) + plain(base_offset=far + 1, leader_epoch=0)
    assert log.append_as_follower(data) == (far, far + 1, -1, False)
    log.flush()
    disk.crash(Keep.NOTHING)
    assert offsets(reopened(disk)) == [*range(count), far, far + 1]


def test_a_leader_that_begins_an_epoch_notes_it_before_it_writes() -> None:
    log = new_log(SimulatedDisk())
    append(log, plain(), leader_epoch=1)
    log.note_leader_epoch(4)
    assert log.epochs.entries == ((1, 0), (4, 1))
    with pytest.raises(FencedLeaderEpoch):
        append(log, plain(), leader_epoch=3)


# Refusals


def trace(log: Log, disk: SimulatedDisk) -> tuple[object, ...]:
    """Everything about a log that an append may change."""
    return (
        log.end_offset,
        log.flushed_offset,
        log.epochs.entries,
        copy.deepcopy(list(log.producers)),
        dict(log.producers.open_transactions),
        [segment.base_offset for segment in log.segments],
        log.active.newest_timestamp(),
        files_of(disk),
    )


def damaged(batch: bytearray) -> bytearray:
    batch[-1] ^= 1
    return batch


REFUSED: list[tuple[str, Callable[[], bytearray], type[BarnabasError]]] = [
    ("nothing", bytearray, CorruptRecord),
    ("too few bytes", lambda: plain()[:40], CorruptRecord),
    ("a wrong checksum", lambda: damaged(plain()), CorruptRecord),
    ("a wrong checksum of the second batch", lambda: plain() + damaged(plain()), CorruptRecord),
    ("half a batch at the end", lambda: plain() + plain()[:70], CorruptRecord),
    ("an old format", lambda: patched(plain(), 16, 1), UnsupportedRecordFormat),
    ("an unknown codec", lambda: patched(plain(), 22, 7), UnsupportedCompression),
    ("too many bytes", lambda: plain(value=b"x" * 3000), RecordTooLarge),
    ("too many bytes in the second batch", lambda: plain() + plain(value=b"x" * 3000), RecordTooLarge),
    ("fewer records than offsets", lambda: claiming(plain(2), record_count=1), InvalidRecord),
    ("more records than offsets", lambda: claiming(plain(2), record_count=3), InvalidRecord),
    ("no records", lambda: claiming(plain(), record_count=0, last_offset_delta=-1), InvalidRecord),
    ("several batches of a producer", lambda: produced(9, 0) + produced(9, 1), InvalidRecord),
    ("a producer's batch among others", lambda: plain() + produced(9, 0), InvalidRecord),
    ("a transaction without a producer", lambda: patched(plain(), 22, 0x10), InvalidRecord),
    ("a marker without a producer", lambda: patched(plain(), 22, 0x30), InvalidRecord),
    ("a gap in the sequence", lambda: produced(7, 9), OutOfOrderSequence),
    ("a retry from long ago", lambda: produced(7, 0), DuplicateSequence),
    ("a producer that was replaced", lambda: produced(8, 1, epoch=1), InvalidProducerEpoch),
    ("a write outside of the transaction", lambda: produced(6, 1), InvalidTxnState),
    ("a marker of a producer that was replaced", lambda: abort(8, epoch=1), InvalidProducerEpoch),
    (
        "a marker of a coordinator that was replaced",
        lambda: marker(MarkerType.ABORT, 5, coordinator_epoch=3),
        TransactionCoordinatorFenced,
    ),
]


@pytest.mark.parametrize(("batch", "error"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_refused_append_leaves_no_trace(batch: Callable[[], bytearray], error: type[BarnabasError]) -> None:
    disk = SimulatedDisk()
    log = new_log(disk, LogConfig(max_message_bytes=2000))
    for n in range(7):
        append(log, produced(7, n))
    append(log, produced(8, 0, epoch=2), in_transaction(5, 0))
    append(log, marker(MarkerType.COMMIT, 5, coordinator_epoch=4), in_transaction(6, 0))
    before, data = trace(log, disk), batch()
    sent = bytes(data)
    with pytest.raises(error):
        log.append(data, leader_epoch=0, now_ms=NOW_MS)
    assert trace(log, disk) == before
    assert bytes(data) == sent
    append(log, plain())


def test_a_leader_of_an_epoch_that_is_over_is_refused() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain(), leader_epoch=5)
    before = trace(log, disk)
    with pytest.raises(FencedLeaderEpoch, match="epoch 4 is stale"):
        append(log, plain(), leader_epoch=4)
    assert trace(log, disk) == before


def bad_marker(base_offset: int) -> bytearray:
    """A control batch of a transaction whose record has no type, its checksum right."""
    return patched(produced(7, 0, base_offset=base_offset, leader_epoch=2, is_transactional=True), 22, 0x30)


FOLLOWER_REFUSED: list[tuple[str, bytearray, type[BarnabasError]]] = [
    ("nothing", bytearray(), CorruptRecord),
    ("a wrong checksum", damaged(plain(base_offset=3, leader_epoch=2)), CorruptRecord),
    ("an offset that is taken", plain(base_offset=2, leader_epoch=2), OffsetOutOfRange),
    (
        "offsets that go back",
        plain(base_offset=5, leader_epoch=2) + plain(base_offset=5, leader_epoch=2),
        OffsetOutOfRange,
    ),
    ("an epoch that is over", plain(base_offset=3, leader_epoch=1), FencedLeaderEpoch),
    (
        "epochs that go back",
        plain(base_offset=3, leader_epoch=5) + plain(base_offset=4, leader_epoch=3),
        FencedLeaderEpoch,
    ),
    ("a marker that is none", plain(base_offset=3, leader_epoch=2) + bad_marker(4), BarnabasError),
]


@pytest.mark.parametrize(
    ("data", "error"), [case[1:] for case in FOLLOWER_REFUSED], ids=[case[0] for case in FOLLOWER_REFUSED]
)
def test_what_a_follower_refuses_leaves_no_trace(data: bytearray, error: type[BarnabasError]) -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain(3), leader_epoch=2)
    before = trace(log, disk)
    with pytest.raises(error):
        log.append_as_follower(bytearray(data))
    assert trace(log, disk) == before


def test_a_write_that_fails_takes_the_directory_offline() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain())
    disk.fail_write(lambda path: path.endswith(".log"), after_bytes=10, error=errno.EIO)
    with pytest.raises(StorageError, match="taken offline"):
        append(log, plain())
    disk.clear_faults()
    with pytest.raises(StorageError, match="is offline"):
        append(log, plain())
    with pytest.raises(StorageError, match="is offline"):
        log.append_as_follower(plain(base_offset=1, leader_epoch=0))
    assert log.end_offset == 1


@pytest.mark.parametrize("policy", list(FlushPolicy))
def test_a_failed_sync_takes_the_directory_offline_and_is_not_tried_again(policy: FlushPolicy) -> None:
    disk = SimulatedDisk()
    log = new_log(disk, LogConfig(flush_policy=policy))
    append(log, plain())
    disk.fail_sync(lambda path: path.endswith(".log"))
    with pytest.raises(StorageError, match="taken offline"):
        log.flush()
    syncs = disk.syncs.total()
    for attempt in (log.flush, log.begin_flush, lambda: append(log, plain()), log.close):
        with pytest.raises(StorageError, match="is offline"):
            attempt()
    assert disk.syncs.total() == syncs
    assert log.flushed_offset == 0
