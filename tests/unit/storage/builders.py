"""Batches, logs and data directories for tests, each in one line."""

import struct

from barnabas.core.model import NO_EPOCH, TopicPartition
from barnabas.core.records.batch import Codec, iter_batches, seal
from barnabas.core.records.control import MarkerType, encode_marker
from barnabas.core.records.record import Record, decode_batch, encode_batch
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.testing.disk import SimulatedDisk

DATA = "/data"
PARTITION = TopicPartition("topic", 0)
LOG_DIRECTORY = f"{DATA}/{PARTITION}"
NOW_MS = 1_700_000_000_000

# Small enough that a few batches make several segments, with an index entry for nearly every batch.
SMALL = LogConfig(segment_bytes=1024, index_interval_bytes=0)


def plain(
    count: int = 1,
    *,
    timestamp: int = NOW_MS,
    value: bytes = b"value",
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
    codec: Codec = Codec.NONE,
) -> bytearray:
    """A batch of a producer that asks for nothing."""
    return encode_batch(
        [Record(base_offset + index, timestamp, None, value) for index in range(count)],
        leader_epoch=leader_epoch,
        codec=codec,
    )


def produced(
    producer_id: int,
    sequence: int,
    *,
    count: int = 1,
    epoch: int = 0,
    is_transactional: bool = False,
    timestamp: int = NOW_MS,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytearray:
    """A batch of an idempotent or transactional producer."""
    return encode_batch(
        [Record(base_offset + index, timestamp, b"key", b"value") for index in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
        leader_epoch=leader_epoch,
    )


def in_transaction(producer_id: int, sequence: int, *, epoch: int = 0, count: int = 1) -> bytearray:
    return produced(producer_id, sequence, epoch=epoch, count=count, is_transactional=True)


def marker(
    type_: MarkerType, producer_id: int, *, epoch: int = 0, coordinator_epoch: int = 0, timestamp: int = NOW_MS
) -> bytearray:
    return encode_marker(
        type_,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=timestamp,
    )


def commit(producer_id: int, *, epoch: int = 0) -> bytearray:
    return marker(MarkerType.COMMIT, producer_id, epoch=epoch)


def abort(producer_id: int, *, epoch: int = 0) -> bytearray:
    return marker(MarkerType.ABORT, producer_id, epoch=epoch)


def claiming(batch: bytearray, *, record_count: int | None = None, last_offset_delta: int | None = None) -> bytearray:
    """The batch with other counts in its header, its checksum right."""
    if last_offset_delta is not None:
        struct.pack_into(">i", batch, 23, last_offset_delta)
    if record_count is not None:
        struct.pack_into(">i", batch, 57, record_count)
    seal(batch, 0, len(batch))
    return batch


def open_dir(disk: SimulatedDisk, config: LogConfig = SMALL, *, max_open_files: int = 64) -> DataDir:
    """The data directory of `disk` with all its logs open."""
    data_dir = DataDir(disk, DATA, max_open_files=max_open_files)
    for _ in data_dir.open_logs(lambda _partition: config):
        pass
    return data_dir


def new_log(disk: SimulatedDisk, config: LogConfig = SMALL) -> Log:
    """A log in a data directory of its own."""
    return open_dir(disk, config).create_log(PARTITION, config)


def reopened(disk: SimulatedDisk, config: LogConfig = SMALL) -> Log:
    """The log again, after whatever happened to the process."""
    data_dir = open_dir(disk, config)
    if PARTITION in data_dir.unreadable:
        raise data_dir.unreadable[PARTITION]
    return data_dir.logs[PARTITION]


def append(log: Log, *batches: bytearray, leader_epoch: int = 0) -> None:
    """Append each batch by itself."""
    for batch in batches:
        log.append(batch, leader_epoch=leader_epoch, now_ms=NOW_MS)


def fill(log: Log, count: int, *, value: bytes = b"v" * 200, leader_epoch: int = 0) -> None:
    """Append so many batches of one record each, a millisecond apart."""
    for _ in range(count):
        batch = plain(timestamp=NOW_MS + log.end_offset, value=value)
        log.append(batch, leader_epoch=leader_epoch, now_ms=NOW_MS)


def checkpoint(log: Log) -> None:
    log.prepare_checkpoint()
    log.context.checkpoints.write()


def all_bytes(log: Log) -> bytes:
    """Every byte of every segment, checked."""
    return b"".join(bytes(batch.data) for segment in log.segments for batch in segment.batches())


def offsets(log: Log) -> list[int]:
    """The offset of every record."""
    return [record.offset for record in records(log)]


def records(log: Log) -> list[Record]:
    data = all_bytes(log)
    return [record for position, _ in iter_batches(data) for record in decode_batch(data, position)]


def content(disk: SimulatedDisk, path: str) -> bytes:
    return disk.open(path).read(0, 1 << 24)


def files_of(disk: SimulatedDisk, directory: str = LOG_DIRECTORY) -> dict[str, bytes]:
    """Every file of a partition directory."""
    return {name: content(disk, f"{directory}/{name}") for name in disk.list_dir(directory)}


def overwrite(disk: SimulatedDisk, path: str, data: bytes) -> None:
    """Put other bytes in a file, durably."""
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(0, data)
    file.sync()
