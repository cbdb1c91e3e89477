"""Real processes, real files, SIGKILL: what was reported durable is there, whenever the kill came."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from barnabas.core.model import TopicPartition
from barnabas.core.records.record import decode_batch
from barnabas.runtime.disk import OsDisk
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log

PARTITION = TopicPartition("t", 0)

# Opens the log, goes on where it ends, and prints each end offset once it is durable. Rolls often, and checkpoints
# now and then, so that a kill can hit all of it. Each record's value is its offset.
WRITER = """
import sys
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import Codec
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.disk import OsDisk
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir

config = LogConfig(segment_bytes=20_000)
data_dir = DataDir(OsDisk(), sys.argv[1])
list(data_dir.open_logs(lambda _: config))
log = data_dir.create_log(TopicPartition("t", 0), config)
print(log.end_offset, flush=True)
for number in range(1_000_000):
    start, count = log.end_offset, 1 + number % 7
    records = [
        Record(offset=n, timestamp=start + n, key=None, value=b"%d" % (start + n) * 20) for n in range(count)
    ]
    log.append(encode_batch(records, codec=Codec(number % 5)), leader_epoch=0, now_ms=0)
    if number % 5 == 0:
        log.flush()
        print(log.flushed_offset, flush=True)
    if number % 97 == 0:
        data_dir.checkpoint()
"""


def read_offsets(stream: IO[str], count: int) -> int:
    """The last of `count` reported offsets."""
    reported = 0
    for _ in range(count):
        reported = int(stream.readline())
    return reported


def write_and_kill(directory: Path, dice: random.Random) -> int:
    """Run the writer for a while, kill it, and return what it had reported durable."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        durable = read_offsets(writer.stdout, 1 + dice.randrange(120))
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().rpartition("\n")[0].splitlines()
    return int(rest[-1]) if rest else durable


def open_log(directory: Path) -> Log:
    data_dir = DataDir(OsDisk(), str(directory))
    list(data_dir.open_logs(lambda _: LogConfig(segment_bytes=20_000)))
    assert not data_dir.unreadable
    return data_dir.logs[PARTITION]


@pytest.mark.parametrize("seed", range(2))
def test_what_was_durable_survives_every_kill(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(8):
        durable = write_and_kill(tmp_path / "data", dice)
        log = open_log(tmp_path / "data")
        assert log.end_offset >= durable
        for segment in log.segments:
            for batch in segment.batches():
                for record in decode_batch(batch.data):
                    assert record.value == b"%d" % record.offset * 20
        assert sum(batch.header.record_count for s in log.segments for batch in s.batches()) == log.end_offset
