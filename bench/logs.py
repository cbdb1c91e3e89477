"""Logs and batches to measure with."""

from pathlib import Path

from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import Codec
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.disk import OsDisk
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log

PARTITION = TopicPartition("bench", 0)
VALUE_SIZE = 100


def make_batch(size: int, *, value_size: int = VALUE_SIZE, codec: Codec = Codec.NONE) -> bytearray:
    """A batch of about `size` bytes of records with 8-byte keys, and not a byte more."""
    overhead = 16 + value_size
    count = max(1, (size - 61) // overhead)
    while True:
        batch = encode_batch(make_records(count, value_size=value_size), codec=codec)
        if len(batch) <= size or count == 1:
            return batch
        count -= 1


def make_records(count: int, *, value_size: int = VALUE_SIZE, start: int = 0, keys: int = 0) -> list[Record]:
    """Records with a key each, all different or of `keys` many."""
    pattern = bytes(range(256)) * (value_size // 256 + 1)
    return [
        Record(
            offset=n,
            timestamp=1_700_000_000_000 + start + n,
            key=b"%08d" % ((start + n) % keys if keys else (start + n) % 10**8),
            value=pattern[:value_size],
        )
        for n in range(count)
    ]


def new_log(directory: Path, config: LogConfig) -> Log:
    return DataDir(OsDisk(), str(directory)).create_log(PARTITION, config)


def open_log(directory: Path, config: LogConfig) -> Log:
    """The log that is there, opened as after a crash or a clean shutdown."""
    data_dir = DataDir(OsDisk(), str(directory))
    for _ in data_dir.open_logs(lambda _: config):
        pass
    return data_dir.logs[PARTITION]
