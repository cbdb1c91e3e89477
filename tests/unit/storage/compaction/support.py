"""A compacted log on a simulated disk, written, compacted and read the way a broker and its clients do it."""

from collections.abc import Iterator
from dataclasses import replace

from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import HEADER_SIZE, BatchHeader, Codec, TimestampType, read_header
from barnabas.core.records.control import MarkerType, encode_marker, read_marker
from barnabas.core.records.record import Record, decode_batch, encode_batch
from barnabas.core.replica.producers import Producer
from barnabas.storage.compaction import CompactionResult, Engine, apply, plan_compaction
from barnabas.storage.config import CleanupPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.storage.lookup import aborted_transactions
from barnabas.storage.scan import FoundBatch
from barnabas.testing.disk import SimulatedDisk

PARTITION = TopicPartition("t", 0)
HASH_KEY = bytes(range(16))
DAY = 24 * 60 * 60 * 1000
NOW = 1_700_000_000_000
CONFIG = LogConfig(
    cleanup_policy=(CleanupPolicy.COMPACT,), delete_retention_ms=DAY, segment_bytes=1024**2, index_interval_bytes=64
)


class CompactedLog:
    """One log with everything around it. Appends go to the log; nothing is buffered."""

    def __init__(self, config: LogConfig = CONFIG, *, seed: int = 0) -> None:
        self.config = config
        self.disk = SimulatedDisk(seed)
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.open()

    def open(self) -> Log:
        """Open the data directory: for the first time, or after a restart or crash of the disk."""
        self.data_dir = DataDir(self.disk, "/data")
        for _ in self.data_dir.open_logs(lambda _: self.config):
            pass
        assert not self.data_dir.unreadable, self.data_dir.unreadable
        self.log = self.data_dir.create_log(PARTITION, self.config)
        return self.log

    def restart(self, *, with_snapshots: bool = True) -> Log:
        """End the process without a clean shutdown, and start it again."""
        self.disk.restart()
        if not with_snapshots:
            for name in self.names(".snapshot"):
                self.disk.remove(f"/data/{PARTITION}/{name}")
        return self.open()

    def names(self, suffix: str = "") -> list[str]:
        """The files of the partition."""
        return [name for name in self.disk.list_dir(f"/data/{PARTITION}") if name.endswith(suffix)]

    # Writing

    def put(
        self,
        *pairs: tuple[str | None, str | None],
        producer: int | None = None,
        in_transaction: bool = False,
        codec: Codec = Codec.NONE,
        timestamp: int = NOW,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        leader_epoch: int = 0,
    ) -> int:
        """Append one batch of keys and values, None for a tombstone; returns its first offset."""
        records = [Record(i, timestamp + i, _encode(key), _encode(value)) for i, (key, value) in enumerate(pairs)]
        sequence = -1
        if producer is not None:
            sequence = self.sequences.get(producer, 0)
            self.sequences[producer] = sequence + len(pairs)
        batch = encode_batch(
            records,
            codec=codec,
            timestamp_type=timestamp_type,
            producer_id=-1 if producer is None else producer,
            producer_epoch=-1 if producer is None else self.epochs.setdefault(producer, 0),
            base_sequence=sequence,
            is_transactional=in_transaction,
        )
        return self.log.append(batch, leader_epoch=leader_epoch, now_ms=timestamp).first_offset

    def end(
        self,
        producer: int,
        type_: MarkerType,
        *,
        coordinator_epoch: int = 0,
        bumps_epoch: bool = False,
        timestamp: int = NOW,
    ) -> int:
        """Append the marker that ends a producer's transaction; returns its offset."""
        if bumps_epoch:
            self.epochs[producer] = self.epochs.get(producer, 0) + 1
            self.sequences[producer] = 0
        marker = encode_marker(
            type_,
            producer_id=producer,
            producer_epoch=self.epochs.setdefault(producer, 0),
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=timestamp,
        )
        return self.log.append(marker, leader_epoch=0, now_ms=timestamp).first_offset

    def commit(self, producer: int) -> int:
        return self.end(producer, MarkerType.COMMIT)

    def abort(self, producer: int) -> int:
        return self.end(producer, MarkerType.ABORT)

    def roll(self) -> None:
        """Close the active segment, durably: what is in it may be compacted now."""
        self.log.roll()
        self.log.flush()

    # Compacting

    def run(
        self,
        *,
        now: int = NOW,
        max_map_bytes: int = 1024**2,
        engine: Engine = Engine.PLAIN,
        high_watermark: int | None = None,
    ) -> CompactionResult:
        """A round up to the swap."""
        plan = plan_compaction(
            self.log,
            now_ms=now,
            hash_key=HASH_KEY,
            max_map_bytes=max_map_bytes,
            engine=engine,
            high_watermark=high_watermark,
            is_forced=True,
        )
        assert plan is not None
        return plan.run()

    def compact(
        self,
        *,
        now: int = NOW,
        max_map_bytes: int = 1024**2,
        engine: Engine = Engine.PLAIN,
        high_watermark: int | None = None,
    ) -> CompactionResult:
        """A whole round, due or not."""
        result = self.run(now=now, max_map_bytes=max_map_bytes, engine=engine, high_watermark=high_watermark)
        assert apply(self.log, result)
        return result

    @property
    def cleaned_to(self) -> int:
        return self.data_dir.checkpoints.cleaned_to(PARTITION)

    # Reading

    def batches(self) -> list[FoundBatch]:
        """Every batch, checked to the last byte."""
        return [
            batch._replace(data=memoryview(bytes(batch.data)))
            for segment in self.log.segments
            for batch in segment.batches()
        ]

    def headers(self) -> list[BatchHeader]:
        return [batch.header for batch in self.batches()]

    def records(self) -> list[Record]:
        """Every record of data, whatever became of its transaction."""
        return [
            record for batch in self.batches() if not batch.header.is_control for record in decode_batch(batch.data)
        ]

    def values(self) -> list[tuple[int, str | None, str | None]]:
        """Offset, key and value of every record of data."""
        return [(record.offset, _decode(record.key), _decode(record.value)) for record in self.records()]

    def markers(self) -> list[tuple[int, MarkerType]]:
        return [
            (batch.header.base_offset, read_marker(batch.data, 0, batch.header).type)
            for batch in self.batches()
            if batch.header.is_control
        ]

    def consume(self, *, max_bytes: int = 1024**2) -> list[Record]:
        """What a consumer with `isolation.level=read_committed` reads, in fetches of at most `max_bytes`."""
        log = self.log
        end = log.last_stable_offset(log.end_offset)
        offset = log.log_start_offset
        consumed: list[Record] = []
        while (found := log.read(offset, max_bytes=max_bytes, end_offset=end)) is not None:
            data = found.read()
            whole = list(_whole_batches(data))
            next_offset = whole[-1][1].next_offset
            consumed += self._visible(data, whole, offset, next_offset)
            offset = next_offset
        return consumed

    def _visible(self, data: bytes, batches: list[tuple[int, BatchHeader]], start: int, end: int) -> Iterator[Record]:
        """What stays after a consumer used the list of aborted transactions that comes with a fetch."""
        waiting = sorted(aborted_transactions(self.log, start, end), key=lambda each: each.first_offset)
        aborted: set[int] = set()
        for position, header in batches:
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            if header.is_control:
                if read_marker(data, position, header).type is MarkerType.ABORT:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                yield from (record for record in decode_batch(data, position) if record.offset >= start)

    def newest(self) -> dict[bytes, bytes]:
        """The table that a consumer builds: the newest value of each key, without the deleted ones."""
        table: dict[bytes, bytes | None] = {
            record.key: record.value for record in self.consume() if record.key is not None
        }
        return {key: value for key, value in table.items() if value is not None}

    def producers(self) -> dict[int, Producer]:
        """What the log knows of its producers; without the times of batches, which a snapshot keeps in part only."""
        return {
            producer.producer_id: replace(
                producer, batches=tuple(batch._replace(timestamp=0) for batch in producer.batches)
            )
            for producer in self.log.producers
        }


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _decode(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _whole_batches(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """The batches of a fetch, without the last one if that is cut off."""
    position = 0
    while position + HEADER_SIZE <= len(data):
        header = read_header(data, position)
        if position + header.size > len(data):
            return
        yield position, header
        position += header.size
