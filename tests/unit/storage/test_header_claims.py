"""What a log refuses or takes on the word of a batch header alone."""

import pytest

from barnabas.core.errors import InvalidRecord
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import read_header, seal, write_header
from barnabas.core.records.control import MarkerType, encode_marker
from barnabas.core.records.record import Record, encode_batch
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.storage.names import RECOVERY_POINTS
from barnabas.testing.disk import SimulatedDisk

PARTITION = TopicPartition("t", 0)


def new_log(disk: SimulatedDisk) -> Log:
    return DataDir(disk, "/data").create_log(PARTITION, LogConfig())


def transactional(value: bytes) -> bytearray:
    """As a coordinator writes offsets within a producer's transaction: without a sequence."""
    return encode_batch([Record(0, 1, b"k", value)], producer_id=7, producer_epoch=0, is_transactional=True)


def test_writes_of_a_transaction_without_sequences_are_never_duplicates() -> None:
    disk = SimulatedDisk(1)
    log = new_log(disk)
    offsets = [log.append(transactional(value), leader_epoch=0, now_ms=0) for value in (b"a", b"b", b"b")]
    assert [(each.first_offset, each.is_duplicate) for each in offsets] == [(0, False), (1, False), (2, False)]
    assert log.last_stable_offset(log.end_offset) == 0
    marker = encode_marker(MarkerType.COMMIT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1)
    log.append(marker, leader_epoch=0, now_ms=0)
    assert log.last_stable_offset(log.end_offset) == 4
    log.flush()

    disk.crash()
    data_dir = DataDir(disk, "/data")
    list(data_dir.open_logs(lambda _: LogConfig()))
    producer = data_dir.logs[PARTITION].producers.get(7)
    assert producer is not None
    assert (producer.epoch, producer.batches, producer.transaction_start) == (0, (), None)


def test_a_batch_cannot_use_up_more_offsets_than_its_bytes_could_hold() -> None:
    log = new_log(SimulatedDisk(1))
    batch = encode_batch([Record(0, 1, None, b"v")])
    header = read_header(batch)._replace(record_count=2**31 - 1, last_offset_delta=2**31 - 2)
    write_header(batch, 0, header)
    seal(batch, 0, len(batch))
    with pytest.raises(InvalidRecord, match="claims"):
        log.append(batch, leader_epoch=0, now_ms=0)
    assert log.end_offset == 0


def test_a_lost_recovery_point_does_not_put_what_is_compacted_in_doubt() -> None:
    disk = SimulatedDisk(1)
    data_dir = DataDir(disk, "/data")
    data_dir.checkpoints.set_recovery_point(PARTITION, 50)
    data_dir.checkpoints.set_cleaned_to(PARTITION, 40)
    data_dir.checkpoints.write()
    disk.remove(f"/data/{RECOVERY_POINTS}")
    assert DataDir(disk, "/data").checkpoints.recovery_point(PARTITION) == 40
