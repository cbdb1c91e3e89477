"""A topic as Arrow columns: batches come from the brokers as bytes and become columns natively.

Owns the columns a caller sees: `partition`, then those of `core.records.columnar`. Over TLS or SASL, which the raw
reader does not speak, records are read through librdkafka and put into the same columns, slower.

Needs the extra `arrow`. Reads what is committed unless told otherwise: records of aborted and open transactions are
left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from barnabas.client.consuming import pick_partitions, read_records
from barnabas.client.fetcher import EARLIEST, LATEST, Fetcher
from barnabas.client.message import Message
from barnabas.client.settings import READ_COMMITTED, Isolation, Settings
from barnabas.client.topics import Topics
from barnabas.core.errors import OffsetOutOfRange, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records import columnar

try:
    import pyarrow as pa
except ImportError as error:  # columnar has said so already
    raise ImportError("reading Arrow needs pyarrow and numba: pip install 'barnabas[arrow]'") from error

_PARTITION: Final = pa.field("partition", pa.int32(), nullable=False)
SCHEMA: Final = pa.schema([_PARTITION, *columnar.SCHEMA])
_CHUNK: Final = 10_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be read."""

    topic: str
    partitions: Sequence[int] | None
    start: Any
    end: int | Mapping[int, int] | None
    isolation: Isolation


def read_arrow(settings: Settings, topics: Topics, wanted: Wanted, columns: Sequence[str] | None) -> Any:
    """A `pyarrow.RecordBatchReader`: iterate over its batches, or `read_all()` for one table."""
    names = _checked_columns(columns)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    if settings.is_plaintext:
        batches = _read_raw(settings, wanted, names)
    else:
        batches = _read_slowly(settings, topics, wanted, names)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _checked_columns(columns: Sequence[str] | None) -> list[str]:
    names = SCHEMA.names if columns is None else list(columns)
    if not names or len(set(names)) < len(names) or any(name not in SCHEMA.names for name in names):
        raise ValueError(f"columns {names}: pick each at most once from {SCHEMA.names}")
    return names


def _read_raw(settings: Settings, wanted: Wanted, names: list[str]) -> Iterator[Any]:
    """Look at the topic now, so that what does not exist is refused now; read as batches are asked for."""
    topic, partitions = wanted.topic, wanted.partitions
    fetcher = Fetcher(settings.bootstrap, topic, settings.client_id, committed=wanted.isolation == READ_COMMITTED)
    try:
        ids = fetcher.partition_ids()
        missing = sorted(set(partitions or ()) - set(ids))
        if missing:
            raise UnknownTopicOrPartition(f"topic {topic!r} has partitions 0..{len(ids) - 1}, not {missing[0]}")
        ids = ids if partitions is None else sorted(set(partitions))
        latest = fetcher.offsets(ids, LATEST)
        earliest = fetcher.offsets(ids, EARLIEST)
        ranges = _ranges(wanted.start, wanted.end, earliest, latest)
    finally:
        fetcher.close()  # nothing stays open until the first batch is asked for
    return _decoded(fetcher, ranges, names)


def _ranges(
    start: Any, end: int | Mapping[int, int] | None, earliest: Mapping[int, int], latest: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """First and end offset per partition; the end is never beyond what is there now."""
    ranges = {
        id_: (_bound(start, id_, earliest, latest, earliest[id_]), min(_bound(end, id_, earliest, latest, last), last))
        for id_, last in latest.items()
    }
    for id_, (first, _) in ranges.items():
        if first < earliest[id_]:
            raise OffsetOutOfRange(f"partition {id_} begins at offset {earliest[id_]}; {first} is before it")
    return ranges


def _bound(wanted: Any, id_: int, earliest: Mapping[int, int], latest: Mapping[int, int], default: int) -> int:
    if isinstance(wanted, Mapping):
        return int(wanted.get(id_, default))
    named = {"earliest": earliest[id_], "latest": latest[id_], None: default}
    if wanted in named:
        return named[wanted]
    if isinstance(wanted, int):
        return wanted
    raise ValueError(f"{wanted!r} is not 'earliest', 'latest', a number or {{partition: number}}")


def _decoded(fetcher: Fetcher, ranges: dict[int, tuple[int, int]], names: list[str]) -> Iterator[Any]:
    of_records = [name for name in names if name != _PARTITION.name]
    try:
        for fetched in fetcher.read(ranges):
            start, end = ranges[fetched.partition]
            batch = columnar.decode_arrow(
                fetched.records,
                start_offset=start,
                end_offset=end,
                columns=of_records or ["offset"],  # something must say how many rows there are
                aborted=fetched.aborted,
            )
            if len(batch):
                yield _with_partition(batch, fetched.partition, names)
    finally:
        fetcher.close()


def _with_partition(batch: Any, partition: int, names: list[str]) -> Any:
    arrays = [
        pa.repeat(pa.scalar(partition, pa.int32()), len(batch)) if name == _PARTITION.name else batch.column(name)
        for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([SCHEMA.field(name) for name in names]))


def _read_slowly(settings: Settings, topics: Topics, wanted: Wanted, names: list[str]) -> Iterator[Any]:
    topic = wanted.topic
    ids = [key.partition for key in pick_partitions(topics, [topic], wanted.partitions)]
    latest = topics.offsets(topic, ids, LATEST, committed=wanted.isolation == READ_COMMITTED)
    earliest = topics.offsets(topic, ids, EARLIEST)
    ranges = _ranges(wanted.start, wanted.end, earliest, latest)
    starts = {TopicPartition(topic, id_): first for id_, (first, _) in ranges.items()}
    ends = {TopicPartition(topic, id_): last for id_, (_, last) in ranges.items()}
    records = read_records(settings, starts, ends, max_records=None, timeout_s=None, isolation=wanted.isolation)
    return _chunks(records, names)


def _chunks(records: Iterator[Message], names: list[str]) -> Iterator[Any]:
    while chunk := list(islice(records, _CHUNK)):
        yield batch_of(chunk).select(names)


def batch_of(records: Sequence[Message]) -> Any:
    """Records that were read one by one, in the columns of `SCHEMA`."""
    columns: dict[str, list[Any]] = {
        "partition": [record.partition for record in records],
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "offset": [record.offset for record in records],
        "timestamp": [record.timestamp_ms for record in records],
        "timestamp_type": [int(record.timestamp_type) for record in records],
        "headers": [[{"key": key, "value": value} for key, value in record.headers] for record in records],
    }
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)
